"""What the target says about a small instance: rows by prefix, joint laws, acceptance curves.

Prefixes are numbered within their length, as digits of base V.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from simverify.arrays import Floats, Ints
from simverify.auditing.exact.instances.made import SmallModel
from simverify.battery.fault_rows import known_faults, slot_rows
from simverify.models.base import Model
from simverify.models.small import compact
from simverify.verifiers import Verifier

MAX_OUTPUTS = 20_000
"""Most outputs V^(gamma+1) of an instance: beyond it, rows by prefix are too many."""


@dataclass(frozen=True)
class SampledInstance:
    """A model and the draft length that the code is run with on it.

    ``eos``: the token that ends a generation. ``earlier_calls``: calls of an earlier
    generation, at most, after which a rule with state is reset. ``coarse``: whether it is there
    for a size or a kind of row, and gets few trials for a larger TV. ``rule``: what is run on it
    in the place of the rule on trial, as that at one place of a batch is.
    """

    model: Model
    gamma: int
    eos: int | None = None
    earlier_calls: int = 0
    coarse: bool = False
    rule: Callable[..., Any] | None = None

    @property
    def name(self) -> str:
        """Model and draft length."""
        after = ", after end of sequence" if self.earlier_calls else ""
        return f"{self.model.name}, gamma={self.gamma}{after}"


_PAIR = SmallModel("table, V=2", 2, ((1, 2), (3, 1)), ((2, 1), (1, 4)))
"""With V = 2 a table of two rows is all there is."""

_FINE: tuple[tuple[Model, int], ...] = (
    (compact(), 3),
    (SmallModel("table, V=4", 2, ((4, 1, 2, 3), (1, 5, 0, 4)), ((1, 5, 2, 2), (6, 0, 1, 3))), 2),
)
"""Few cells, many faults: compact, and a table whose rows depend on the two tokens before, with
zeros on either side and residuals of two tokens."""

_COARSE = (
    SmallModel(
        "long drafts, V=2", 4, ((3, 1), (2, 1), (1, 4)), ((1, 1), (1, 2), (2, 3)),
    ),
    SmallModel(
        # Ties of the likeliest tokens, one target row and one draft row of a single token,
        # one pair of equal rows.
        "ties, V=5", 2,
        ((2, 2, 1, 1, 2), (0, 1, 0, 0, 0), (1, 1, 1, 1, 1), (3, 0, 3, 0, 1), (1, 2, 3, 4, 5)),
        ((1, 3, 3, 1, 2), (1, 1, 1, 1, 1), (0, 0, 0, 1, 0), (3, 0, 1, 0, 3), (1, 2, 3, 4, 5)),
    ),
    SmallModel(
        # Every token has mass in some row, and seven of them in the residual of the first.
        "wide, V=12", 1,
        (
            (3, 1, 2, 0, 1, 4, 3, 2, 1, 2, 0, 2), (0, 4, 0, 0, 0, 0, 3, 0, 0, 2, 0, 0),
            (0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 4, 0), (0, 0, 2, 0, 0, 3, 0, 0, 0, 0, 0, 4),
            (0, 0, 0, 2, 4, 0, 0, 0, 3, 0, 0, 0),
        ),
        (
            (1, 2, 0, 1, 2, 1, 1, 1, 4, 1, 1, 1), (0, 1, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0),
            (0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0), (1, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0),
            (0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1),
        ),
    ),
)  # fmt: skip
"""What the others lack: the longest drafts, ties and rows of one token, the largest vocabulary."""


def default_instances(
    max_gamma: int = 4, max_vocab: int = 12, *, eos: int | None = None, resets: bool = False
) -> tuple[SampledInstance, ...]:
    """Return the instances of the sampled tier that fit, the coarse ones last.

    Those with the promised power are cut to ``max_gamma``; a coarse one is left out where it
    does not fit. ``eos`` is end of sequence to the code under audit; ``resets``: it keeps
    state, and is also run on after an earlier generation.
    """
    fine = [(m, gamma) for m, gamma in _FINE if m.vocab_size <= max_vocab] or [(_PAIR, 2)]
    chosen = [
        SampledInstance(model, min(gamma, max_gamma), eos=_held(eos, model))
        for model, gamma in fine
    ]
    if resets:
        end = 1 if eos is None else _held(eos, _PAIR)
        chosen.append(SampledInstance(_PAIR, min(2, max_gamma), eos=end, earlier_calls=2))
    chosen += [
        SampledInstance(model, model.gamma, eos=_held(eos, model), coarse=True)
        for model in _COARSE
        if model.gamma <= max_gamma and model.vocab_size <= max_vocab
    ]
    return tuple(chosen)


def _held(eos: int | None, model: Model) -> int | None:
    """Return ``eos`` if the model's vocabulary has it."""
    return eos if eos is not None and eos < model.vocab_size else None


class Tables:
    """Rows and laws of ``instance`` for all prefixes of up to ``length`` - 1 tokens.

    ``target[l]``, ``draft[l]``: (V^l, V), the rows after each prefix of l tokens.
    """

    def __init__(self, instance: SampledInstance, length: int) -> None:
        self.instance = instance
        self.length = length
        self.vocab_size = instance.model.vocab_size
        prefixes: list[tuple[int, ...]] = [()]
        self.target: list[Floats] = []
        self.draft: list[Floats] = []
        for _ in range(length):
            self.target.append(np.array([instance.model.target(x) for x in prefixes]))
            self.draft.append(np.array([instance.model.draft(x) for x in prefixes]))
            prefixes = [(*x, y) for x in prefixes for y in range(self.vocab_size)]

    def codes(self, tokens: Ints, length: int) -> Ints:
        """Number of each row's first ``length`` tokens, (n,), from ``tokens`` (n, any)."""
        code = np.zeros(len(tokens), dtype=np.int64)
        for position in range(length):
            code = code * self.vocab_size + tokens[:, position]
        return code

    def joint(self, length: int) -> Floats:
        """Target's law of the first ``length`` tokens, (V^length,)."""
        law = np.ones(1)
        for level in range(length):
            law = (law[:, None] * self.target[level]).ravel()
        return law

    @cached_property
    def blocks(self) -> tuple[Floats, Floats]:
        """Target rows (V^gamma, gamma+1, V) and draft rows (V^gamma, gamma, V) per block."""
        gamma = self.instance.gamma

        def along(rows: list[Floats], levels: int) -> Floats:
            spread = [np.repeat(rows[i], self.vocab_size ** (gamma - i), 0) for i in range(levels)]
            return np.ascontiguousarray(np.stack(spread, axis=1))

        return along(self.target, gamma + 1), along(self.draft, gamma)

    @cached_property
    def contexts(self) -> list[tuple[Ints, Floats, Floats]]:
        """Per position: the context of each prefix, and the contexts' target and draft rows.

        Prefixes with equal target and draft rows share a context.
        """
        result = []
        for target, draft in zip(self.target, self.draft, strict=True):
            both = np.hstack([target, draft])
            rows, index = np.unique(both, axis=0, return_inverse=True)
            p, q = rows[:, : self.vocab_size], rows[:, self.vocab_size :]
            result.append((index.ravel().astype(np.int64), p, q))
        return result

    @cached_property
    def slot_laws(self) -> list[Floats]:
        """Per slot of a call from the empty prefix: rows (M, V^l, V) of the known faults."""
        faults = known_faults(prefix=True, first_row=True)
        target, draft = self.blocks
        size, result = self.vocab_size, []
        for level in range(self.length):
            # Blocks that begin with the same tokens have the same rows up to the slot.
            first = np.arange(size**level) * size ** (self.instance.gamma - level)
            prefixes = list(itertools.product(range(size), repeat=level))
            result.append(slot_rows(faults, target[first], draft[first], prefixes))
        return result

    def complete(self, tokens: Ints, lengths: Ints, uniforms: Floats) -> Ints:
        """Fill each row of ``tokens`` (n, length) beyond its length with target samples.

        ``uniforms``: (n, length) in [0, 1).
        """
        return self._draw(self.target, tokens.copy(), lengths, uniforms)

    def drafts(self, gamma: int, uniforms: Floats) -> Ints:
        """Draft blocks (n, gamma) from ``uniforms`` (n, gamma) in [0, 1)."""
        blank = np.zeros((len(uniforms), gamma), dtype=np.int64)
        return self._draw(self.draft, blank, np.zeros(len(uniforms), dtype=np.int64), uniforms)

    def _draw(self, rows: list[Floats], tokens: Ints, lengths: Ints, uniforms: Floats) -> Ints:
        for position in range(tokens.shape[1]):
            (open_rows,) = np.nonzero(lengths <= position)
            laws = rows[position][self.codes(tokens[open_rows], position)]
            cdf = np.cumsum(laws, axis=1)
            # The last token of positive mass takes what rounding leaves of the unit.
            cdf /= cdf[:, -1:]
            tokens[open_rows, position] = (uniforms[open_rows, position, None] >= cdf).sum(axis=1)
        return tokens

    def curve(self, verifier: Verifier) -> Floats:
        """Pr(tau >= l), l = 1..gamma, of a built-in rule's (first) call."""
        m = b = f = np.ones(1)
        levels = []
        for level in range(self.instance.gamma):
            p, q = self.target[level], self.draft[level]
            f = verifier.tree_step(m[:, None], b[:, None], f[:, None], p, q)[0].ravel()
            m, b = (m[:, None] * q).ravel(), (b[:, None] * p).ravel()
            levels.append(f.sum())
        curve: Floats = np.minimum(np.array(levels), 1.0)
        return curve
