"""Small instances to put code on: rows that depend on the prefix, in fractions.

The battery is small scope: faults of verifiers show on tiny vocabularies if the rows differ
by prefix, residuals have two tokens or more, some p/q are below 1/2, and zeros stand on
either side.
"""

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np

from simverify.arrays import Row
from simverify.auditing.exact.instances.rows import (
    CORE,
    LARGE,
    NEAR_ONE,
    ROWS,
    Pair,
    Weights,
    large_rows,
    random_rows,
    sweep,
)
from simverify.results import Instance
from simverify.trees import Drafting


@dataclass(frozen=True)
class SmallModel:
    """A target and a draft whose row is chosen by the prefix from a few.

    Rows are integer weights, normalised; ``targets`` and ``drafts`` have equal length n, and
    the row after a prefix is number (length + 2 last + 3 last but one + a) mod n, tokens counted
    from 1; a is the alternating sum of the tokens before these, so that code which looks at the
    end of its context alone is on other rows. ``eos``: the token that ends a generation: what a
    call emits after it is dropped, as a decoding loop does. ``certain_after``: so many tokens
    behind the prompt each row holds one token, the likeliest of the target's. ``core``: a verdict
    needs it. ``earlier_calls``: calls of an earlier generation, at most, after which
    a rule with state is reset; it must owe nothing to it. ``prompt``: tokens that a rule which
    drafts itself goes on from. ``family``: of hand-made rows, what they have in common.
    ``drafting``: how trees are drafted, for rules that judge them; gamma is then their depth.
    """

    name: str
    gamma: int
    targets: tuple[Weights, ...]
    drafts: tuple[Weights, ...]
    earlier_calls: int = 0
    eos: int | None = None
    prompt: tuple[int, ...] = ()
    family: str = ""
    certain_after: int | None = None
    core: bool = False
    drafting: Drafting | None = None

    @property
    def vocab_size(self) -> int:
        """Number of tokens V."""
        return len(self.targets[0])

    @property
    def is_small(self) -> bool:
        """Whether it gets as many paths as there are; larger ones get a part of them."""
        return self.core or (self.vocab_size <= 3 and self.gamma <= 2)

    @property
    def certain_drafts(self) -> bool:
        """Whether every draft row holds one token: then a rule that drafts has few paths."""
        return all(sum(w > 0 for w in row) == 1 for row in self.drafts)

    def target(self, prefix: Sequence[int]) -> Row:
        """Row (V,) of the target after ``prefix``."""
        return _row(self._weights(self.targets, prefix))

    def draft(self, prefix: Sequence[int]) -> Row:
        """Row (V,) of the draft after ``prefix``."""
        return _row(self._weights(self.drafts, prefix))

    def document(self, depth: int, sequence: tuple[int, ...] = ()) -> Instance:
        """Rows after the prompt and up to ``depth`` tokens more, as fractions.

        And those that a rule that drafts may ask for on its way to ``sequence``.
        """
        tokens = range(self.vocab_size)
        prefixes = dict.fromkeys(
            x for length in range(depth + 1) for x in itertools.product(tokens, repeat=length)
        )
        for end in range(1, len(sequence)):
            for drafted in range(self.gamma + 1):
                for x in itertools.product(tokens, repeat=drafted):
                    if end + drafted > depth:
                        prefixes[sequence[:end] + x] = None

        def table(rows: tuple[Weights, ...]) -> dict[str, tuple[float | str, ...]]:
            def row(prefix: tuple[int, ...]) -> tuple[str, ...]:
                weights = self._weights(rows, self.prompt + prefix)
                return tuple(str(Fraction(w, sum(weights))) for w in weights)

            return {",".join(map(str, prefix)): row(prefix) for prefix in prefixes}

        return Instance(
            name=self.name,
            vocab_size=self.vocab_size,
            gamma=self.gamma,
            earlier_calls=self.earlier_calls,
            eos=self.eos,
            prompt=self.prompt,
            parents=self.drafting.shape.parents if self.drafting else None,
            scheme=self.drafting.scheme.name if self.drafting else None,
            target_probs=table(self.targets),
            draft_probs=table(self.drafts),
        )

    def _weights(self, rows: tuple[Weights, ...], prefix: Sequence[int]) -> Weights:
        index = self._index(prefix)
        if self.certain_after is None or len(prefix) < len(self.prompt) + self.certain_after:
            return rows[index]
        target = self.targets[index]
        likeliest = target.index(max(target))
        return tuple(int(token == likeliest) for token in range(len(target)))

    def _index(self, prefix: Sequence[int]) -> int:
        last = prefix[-1] + 1 if len(prefix) > 0 else 0
        before = prefix[-2] + 1 if len(prefix) > 1 else 0
        # Whatever n is, one of these tokens more or less makes another row.
        earlier = sum(prefix[-3::-2]) - sum(prefix[-4::-2])
        return int(len(prefix) + 2 * last + 3 * before + earlier) % len(self.targets)


def _row(weights: Weights) -> Row:
    return _normalised(weights).copy()


@lru_cache(maxsize=4096)
def _normalised(weights: Weights) -> Row:
    row = np.array(weights, dtype=np.float64)
    return np.asarray(row / row.sum(), dtype=np.float64)


_SWEEP = "sweep"


def battery(max_gamma: int, max_vocab: int, *, seed: int = 0) -> Iterator[SmallModel]:
    """Yield the instances from small to large, by an estimate of the paths they take.

    Hand-made rows for V = 2 and 3, the first pair alone (the same row everywhere) before all
    of them, and seeded random rows up to V = 12; gamma up to ``max_gamma`` (4 at most for V
    up to 5, 2 beyond). Last a sweep of V = 2, which is for the odd fault that the others miss.
    """
    models: list[SmallModel] = []
    for vocab, families in ROWS.items():
        for name, pairs in families:
            for gamma in range(1, min(max_gamma, 3 if vocab == 3 else 4) + 1):
                models.append(_small(f"{name}, V={vocab}, gamma={gamma}", gamma, pairs, name))
            models.append(_small(f"{name}, V={vocab}, one row", 1, pairs[:1], name))
    rng = random.Random(seed)
    for vocab, gamma, count in (
        (3, 2, 8), (3, 3, 3), (4, 1, 5), (4, 2, 4), (4, 3, 1), (5, 1, 5), (5, 2, 1), (3, 4, 1),
    ):  # fmt: skip
        for i in range(count):
            pairs = random_rows(rng, vocab, 5)
            models.append(_small(f"random {i + 1}, V={vocab}, gamma={gamma}", gamma, pairs))
    rng = random.Random(seed + 1)
    for vocab, gamma, most, count in LARGE:
        for i in range(count):
            pairs = large_rows(rng, vocab, most)
            name = f"large {i + 1}, V={vocab}, gamma={gamma}, drafts of {most}"
            models.append(_small(name, gamma, pairs))
    fitting = [m for m in models if m.gamma <= max_gamma and m.vocab_size <= max_vocab]
    yield from sorted(fitting, key=lambda m: ((2 * m.vocab_size) ** m.gamma * m.vocab_size, m.name))
    yield from (
        _small(f"{_SWEEP} {i}, V={len(pair[0])}, one row", 1, [pair], _SWEEP)
        for i, pair in enumerate(sweep(), 1)
        if len(pair[0]) <= max_vocab
    )


def _small(name: str, gamma: int, pairs: Sequence[Pair], family: str = "") -> SmallModel:
    targets, drafts = zip(*pairs, strict=True)
    return SmallModel(name, gamma, targets, drafts, family=family)


_STEP_MOST = {(3, 2): 8, (3, 3): 4}
"""Most instances of a size (V, gamma) for rules that draft themselves: their paths multiply."""

_TWO_TOKENS = {
    (2, 2): (((1, 2), (3, 1), (2, 3)), ((2, 1), (1, 1), (4, 1))),
    (3, 2): (((1, 1, 1), (5, 5, 4), (3, 1, 3)), ((1, 4, 6), (2, 1, 6), (2, 2, 1))),
}
"""Rows of targets and drafts, by size (V, gamma), of which all is certain after two tokens."""

_PROMPT = 12
"""Tokens of a prompt: more than any output of the other instances has."""

_EARLIER_SIZE = (2, 2)
"""Size (V, gamma) at which an earlier generation is run before the one that is judged."""


def instances_for(
    contract: Literal["verify", "step"],
    max_gamma: int,
    max_vocab: int,
    seed: int,
    eos: int | None = None,
) -> list[SmallModel]:
    """Return the battery for a contract.

    Rules that draft themselves get V, gamma up to 3 and a few larger vocabularies; they are
    also run on after an earlier generation, cut short or ended by end of sequence, and up to
    an end of sequence inside a block. ``eos``: the id that the code under audit takes for end
    of sequence: then it is one wherever the vocabulary has it. Without it the last token is,
    and only where nothing but generations is judged.
    """
    models = list(battery(max_gamma, max_vocab, seed=seed))
    if contract == "step":
        models = _step_models(models, eos)
    models = [replace(m, core=True) if m.name in CORE[contract] else m for m in models]
    if eos is None:
        return models
    return [replace(m, eos=eos if eos < m.vocab_size else None) for m in models]


def _step_models(models: list[SmallModel], eos: int | None) -> list[SmallModel]:
    taken: Counter[tuple[int, int]] = Counter()
    chosen = []
    for model in models:
        if model.family == _SWEEP:
            continue  # a call of such code meets many rows, and costs more to set up
        size = (model.vocab_size, model.gamma)
        taken[size] += 1
        if size in _TWO_TOKENS and taken[size] == 1:
            rows = _TWO_TOKENS[size]
            name = f"two tokens, V={model.vocab_size}, gamma={model.gamma}"
            chosen.append(SmallModel(name, model.gamma, *rows, certain_after=2))
        small = model.vocab_size <= 3 and model.gamma <= 3
        if (small and taken[size] <= _STEP_MOST.get(size, len(models))) or _lean(model):
            chosen.append(model)
        if size == _EARLIER_SIZE:
            end = 1 if eos is None else eos
            name = f"{model.name}, after end of sequence {end}"
            chosen.append(replace(model, name=name, earlier_calls=2, eos=end))
            chosen.append(replace(model, name=f"{model.name}, after a reset", earlier_calls=1))
    most = max((m.vocab_size for m in models), default=0), max((m.gamma for m in models), default=0)
    return chosen + [m for m in _step_only(eos) if m.vocab_size <= most[0] and m.gamma <= most[1]]


def _step_only(eos: int | None) -> Iterator[SmallModel]:
    """Yield instances for rules that draft themselves.

    A block that is compared to its end, with residuals of two tokens: drafts are nearly all
    certain, so that its paths stay few. Outputs that follow a prompt: a long one, one shorter
    than a block, one of odd length that begins high and falls. A generation whose
    first draft is the end of sequence, often accepted with a rejection behind it: greedy block
    then still owes something, which the next generation does not.
    """
    yield SmallModel(
        "sparse, V=3, gamma=3, whole block", 3,
        ((2, 3, 4), (3, 1, 2), (1, 5, 2)), ((0, 1, 0), (1, 0, 0), (0, 0, 1)),
    )  # fmt: skip
    targets, drafts = zip(*NEAR_ONE, strict=True)
    yield SmallModel("nearly equal, V=3, gamma=1", 1, targets, drafts)
    for vocab, gamma, targets, drafts in (
        (2, 2, ((1, 2), (3, 1), (2, 3)), ((2, 1), (1, 1), (4, 1))),
        (3, 1, ((5, 1, 6), (6, 3, 3), (4, 2, 6)), ((6, 2, 4), (5, 6, 1), (2, 9, 1))),
    ):
        usual = [token for token in range(vocab) if token != eos]
        for length, tokens in ((_PROMPT, usual), (1 if gamma > 1 else 5, usual[::-1])):
            prompt = tuple(itertools.islice(itertools.cycle(tokens), length))
            name = f"after a prompt of {length}, V={vocab}, gamma={gamma}"
            yield SmallModel(name, gamma, targets, drafts, prompt=prompt)
    end = 1 if eos is None else eos
    rows = ((1, 1), (2, 3), (9, 1)), ((0, 1), (3, 2), (1, 9))
    if end < 2:
        p, q = (tuple(row if end else row[::-1] for row in side) for side in rows)
        name = f"accepted end of sequence {end}, V=2, gamma=3"
        yield SmallModel(name, 3, p, q, earlier_calls=1, eos=end)


def _lean(model: SmallModel) -> bool:
    """Whether a large vocabulary leaves a rule that drafts itself few paths."""
    return model.vocab_size > 3 and model.gamma == 1 and model.certain_drafts
