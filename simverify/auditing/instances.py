"""Small instances for every contract: rows that depend on the prefix, in fractions.

The battery is small scope: faults of verifiers show on tiny vocabularies if the rows differ by
prefix, residuals have two tokens or more, some p/q are below 1/2, and zeros stand on either side.
"""

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, Literal

import numpy as np

from simverify.arrays import Row
from simverify.errors import UsageError
from simverify.models.distribution import ORDERS, TRUNCATION_STAGES, Law
from simverify.results import Instance
from simverify.trees import ROOT, Drafting, Scheme, TreeShape, get_scheme, shape_of_levels

# Rows of the small instances: pairs of target and draft rows, as integer weights.

RowWeights = tuple[float, ...]
RowPair = tuple[RowWeights, RowWeights]


def parse_rows(text: str) -> list[tuple[int, ...]]:
    """Read rows of whole numbers: ``5 1 6, 6 2 4``."""
    return [tuple(map(int, row.split())) for row in text.split(",")]


def _parse_families(text: str) -> dict[str, list[list[RowWeights]]]:
    """Read lines ``name: 5 1 6 / 6 2 4, ...``: target and draft row, or the draft row alone."""
    return {
        name.strip(): [[*parse_rows(rows.replace("/", ","))] for rows in rest.split(",")]
        for name, _, rest in (line.partition(":") for line in text.strip().splitlines())
    }


def _row_pairs(text: str) -> dict[str, list[RowPair]]:
    return {name: [(p, q) for p, q in rows] for name, rows in _parse_families(text).items()}


# Pairs target / draft of rows by what they are for; the first of each list stands alone.
ROWS_BY_VOCAB = {
    2: _row_pairs("""
        plain: 1 2 / 2 1, 3 1 / 1 1, 2 3 / 4 1
        p zero: 0 1 / 1 1, 1 0 / 1 2, 1 1 / 2 1
        q zero: 1 1 / 0 1, 2 1 / 1 0, 1 2 / 1 1
        equal: 1 2 / 1 2, 3 1 / 3 1, 1 1 / 1 1
        disjoint: 0 1 / 1 0, 1 0 / 0 1, 1 2 / 2 1
        skewed: 1 999 / 1 1, 1 1 / 1 999, 1 99 / 99 1, 9 1 / 1 9
    """),
    3: _row_pairs("""
        plain: 5 1 6 / 6 2 4, 6 3 3 / 5 6 1, 4 2 6 / 2 9 1, 3 3 6 / 4 6 2, 1 5 6 / 8 3 1
        wide residual: 4 4 1 / 1 1 7, 1 3 5 / 7 1 1, 5 2 2 / 1 7 1, 3 1 5 / 1 7 1
        p zero: 0 2 1 / 3 1 1, 1 0 3 / 1 2 1, 2 1 0 / 1 1 4, 1 1 1 / 2 1 3
        q zero: 2 1 1 / 0 1 3, 1 3 1 / 2 0 1, 1 1 2 / 3 1 0, 3 1 2 / 1 3 1
        one-hot draft: 2 1 3 / 1 0 0, 1 2 1 / 0 0 1, 3 1 1 / 0 1 0
        one-hot target: 0 1 0 / 1 1 2, 1 0 0 / 2 1 1, 0 0 1 / 1 3 1
        ties: 1 1 1 / 2 1 1, 1 1 2 / 1 1 1, 2 1 2 / 1 1 1
        equal: 1 2 3 / 1 2 3, 2 2 1 / 2 2 1
        skewed: 1 10 989 / 500 499 1, 1 1 98 / 98 1 1, 40 1 9 / 1 40 9, 9000 900 100 / 1 1 1
        rare draft: 1 99999899 100/100 99999899 1, 1 1 1/1 9 999990, 1 9 999990/500000 499999 1
        rare residual: 2 499998 500000 / 0 999999 1, 1 9 99990 / 1 1 1, 1 1 1 / 2 1 2
        disjoint: 1 2 0 / 0 0 1, 0 1 1 / 1 0 0, 1 0 2 / 0 1 0
    """),
}

_RANDOM_SIZES = parse_rows("3 2 8, 3 3 3, 4 1 5, 4 2 4, 4 3 1, 5 1 5, 5 2 1, 3 4 1")
"""(V, gamma, instances) of random rows."""

LARGE_SIZES = parse_rows(
    "4 1 1, 4 4 2, 5 1 1, 5 4 2, 6 1 1, 6 1 6, 6 2 3, 8 1 1, 8 1 8, 8 2 5, 9 1 9, 12 1 1, 12 1 12, "
    "12 2 5"
)
"""(V, gamma, tokens that a draft row holds) of the larger vocabularies.

Targets hold every token, so residuals are wide: a list of five, or a mask of eight bits, is
too short for them. Drafts of few tokens keep the paths few.
"""

NEAR_ONE_RATIO_ROWS: tuple[RowPair, ...] = (
    ((999, 501, 500), (1_000, 500, 500)),
    ((9_995, 5_003, 5_002), (10_000, 5_000, 5_000)),
    ((99_999, 50_001, 50_000), (100_000, 50_000, 50_000)),
)
"""Ratios p/q just under 1 and just above: what is nearly always accepted still takes a coin."""


def large_rows(rng: random.Random, vocab: int, most: int) -> list[RowPair]:
    """Random rows whose targets hold every token and whose drafts hold ``most``."""

    def draft() -> RowWeights:
        held = rng.sample(range(vocab), most)
        return tuple(rng.randint(1, 9) if x in held else 0 for x in range(vocab))

    return [(tuple(rng.randint(1, 9) for _ in range(vocab)), draft()) for _ in range(4)]


def random_rows(rng: random.Random, vocab: int, count: int) -> list[RowPair]:
    """Random rows with zeros here and there; every row has some mass."""
    row = partial(_random_row, rng, vocab, (0, 1, 1, 2, 3, 5, 8))
    return [(row(), row()) for _ in range(count)]


def _random_row(rng: random.Random, vocab: int, choices: Sequence[int]) -> RowWeights:
    weights = [rng.choice(choices) for _ in range(vocab)]
    weights[rng.randrange(vocab)] += 1
    return tuple(weights)


def sweep_rows() -> Iterator[RowPair]:
    """Yield rows of two tokens whose q steps through (0, 1) by .01, with p/q all over (0, 1).

    Then rows of three tokens with p/q next to 1, and with p and q next to 0 and 1.
    """
    golden = (math.sqrt(5) - 1) / 2
    for k in range(100):
        q = 100 * k + 50
        p = max(1, round(q * ((k + 1) * golden % 1)))
        yield (p, 10_000 - p), (q, 10_000 - q)
    yield from NEAR_ONE_RATIO_ROWS
    yield (1, 5_000_000, 4_999_999), (2, 4_999_999, 4_999_999)
    yield (9_999_996, 3, 1), (9_999_990, 4, 6)


_ONE_DRAFT_INSTANCES = {"plain, V=2, gamma=1", "plain, V=3, gamma=1", "wide residual, V=3, gamma=1"}

ALL_HISTORIES_INSTANCES = frozenset(
    {*_ONE_DRAFT_INSTANCES, "plain, V=2, gamma=2", "plain, V=3, gamma=2", "plain, V=3, gamma=3"}
)
"""Names of instances on which calls are made after each way in which earlier ones can end."""

CORE_INSTANCES = {
    "verify": ALL_HISTORIES_INSTANCES,
    # A call may run several rounds, whose paths multiply: two tokens are all that is random.
    "step": frozenset(
        {*_ONE_DRAFT_INSTANCES, "two tokens, V=2, gamma=2", "two tokens, V=3, gamma=2"}
    ),
}
"""Names of the instances that a verdict needs, by contract: they expose every catalogued fault
which shows in the law of a call or of a generation."""


@dataclass(frozen=True)
class SmallModel:
    """A target and a draft whose row is chosen by the prefix from a few.

    ``targets`` and ``drafts`` are integer weights, of equal length n: the row after a prefix is
    number (length + 2 last + 3 last but one + a) mod n, tokens counted from 1; a is the alternating
    sum of the tokens before these, so that code which looks at the end of its context alone is on
    other rows. ``eos``: what a call emits after this token is dropped, as a decoding loop does.
    ``certain_after``: so many tokens behind the prompt each row holds one token, the likeliest of
    the target's. ``processing``: what the code does to the target's rows, where that is stated: the
    code gets ``target``, and its output follows ``expected``. ``earlier_calls``: calls of an
    earlier generation, at most, after which a rule with state is reset; it must owe nothing to it.
    """

    name: str
    gamma: int  # the depth of the trees, where they are drafted
    targets: tuple[RowWeights, ...]
    drafts: tuple[RowWeights, ...]
    earlier_calls: int = 0
    eos: int | None = None
    prompt: tuple[int, ...] = ()  # tokens that a rule which drafts itself goes on from
    family: str = ""  # what hand-made rows have in common
    certain_after: int | None = None
    core: bool = False  # a verdict needs it
    drafting: Drafting | None = None  # how trees are drafted, for rules that judge them
    processing: Law | None = None

    @classmethod
    def of_pairs(
        cls,
        name: str,
        gamma: int,
        pairs: Iterable[RowPair],
        family: str = "",
        *,
        core: bool = False,
        drafting: Drafting | None = None,
    ) -> "SmallModel":
        """Return an instance by its pairs of rows."""
        targets, drafts = zip(*pairs, strict=True)
        return cls(name, gamma, targets, drafts, family=family, core=core, drafting=drafting)

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
        """Row (V,) of the target after ``prefix``, as the code gets it."""
        return _normalised(self._weights(self.targets, prefix)).copy()

    def expected(self, prefix: Sequence[int]) -> Row:
        """Row (V,) that the output follows after ``prefix``: the target's, processed as stated."""
        weights, start = self._weights(self.targets, prefix), len(self.prompt)
        if self.processing is None:
            return _normalised(weights).copy()
        prompt, tokens = tuple(prefix[:start]), tuple(prefix[start:])
        return processed_row(self.processing, weights, prompt, tokens).copy()

    def draft(self, prefix: Sequence[int]) -> Row:
        """Row (V,) of the draft after ``prefix``."""
        return _normalised(self._weights(self.drafts, prefix)).copy()

    def document(self, depth: int, sequence: tuple[int, ...] = ()) -> Instance:
        """Rows up to ``depth`` tokens after the prompt, and those on the way to ``sequence``."""
        tokens = range(self.vocab_size)
        prefixes = dict.fromkeys(
            x for length in range(depth + 1) for x in itertools.product(tokens, repeat=length)
        )
        for end, drafted in itertools.product(range(1, len(sequence)), range(self.gamma + 1)):
            if end + drafted > depth:
                drafts = itertools.product(tokens, repeat=drafted)
                prefixes |= dict.fromkeys(sequence[:end] + x for x in drafts)

        keys = {prefix: ",".join(map(str, prefix)) for prefix in prefixes}

        def table(rows: tuple[RowWeights, ...]) -> dict[str, tuple[float | str, ...]]:
            def row(prefix: tuple[int, ...]) -> tuple[str, ...]:
                weights = self._weights(rows, self.prompt + prefix)
                return tuple(str(Fraction(w) / Fraction(sum(weights))) for w in weights)

            return {key: row(prefix) for prefix, key in keys.items()}

        expected = None
        if self.processing is not None:
            expected = {
                key: tuple(self.expected(self.prompt + x).tolist()) for x, key in keys.items()
            }

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
            expected_probs=expected,
        )

    def _weights(self, rows: tuple[RowWeights, ...], prefix: Sequence[int]) -> RowWeights:
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


@lru_cache(maxsize=4096)
def _normalised(weights: RowWeights) -> Row:
    row = np.array(weights, dtype=np.float64)
    return np.asarray(row / row.sum(), dtype=np.float64)


# A target that is stated as a processing of the rows: cuts, temperature, penalties.
#
# Engines differ where a tie stands at a cut, and where the sum at top-p is the share but for
# rounding. No instance has rows on which that matters: a logit that is off by ``CUT_MARGIN`` cuts
# as before.

MAX_TOP_K = 298
"""Largest top-k: an instance has two tokens more, and no more than 300."""

CUT_MARGIN = 0.01

_MIN_EFFECT = 1e-5
"""Least TV by which some row has to change, well above the rounding of float32."""

_MAX_CONTEXTS = 64  # of a row, that penalties are tried after
_ROW_DRAWS, _NUDGES, _NUDGE_FACTOR = 400, 24, 1.03


@lru_cache(maxsize=16384)
def processed_row(
    processing: Law, weights: RowWeights, prompt: tuple[int, ...], tokens: tuple[int, ...]
) -> Row:
    """Return the row (V,) of ``weights`` after ``prompt`` and ``tokens``, processed."""
    with np.errstate(divide="ignore"):
        logits = np.log(_normalised(weights))
    row: Row = processing.after(logits[None], prompt, tokens, len(tokens))[0]
    return row


def with_processing(model: SmallModel, processing: Law | None) -> SmallModel | None:
    """Return ``model`` for code that processes the target's rows so.

    Rows with a tie at a cut are nudged; None where that does not help.
    """
    if processing is None:
        return model
    contexts: list[tuple[int, ...]] = [()]
    if reads_context(processing):
        lengths = range(1, model.gamma + 1)
        pairs = (
            itertools.combinations_with_replacement(range(model.vocab_size), n) for n in lengths
        )
        contexts += itertools.islice(itertools.chain.from_iterable(pairs), _MAX_CONTEXTS)

    def is_clear(weights: RowWeights) -> bool:
        return all(is_clear_cut(processing, weights, model.prompt, tokens) for tokens in contexts)

    cleared = (next(filter(is_clear, _nudged(row)), None) for row in model.targets)
    targets = tuple(row for row in cleared if row is not None)
    if len(targets) < len(model.targets):
        return None
    return replace(model, targets=targets, processing=processing)


def processed_model(model: SmallModel) -> SmallModel | None:
    """Return ``model`` for code that gets processed rows; None where these depend on its tokens."""
    processing = model.processing
    if processing is None:
        return model
    if reads_context(processing):
        return None
    rows = (processed_row(processing, row, (), ()) for row in model.targets)
    return replace(model, targets=tuple(tuple(row.tolist()) for row in rows), processing=None)


def reads_context(processing: Law) -> bool:
    """Whether the rows that are left depend on the tokens before them."""
    return not processing.acting.isdisjoint({"repetition", "presence"})


@lru_cache(maxsize=16384)
def is_clear_cut(
    processing: Law, weights: RowWeights, prompt: tuple[int, ...], tokens: tuple[int, ...]
) -> bool:
    """Whether the same tokens are left where the logit of any of them is off by a little."""
    if processing.temperature > 0 and processing.acting.isdisjoint(TRUNCATION_STAGES):
        return True
    with np.errstate(divide="ignore"):
        logits = np.log(_normalised(weights))
    shifts = CUT_MARGIN * np.eye(len(weights))[np.flatnonzero(weights)]
    rows = np.concatenate([logits[None], logits + shifts, logits - shifts])
    left = processing.after(rows, prompt, tokens, len(tokens)) > 0
    return bool((left == left[0]).all())


def _nudged(weights: RowWeights) -> Iterator[RowWeights]:
    """Yield a row, and rows like it whose weights are all different."""
    yield weights
    vocab, rng = len(weights), random.Random(0)
    for _ in range(_NUDGES):
        powers = rng.sample(range(vocab), vocab)
        yield tuple(
            round(10_000 * w * _NUDGE_FACTOR**n) for w, n in zip(weights, powers, strict=True)
        )


def processing_instances(
    processing: Law, max_gamma: int, draftings: Sequence[Drafting] = ()
) -> list[SmallModel]:
    """Return instances on which it shows what is done, and what other code would do instead.

    Their rows tell ``processing`` from what has one of its steps left out, another order, or a
    top-k that is off by one. A verdict needs them. ``draftings``: how trees are drafted, for code
    that judges them. Raises ``UsageError`` if it changes no row.
    """
    vocab, rng = max(4, (processing.top_k or 0) + 2), random.Random(0)
    rows = []
    for _ in range(_ROW_DRAWS):
        spread = rng.choice((0.5, 1.0, 2.0, 4.0))
        row = tuple(round(10 ** (4 + rng.uniform(0, spread))) for _ in range(vocab))
        if is_clear_cut(processing, row, (), ()):
            rows.append(row)
    chosen: list[RowWeights] = []
    others = [*_neighbours(processing)]
    for other in (None, *others):
        gaps = [_effect(processing, other, row) for row in rows]
        best = max(range(len(rows)), key=gaps.__getitem__, default=None)
        if best is not None and gaps[best] > _MIN_EFFECT:
            chosen.append(rows[best])
        elif other is None:
            raise UsageError(
                "the options that state the target change none of its rows: leave out what changes "
                "nothing"
            )
    targets = list(dict.fromkeys(chosen))
    if draftings:
        return [m for x in draftings for m in _processed_models(processing, targets, x, rng)]
    gammas = range(1, min(max_gamma, 2 if vocab <= 6 else 1) + 1)
    return [m for gamma in gammas for m in _processed_models(processing, targets, gamma, rng)]


def _processed_models(
    processing: Law, targets: list[RowWeights], drafts: int | Drafting, rng: random.Random
) -> Iterator[SmallModel]:
    """Yield instances of a few rows each; drafts hold tokens that are cut off, and others."""
    vocab, drafting = len(targets[0]), None if isinstance(drafts, int) else drafts
    gamma = drafts if isinstance(drafts, int) else drafts.shape.depth
    kind = f"gamma={gamma}" if drafting is None else drafting.shape.words()
    for n in range(0, len(targets), 3):
        pairs: list[RowPair] = []
        for row in targets[n : n + 3]:
            ranked = sorted(range(vocab), key=row.__getitem__)
            held = {ranked[-1], ranked[0], *rng.sample(range(vocab), min(vocab, 2))}
            pairs.append((row, tuple(rng.randint(1, 9) * (x in held) for x in range(vocab))))
        name = f"processed {n // 3 + 1}, V={vocab}, {kind}"
        model = SmallModel.of_pairs(name, gamma, pairs, core=True, drafting=drafting)
        made = with_processing(model, processing)
        if made is not None:
            yield made


def _effect(processing: Law, other: Law | None, row: RowWeights) -> float:
    """TV of a processed row from one that is processed otherwise, or not at all."""
    tokens = (row.index(max(row)),) if reads_context(processing) else ()
    one = processed_row(processing, row, (), tokens)
    another = _normalised(row) if other is None else processed_row(other, row, (), tokens)
    return float(np.abs(one - another).sum() / 2)


def _neighbours(processing: Law) -> Iterator[Law]:
    """Yield what code may do instead by mistake."""
    acting = processing.acting
    if processing.temperature not in (0.0, 1.0):
        yield replace(processing, temperature=1.0)
    for stage in sorted(acting - {"temperature", "presence"}):
        name = {"repetition": "repetition_penalty"}.get(stage, stage.replace("-", "_"))
        left_out: dict[str, Any] = {name: None}
        yield replace(processing, **left_out)
    if "presence" in acting:
        yield replace(processing, presence_penalty=None, frequency_penalty=None)
    if (k := processing.top_k) is not None:
        yield from (replace(processing, top_k=near) for near in (k - 1, k + 1) if near)
    steps = {tuple(x for x in order if x in acting) for order in ORDERS.values()}
    known = tuple(x for x in processing.order if x in acting)
    for other in sorted({*steps, known[::-1]} - {known}):
        rest = iter(other)
        order = tuple(next(rest) if x in acting else x for x in processing.order)
        yield replace(processing, order=order)


_SWEEP_FAMILY = "sweep"


def instance_battery(max_gamma: int, max_vocab: int, *, seed: int = 0) -> Iterator[SmallModel]:
    """Yield the instances from small to large, by an estimate of the paths they take.

    Hand-made rows for V = 2 and 3, the first pair also alone, and seeded random rows up to V = 12;
    gamma up to ``max_gamma`` (4 at most for V up to 5, 2 beyond). Last a sweep of V = 2.
    """
    models: list[SmallModel] = []
    of_pairs = SmallModel.of_pairs
    for vocab, families in ROWS_BY_VOCAB.items():
        for name, pairs in families.items():
            for gamma in range(1, min(max_gamma, 3 if vocab == 3 else 4) + 1):
                models.append(of_pairs(f"{name}, V={vocab}, gamma={gamma}", gamma, pairs, name))
            models.append(of_pairs(f"{name}, V={vocab}, one row", 1, pairs[:1], name))
    rng = random.Random(seed)
    for vocab, gamma, count in _RANDOM_SIZES:
        for i in range(1, count + 1):
            pairs = random_rows(rng, vocab, 5)
            models.append(of_pairs(f"random {i}, V={vocab}, gamma={gamma}", gamma, pairs))
    rng = random.Random(seed + 1)
    for vocab, gamma, most in LARGE_SIZES:
        name = f"large 1, V={vocab}, gamma={gamma}, drafts of {most}"
        models.append(of_pairs(name, gamma, large_rows(rng, vocab, most)))
    fitting = _fitting(models, max_gamma, max_vocab)
    yield from sorted(fitting, key=lambda m: ((2 * m.vocab_size) ** m.gamma * m.vocab_size, m.name))
    yield from (
        of_pairs(f"{_SWEEP_FAMILY} {i}, V={len(pair[0])}, one row", 1, [pair], _SWEEP_FAMILY)
        for i, pair in enumerate(sweep_rows(), 1)
        if len(pair[0]) <= max_vocab
    )


def _fitting(models: Iterable[SmallModel], max_gamma: int, max_vocab: int) -> list[SmallModel]:
    return [m for m in models if m.gamma <= max_gamma and m.vocab_size <= max_vocab]


_MAX_STEP_INSTANCES = {(3, 2): 8, (3, 3): 4}
"""Most instances of a size (V, gamma) for rules that draft themselves: their paths multiply."""

_TWO_TOKEN_ROWS = {
    (2, 2): (((1, 2), (3, 1), (2, 3)), ((2, 1), (1, 1), (4, 1))),
    (3, 2): (((1, 1, 1), (5, 5, 4), (3, 1, 3)), ((1, 4, 6), (2, 1, 6), (2, 2, 1))),
}
"""Rows of targets and drafts, by size (V, gamma), of which all is certain after two tokens."""

_PROMPT_LENGTH = 12  # tokens of a prompt: more than any output of the other instances has
_EARLIER_GENERATION_SIZE = (2, 2)
"""Size (V, gamma) at which an earlier generation is run before the one that is judged."""


def instances_for(
    contract: Literal["verify", "step"],
    max_gamma: int,
    max_vocab: int,
    seed: int,
    eos: int | None = None,
) -> list[SmallModel]:
    """Return the battery for a contract.

    Rules that draft themselves get V, gamma up to 3 and a few larger vocabularies; they also run on
    after an earlier generation, cut short or ended by end of sequence, and up to an end of sequence
    inside a block. ``eos``: the code's id of it, wherever the vocabulary has it; without it the
    last token is, and only where nothing but generations is judged.
    """
    models = list(instance_battery(max_gamma, max_vocab, seed=seed))
    if contract == "step":
        models = _step_models(models, eos)
    models = [replace(m, core=True) if m.name in CORE_INSTANCES[contract] else m for m in models]
    if eos is None:
        return models
    return [replace(m, eos=eos if eos < m.vocab_size else None) for m in models]


def _step_models(models: list[SmallModel], eos: int | None) -> list[SmallModel]:
    taken: Counter[tuple[int, int]] = Counter()
    chosen = []
    for model in models:
        if model.family == _SWEEP_FAMILY:
            continue  # a call of such code meets many rows, and costs more to set up
        size = (model.vocab_size, model.gamma)
        taken[size] += 1
        if size in _TWO_TOKEN_ROWS and taken[size] == 1:
            rows = _TWO_TOKEN_ROWS[size]
            name = f"two tokens, V={model.vocab_size}, gamma={model.gamma}"
            chosen.append(SmallModel(name, model.gamma, *rows, certain_after=2))
        small = model.vocab_size <= 3 and model.gamma <= 3
        few = small and taken[size] <= _MAX_STEP_INSTANCES.get(size, len(models))
        # A large vocabulary leaves a rule that drafts itself few paths where drafts are certain.
        if few or (model.vocab_size > 3 and model.gamma == 1 and model.certain_drafts):
            chosen.append(model)
        if size == _EARLIER_GENERATION_SIZE:
            end = 1 if eos is None else eos
            name = f"{model.name}, after end of sequence {end}"
            chosen.append(replace(model, name=name, earlier_calls=2, eos=end))
            chosen.append(replace(model, name=f"{model.name}, after a reset", earlier_calls=1))
    max_gamma = max((m.gamma for m in models), default=0)
    max_vocab = max((m.vocab_size for m in models), default=0)
    return chosen + _fitting(_step_only_instances(eos), max_gamma, max_vocab)


def _step_only_instances(eos: int | None) -> Iterator[SmallModel]:
    """Yield instances for rules that draft themselves.

    A block that is compared to its end, with residuals of two tokens and drafts that are nearly all
    certain. Outputs after a prompt: a long one, one shorter than a block, one of odd length that
    begins high and falls. A generation whose first draft is the end of sequence, often accepted
    with a rejection behind it: greedy block then still owes something.
    """
    yield SmallModel(
        "sparse, V=3, gamma=3, whole block",
        3,
        ((2, 3, 4), (3, 1, 2), (1, 5, 2)),
        ((0, 1, 0), (1, 0, 0), (0, 0, 1)),
    )
    yield SmallModel.of_pairs("nearly equal, V=3, gamma=1", 1, NEAR_ONE_RATIO_ROWS)
    for vocab, gamma, targets, drafts in (
        (2, 2, ((1, 2), (3, 1), (2, 3)), ((2, 1), (1, 1), (4, 1))),
        (3, 1, ((5, 1, 6), (6, 3, 3), (4, 2, 6)), ((6, 2, 4), (5, 6, 1), (2, 9, 1))),
    ):
        usual = [token for token in range(vocab) if token != eos]
        for length, tokens in ((_PROMPT_LENGTH, usual), (1 if gamma > 1 else 5, usual[::-1])):
            prompt = tuple(itertools.islice(itertools.cycle(tokens), length))
            name = f"after a prompt of {length}, V={vocab}, gamma={gamma}"
            yield SmallModel(name, gamma, targets, drafts, prompt=prompt)
    end = 1 if eos is None else eos
    rows = ((1, 1), (2, 3), (9, 1)), ((0, 1), (3, 2), (1, 9))
    if end < 2:
        p, q = (tuple(row if end else row[::-1] for row in side) for side in rows)
        name = f"accepted end of sequence {end}, V=2, gamma=3"
        yield SmallModel(name, 3, p, q, earlier_calls=1, eos=end)


# Small instances for rules that judge draft trees. A shape is small or has few drafts: V^n trees of
# n nodes are drafted where all are sampled, and every tree that a shape can become is among them.

_TREE_LEVELS = {
    2: parse_rows("1, 2, 1 1, 1 2, 2 1, 3, 2 2, 3 1, 2 1 1, 1 1 1 1"),
    3: parse_rows("1, 2, 1 1, 1 2, 2 1, 3, 2 2, 3 1, 2 1 1, 1 2 2"),
    4: parse_rows("2, 3, 2 1"),
    5: parse_rows("2"),
}
"""Children per level, by vocabulary."""

_IRREGULAR_SHAPES = {
    "a leaf at the root": (ROOT, ROOT, 0),
    "a leaf first": (ROOT, ROOT, 1),
    "numbered by depth": (ROOT, 0, 1, ROOT, 3),
}
"""Shapes that are no levels: parents, by name."""

_TREE_ROWS = {3: _row_pairs("thin residual: 6 3 3 / 5 6 1, 2 5 3 / 5 4 1, 3 2 5 / 1 5 4")}
"""Rows for trees alone, by vocabulary: after a rejection p is below q at some token, so that the
second sibling takes a coin too."""

_LARGE_TREES: tuple[tuple[int, tuple[int, ...], int], ...] = (
    (6, (1, 1), 3),
    (8, (2,), 4),
    (12, (1,), 12),
    (12, (2,), 4),
)
"""(V, children per level, tokens that a draft row holds) of the larger vocabularies.

Every id is drafted on one of them. Drafts of few tokens keep the trees few.
"""

_MAX_NODES_BY_FAMILY = {"plain": 7, "wide residual": 4, "thin residual": 3}
"""Most nodes of a tree, by what its rows are for; others have three at most."""

_DEFAULT_MAX_NODES = 3

_MAX_FAULT_TREES = 30  # drafted at most on the instances that named faults are tried on
_MAX_LARGE_VOCAB_TREES = 64
"""Drafted at most where the vocabulary is large, for each has many outputs."""

_CORE_TREES = {(3, (2,)), (3, (1, 2)), (3, (2, 1)), (2, (2, 1)), (4, (2,))}
"""Vocabulary and levels of the instances that a verdict needs, on rich rows."""


def tree_instances(
    scheme: Scheme, max_gamma: int, max_vocab: int, seed: int, shape: TreeShape | None = None
) -> list[SmallModel]:
    """Return the battery of the tree contract, small ones first: of one ``shape``, or of many."""
    rng = random.Random(seed)
    models = []
    for vocab, levels in _TREE_LEVELS.items():
        random_only = vocab not in ROWS_BY_VOCAB
        families = (
            {f"random {i + 1}": random_rows(rng, vocab, 5) for i in range(4)}
            if random_only
            else ROWS_BY_VOCAB[vocab] | _TREE_ROWS.get(vocab, {})
        )
        shapes = list(_tree_shapes(vocab, levels, shape, _CORE_TREES))
        if shape is None and not random_only:
            shapes += [(name, TreeShape(x), False) for name, x in _IRREGULAR_SHAPES.items()]
        for name, tree, needed in shapes:
            for family, pairs in families.items():
                rich = family in _MAX_NODES_BY_FAMILY or random_only
                most = _MAX_NODES_BY_FAMILY.get(family, _DEFAULT_MAX_NODES)
                if random_only or len(tree) <= most or shape is not None:
                    title = f"{family}, V={vocab}, {name}"
                    core, drafting = needed and rich, Drafting(tree, scheme)
                    models.append(_tree_model(title, pairs, drafting, family, core))
    models += _large_tree_instances(scheme, rng, shape)
    fitting = _fitting(models, max_gamma, max_vocab)
    return sorted(fitting, key=lambda m: (max_tree_count(m), m.gamma, m.name))


def _tree_model(
    name: str, pairs: Iterable[RowPair], drafting: Drafting, family: str = "", core: bool = False
) -> SmallModel:
    depth = drafting.shape.depth
    return SmallModel.of_pairs(name, depth, pairs, family, core=core, drafting=drafting)


def max_tree_count(model: SmallModel) -> int:
    """Return how many trees can be drafted at most."""
    assert model.drafting is not None
    sampled = len(model.drafting.shape)
    for siblings in model.drafting.shape.children.values():
        sampled -= min(len(siblings), model.drafting.scheme.certain(len(siblings)))
    return int(model.vocab_size**sampled)


def fault_revealing_trees(models: Sequence[SmallModel]) -> list[SmallModel]:
    """Return the few of ``models`` on which the catalogued faults of draft trees show."""
    small = [m for m in models if max_tree_count(m) <= _MAX_FAULT_TREES]
    # Where a rule takes no shape of the core, plain chains do.
    return [m for m in small if m.core] or [m for m in small if m.family == "plain"]


def _large_tree_instances(
    scheme: Scheme, rng: random.Random, shape: TreeShape | None
) -> Iterator[SmallModel]:
    """Yield the larger vocabularies; for a shape that was named, the largest if trees are few."""
    cases = [(vocab, shape_of_levels(levels), most) for vocab, levels, most in _LARGE_TREES]
    if shape is not None:
        cases = [(_LARGE_TREES[-1][0], shape, 2)]
    for vocab, tree, most in cases:
        if most ** len(tree) <= _MAX_LARGE_VOCAB_TREES:
            name = f"large, V={vocab}, tree of {len(tree)}, drafts of {most}"
            pairs = large_rows(rng, vocab, most)
            yield _tree_model(name, pairs, Drafting(tree, scheme), "large")


def _tree_shapes(
    vocab: int,
    levels: Sequence[tuple[int, ...]],
    shape: TreeShape | None,
    core: set[tuple[int, tuple[int, ...]]],
) -> Iterator[tuple[str, TreeShape, bool]]:
    """Yield trees with their names, and whether a verdict needs them."""
    if shape is not None:
        yield f"tree of {len(shape)}", shape, vocab < 4
        return
    for children in levels:
        name = f"tree {','.join(map(str, children))}"
        yield name, shape_of_levels(children), (vocab, children) in core


# Small instances for drafters: rows of the draft model, and trees that are drafted call by call. A
# call is asked for one to four siblings, and once for eight, more than some rows have tokens.

_DRAFT_ROWS = {
    vocab: {name: [row for (row,) in rows] for name, rows in _parse_families(text).items()}
    for vocab, text in {
        2: """
            plain: 2 1, 1 3, 4 1
            one-hot: 0 1, 1 0
            ties: 1 1, 2 1
            skewed: 1 999, 99 1, 1 9
        """,
        3: """
            plain: 6 2 4, 5 6 1, 2 9 1, 4 6 2, 8 3 1
            zeros: 0 1 3, 2 0 1, 3 1 0, 1 3 1
            one-hot: 1 0 0, 0 0 1, 0 1 0
            ties: 1 1 1, 2 1 1, 1 2 2
            skewed: 500 499 1, 98 1 1, 1 40 9
            rare: 100 99999899 1, 1 9 999990, 500000 499999 1
        """,
        4: """
            plain: 5 3 1 2, 1 4 6 2, 2 2 7 1
            zeros: 0 3 0 2, 1 0 0 0, 4 0 1 3
        """,
        5: "plain: 3 1 5 2 4, 1 6 2 2 1",
    }.items()
}
"""Weights of the draft's rows by vocabulary, and what they are for."""

_DRAFT_TREE_LEVELS = {
    2: parse_rows("1, 2, 3, 1 1, 2 1, 1 2, 1 1 1, 2 2, 4, 8, 1 1 1 1"),
    3: parse_rows("1, 2, 3, 1 1, 2 1, 1 2, 1 1 1, 3 1, 4, 1 1 1 1"),
    4: parse_rows("1, 2, 3, 1 1"),
    5: parse_rows("1, 2, 3"),
}
"""Children per level, by vocabulary: eight siblings at most, and chains of four."""

_CORE_DRAFT_TREES = {(3, (1,)), (3, (2,)), (3, (3,)), (3, (1, 1)), (3, (2, 1)), (4, (2,))}
"""Vocabulary and levels of the plain instances that a verdict needs."""

_MAX_SPECIAL_TREES = 300  # trees at most on rows that are not plain
_LARGEST_VOCAB, _LARGE_VOCAB_SIBLINGS = 12, 2

_LONG_PROMPT = (0, 1, 2) * 4  # more tokens than any other instance has before a call


def draft_instances(
    scheme: Scheme, max_gamma: int, max_vocab: int, seed: int, shape: TreeShape | None = None
) -> list[SmallModel]:
    """Return the battery of the draft contract, small ones first: of one ``shape``, or of many."""
    models = []
    for vocab, families in _DRAFT_ROWS.items():
        shapes = list(_tree_shapes(vocab, _DRAFT_TREE_LEVELS[vocab], shape, _CORE_DRAFT_TREES))
        for family, rows in families.items():
            for name, tree, needed in shapes:
                title = f"{family}, V={vocab}, {name}"
                core = needed and (family == "plain" or shape is not None)
                drafting = Drafting(tree, scheme)
                models.append(_tree_model(title, _mirrored(rows), drafting, family, core))
    rng = random.Random(seed)
    siblings = Drafting(shape or shape_of_levels([_LARGE_VOCAB_SIBLINGS]), scheme)
    for vocab in (6, 8, _LARGEST_VOCAB):
        row = _random_row(rng, vocab, (0, 1, 2, 3, 5, 8))
        models.append(_tree_model(f"large, V={vocab}", _mirrored([row]), siblings))
    if shape is None:
        name = f"after a prompt of {len(_LONG_PROMPT)}, V=3, tree 2"
        after = _tree_model(name, _mirrored(_DRAFT_ROWS[3]["plain"]), siblings)
        models.append(replace(after, prompt=_LONG_PROMPT))
    fitting = _fitting(models, max_gamma, max_vocab)
    fitting = [m for m in fitting if m.core or max_tree_count(m) <= _MAX_SPECIAL_TREES]
    # Those that are not plain come after those that are, for a failure on these says more.
    return sorted(fitting, key=lambda m: (max_tree_count(m), m.gamma, m.family != "plain", m.name))


def _mirrored(rows: Sequence[RowWeights]) -> list[RowPair]:
    # Nothing is verified, so that the target's rows, which have to be there, matter to nobody.
    return [(row[::-1], row) for row in rows]


class InstanceRows:
    """The rows of a result file's :class:`Instance`, by prefixes that begin with its prompt."""

    def __init__(self, instance: Instance) -> None:
        self.name, self.gamma, self.vocab_size = instance.name, instance.gamma, instance.vocab_size
        self.earlier_calls, self.eos = instance.earlier_calls, instance.eos
        self.prompt = instance.prompt
        self.drafting = instance_drafting(instance)
        self.missing = ""
        expected = instance.expected_probs or instance.target_probs
        self._targets, self._drafts, self._expected = (
            {
                prefix: np.array([float(Fraction(x)) for x in row], dtype=np.float64)
                for prefix, row in rows.items()
            }
            for rows in (instance.target_probs, instance.draft_probs, expected)
        )

    def target(self, prefix: Sequence[int]) -> Row:
        """Fresh row (V,) of the target after ``prefix``, as the code gets it."""
        return self._row(self._targets, "target", prefix)

    def expected(self, prefix: Sequence[int]) -> Row:
        """Fresh row (V,) that the output follows after ``prefix``."""
        return self._row(self._expected, "target", prefix)

    def draft(self, prefix: Sequence[int]) -> Row:
        """Fresh row (V,) of the draft after ``prefix``."""
        return self._row(self._drafts, "draft", prefix)

    def _row(self, rows: dict[str, Row], side: str, prefix: Sequence[int]) -> Row:
        start = len(self.prompt)
        key = ",".join(map(str, prefix[start:]))
        if key not in rows or tuple(prefix[:start]) != self.prompt:
            self.missing = self.missing or (
                f"instance {self.name!r} has no {side} row after {key!r}: record deeper prefixes"
            )
            raise ValueError(self.missing)
        return rows[key].copy()


def instance_drafting(instance: Instance) -> Drafting | None:
    """Return how the instance's draft trees are drafted; None where blocks are."""
    if instance.parents is None or instance.scheme is None:
        return None
    return Drafting(TreeShape(instance.parents), get_scheme(instance.scheme))
