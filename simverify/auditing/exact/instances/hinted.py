"""Instances made for the numbers that stand in the code under audit.

A literal 50 may be a limit of the vocabulary, of a token's id, of the length of a prefix or of a
draft; a literal .995 one of a probability or of p/q. Each gives small instances on either side of
it, whatever the sizes that the battery keeps to: rows of few tokens keep the paths few.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from simverify.auditing.exact.instances.made import SmallModel
from simverify.auditing.exact.instances.rows import Pair, Weights

Contract = Literal["verify", "step", "tree", "draft"]

MOST_NUMBERS = 12
"""Numbers of each kind that instances are made for, the smallest first."""

MAX_VOCAB = 300
"""Largest V: the law of two tokens has V^2 entries."""

MAX_GAMMA = 8
MAX_PROMPT = 600
MAX_COUNT = 12
"""Most nodes, children and tokens of small trees that are made for a number."""

_BYTE = 256
"""Ids of eight bits wrap here without any number in the code."""

_LEAST_END = 6
"""Vocabularies of so many tokens and fewer are all in the battery."""

_MOST_WIDE = 24
"""V of rows that hold all ids where the code drafts itself: V^2 paths."""

UNIT = 10_000_000
NEAR = Fraction(1, 400)
"""How far from a number the instances on either side of it are, relative to it."""


@dataclass(frozen=True)
class Hints:
    """Numbers of the code that instances go to either side of.

    ``sizes``: of vocabularies and ids. ``drafts``: draft lengths beyond the battery's.
    ``parts``: of probabilities and p/q. ``lengths``: of prefixes, for rules that see them.
    ``counts``: of what a draft tree has many of, and of small vocabularies, for code on trees.
    ``ends``: vocabularies of just so many tokens, and of one more: code that goes through them
    piece by piece may lose the last.
    """

    sizes: tuple[int, ...] = ()
    drafts: tuple[int, ...] = ()
    parts: tuple[float, ...] = ()
    lengths: tuple[int, ...] = ()
    counts: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()

    @classmethod
    def among(
        cls, numbers: Iterable[int | float], contract: Contract, max_gamma: int, max_vocab: int
    ) -> "Hints":
        """Return those of ``numbers`` that the battery's V and gamma do not reach already."""
        found = set(numbers)
        whole = sorted({int(x) for x in found if abs(x) < 1e6 and float(x).is_integer()})
        # Whole ones above 1 are indices in all code there is.
        parts = sorted(
            {
                float(x)
                for x in found
                if 1e-6 < x < 1 - 1e-9 or (isinstance(x, float) and 1 < x <= 8)
            }
        )
        drafts = {n for k in whole for n in (k, k + 1) if max_gamma < n <= MAX_GAMMA}
        lengths = [k for k in whole if 3 < k <= MAX_PROMPT] if contract in ("step", "draft") else []
        sizes = [k for k in whole if max_vocab <= k + 2 <= MAX_VOCAB and k > 1]
        blocks = contract in ("verify", "step")
        ends = [k for k in whole if _LEAST_END <= k < MAX_VOCAB] if blocks else []
        counts = [k for k in whole if 3 <= k <= MAX_COUNT] if contract in ("tree", "draft") else []
        return cls(
            tuple(sizes[:MOST_NUMBERS]), tuple(sorted(drafts)), tuple(parts[:MOST_NUMBERS]),
            tuple(lengths[:MOST_NUMBERS]), tuple(counts[:MOST_NUMBERS]), tuple(ends[:MOST_NUMBERS]),
        )  # fmt: skip

    @property
    def numbers(self) -> tuple[float, ...]:
        """All of them."""
        kinds = self.sizes, self.drafts, self.parts, self.lengths, self.counts, self.ends
        return tuple(sorted({x for numbers in kinds for x in numbers}))

    def models(self, contract: Contract, eos: int | None = None) -> list[SmallModel]:
        """Return the instances; ``eos`` ends a generation where the vocabulary has it."""
        sizes = [model for k in (*self.sizes, _BYTE) for model in _of_size(k, contract)]
        models = [model for x in self.parts for model in of_part(x)]
        models += [_of_gamma(n) for n in self.drafts]
        models += [_of_prompt(k, eos) for k in self.lengths]
        models += sizes
        models += [_ending_at(k, vocab) for k in self.ends for vocab in (k, k + 1)]
        return [
            replace(m, eos=eos) if eos is not None and eos < m.vocab_size else m for m in models
        ]


def _of_size(k: int, contract: Contract) -> Iterator[SmallModel]:
    """Yield rows on a few ids around ``k``, and rows that hold all ids of a vocabulary."""
    vocab = k + 2
    ids = sorted({0, k - 1, k, vocab - 1})

    def sparse(*weights: int) -> Weights:
        row = [0] * vocab
        for token, weight in zip(ids, weights, strict=False):
            row[token] = weight
        return tuple(row)

    pairs = [
        (sparse(2, 3, 1, 4), sparse(3, 1, 4, 2)),
        (sparse(1, 4, 3, 2), sparse(4, 2, 1, 3)),
        (sparse(3, 1, 2, 5), sparse(1, 3, 3, 1)),
    ]
    yield _model(f"around {k}, V={vocab}, gamma=1, few ids", 1, pairs)
    # A residual of every token, one drafted: as many paths as tokens.
    if contract == "step" and vocab > _MOST_WIDE:
        return
    every = tuple(1 + (7 * x) % 5 for x in range(vocab))
    one = tuple(int(x == k) for x in range(vocab))
    yield _model(f"around {k}, V={vocab}, gamma=1, all ids", 1, [(every, one)])


def _ending_at(k: int, vocab: int) -> SmallModel:
    """Rows on the first and the last ids."""
    target, draft = [0] * vocab, [0] * vocab
    target[0], target[-2], target[-1] = 2, 1, 3
    draft[0], draft[-1] = 3, 1
    return _model(f"ending at {k}, V={vocab}, gamma=1", 1, [(tuple(target), tuple(draft))])


def _of_gamma(gamma: int) -> SmallModel:
    """Rows of two tokens, most drafts certain."""
    pairs: list[Pair] = [((1, 2), (0, 1)), ((3, 1), (1, 1)), ((2, 3), (1, 0))]
    return _model(f"around {gamma}, V=2, gamma={gamma}", gamma, pairs)


def _of_prompt(k: int, eos: int | None) -> SmallModel:
    """Outputs that begin one token before a prefix of ``k``, and go on beyond it."""
    usual = [token for token in (0, 1) if token != eos]
    prompt = tuple(usual[x % len(usual)] for x in range(k - 1))
    targets, drafts = ((1, 2), (3, 1), (2, 3)), ((2, 1), (1, 1), (4, 1))
    return SmallModel(
        f"around {k}, V=2, gamma=2, after {k - 1} tokens", 2, targets, drafts, prompt=prompt
    )


def of_part(x: float) -> Iterator[SmallModel]:
    """Yield single rows in which p/q, p or q stands on either side of ``x``."""
    near = Fraction(x).limit_denominator(1_000_000)
    sides = [near * (1 - NEAR), near * (1 + NEAR)]
    if near < 1:
        sides = [near / 2, sides[0], min(sides[1], (near + 1) / 2), (near + 1) / 2]
    for n, side in enumerate(sides, 1):
        q = min(Fraction(1, 2), Fraction(9, 10) / side)
        rows = {"p/q": (q * side, q)}
        if side < 1:
            rows |= {"p": (side, Fraction(1, 3)), "q": (Fraction(1, 3), side)}
        for what, (p, draft) in rows.items():
            yield _model(
                f"around {x:g}, {what} {n}, V=3, gamma=1", 1, [(_row(p, 2), _row(draft, 3))]
            )


def _row(first: Fraction, parts: int) -> Weights:
    """Return the weights of a row of three with so much on token 0, the rest one to ``parts``."""
    rest = 1 - first
    shares = (first, rest / (1 + parts), rest * parts / (1 + parts))
    return tuple(max(1, round(share * UNIT)) for share in shares)


def _model(name: str, gamma: int, pairs: list[Pair]) -> SmallModel:
    return SmallModel(name, gamma, tuple(p for p, _ in pairs), tuple(q for _, q in pairs))
