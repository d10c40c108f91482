"""The exact acceptance curve of a rule on a model, and the exact check of its law.

The curve comes by the best method that reaches it. Where it is computed in floats, Pr(tau >= l) and
E[tau] are enclosed so that rounding cannot make them false.
"""

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from hashlib import blake2b
from typing import Any, Literal, TypeVar

import numpy as np

from simverify.arrays import Floats
from simverify.errors import UsageError
from simverify.models.base import MarkovModel, Model
from simverify.models.ngram import NgramModel
from simverify.results import ExactCheck
from simverify.simulators.exact import laws as exact_laws
from simverify.simulators.exact.bounds import tree_bounds
from simverify.simulators.run import RaoBlackwell, modes_curve, rao_blackwell
from simverify.stats import stratified_bernstein
from simverify.verifiers import Verifier
from simverify.verifiers.base import resolve_part

# A cache of results that follow from a Markov pair's rows.
#
# A sweep judges one model at every seed and with every rule, and its exact curves are most of the
# work. Rows are arrays that their owner may change, so results are cached by content.


MAX_CACHED = 256  # results kept, of a few kilobytes each; the oldest goes first

_ResultT = TypeVar("_ResultT")
_cache: dict[Hashable, Any] = {}


def compute_once(model: MarkovModel, what: Hashable, work: Callable[[], _ResultT]) -> _ResultT:
    """Return the result of ``work``, from memory where it was computed for the same rows.

    It must follow from the rows of ``model`` and from ``what``, its name in the cache.
    """
    digest = blake2b(digest_size=32)
    for rows in (model.target_start, model.target_rows, model.draft_start, model.draft_rows):
        digest.update(repr((rows.shape, rows.dtype.str)).encode())
        digest.update(rows.tobytes())
    key = what, model.rational, digest.digest()
    if key not in _cache:
        result = work()
        if len(_cache) >= MAX_CACHED:
            _cache.pop(next(iter(_cache)), None)
        _cache[key] = result
    cached: _ResultT = _cache[key]
    return cached


_ULP = 2.0**-53

_ROW_ROUNDINGS = 64
"""Per factor of a product of row entries: numpy adds a row up in pairs, which rounds some 30
times for up to a million tokens, then divides; a row of p and one of q meet in a minimum."""

_LEVEL_ROUNDINGS = 4  # per level: the products of a rule's closed form
_SUM_ROUNDINGS = 40  # once: the sum of up to 20,000 leaves, in pairs


def enclose_fractions(values: Sequence[Any]) -> tuple[Floats, Floats]:
    """Round each fraction down and up to float64: two arrays, equal where it is a float."""
    down, up = [], []
    for value in values:
        nearest = float(value)
        down.append(nearest if nearest <= value else math.nextafter(nearest, -math.inf))
        up.append(nearest if nearest >= value else math.nextafter(nearest, math.inf))
    return np.array(down), np.array(up)


def enclose_floats(
    values: Sequence[Any], *, certain: int, additions: int = 0
) -> tuple[Floats, Floats]:
    """Widen the levels of a float64 curve by the possible rounding of its sums, within [0, 1].

    All terms are positive, so relative errors only add up. Level l takes ``_ROW_ROUNDINGS +
    _LEVEL_ROUNDINGS + additions`` roundings for each of its l steps and ``_SUM_ROUNDINGS``
    once: 7e-14 in all at l = 8 with ``additions`` = 0, the sums taken in sequence in a step.
    The first ``certain`` levels lose nothing: they are 1 whatever they round to.
    """
    curve = np.array(values, dtype=np.float64)
    steps = np.arange(1, curve.size + 1)
    slack = (steps * (_ROW_ROUNDINGS + _LEVEL_ROUNDINGS + additions) + _SUM_ROUNDINGS) * _ULP
    upper = np.minimum(curve * (1 + slack), 1.0)
    lower = np.minimum(curve * (1 - slack), upper)
    lower[:certain] = upper[:certain] = 1.0
    return lower, upper


def enclose_sum(lower: Floats, upper: Floats, total: Fraction | None = None) -> tuple[float, float]:
    """Bounds on E[tau], the sum of the levels, which never exceeds their number."""
    if total is not None:
        down, up = enclose_fractions([total])
        return float(down[0]), float(up[0])
    # fsum rounds once.
    down_to = math.nextafter(math.fsum(lower), 0.0) if (lower < 1).any() else float(lower.size)
    up_to = math.nextafter(math.fsum(upper), math.inf)
    return down_to, min(up_to, float(upper.size))


def printable_fraction(total: Any) -> Fraction | None:
    """Return ``total`` where it is a fraction short enough to print."""
    total = exact_laws.shorten_fraction(total)
    return total if isinstance(total, Fraction) else None


Method = Literal["enumeration", "closed-form", "dp", "rao-blackwell"]

MIN_STRATA = 1 << 16  # pairs of paths behind a Rao-Blackwell estimate, or a few more

CONFIDENCE = 0.999

MAX_TREE_VOCAB = 1024
"""Trees read a row for every token: (V+1, V) entries, 8 MB here and 3 GB at V = 20,000."""


@dataclass(frozen=True, eq=False)
class AcceptanceCurve:
    """Bounds on Pr(tau >= l), l = 1..gamma, of one call, and on E[tau], their sum.

    ``lower``, ``upper``: float64 (gamma,) in [0, 1]; certain, rounding included, so a few
    ulp apart even where the law is exact. ``expected_lower``, ``expected_upper``: the same
    for E[tau]. ``fraction``: E[tau] where it is rational. ``sample``: the Rao-Blackwell means
    behind statistical bounds, which then hold with probability ``CONFIDENCE``, each number
    alone.
    """

    method: Method
    lower: Floats
    upper: Floats
    expected_lower: float
    expected_upper: float
    fraction: Fraction | None = None
    sample: RaoBlackwell | None = None

    @classmethod
    def between(cls, method: Method, lower: Floats, upper: Floats) -> "AcceptanceCurve":
        """Return the curve of which certain bounds are known."""
        return cls(method, lower, upper, *enclose_sum(lower, upper))

    @property
    def middle(self) -> Floats:
        """Pr(tau >= l), l = 1..gamma, or the middle of its bounds."""
        return (self.lower + self.upper) / 2

    @property
    def expected(self) -> float:
        """E[tau], or the middle of its bounds."""
        if self.fraction is not None:
            return float(self.fraction)
        return (self.expected_lower + self.expected_upper) / 2


def is_enumerable(model: Model, gamma: int) -> bool:
    """Whether every drafted block of ``model`` can be written out."""
    return (
        isinstance(model, MarkovModel)
        and model.vocab_size <= MAX_TREE_VOCAB
        and model.vocab_size**gamma <= exact_laws.MAX_LEAVES
    )


def enclose_curve(
    method: Method, levels: Any, *, certain: int = 0, additions: int = 0
) -> AcceptanceCurve:
    """Enclose a curve, which is exact where its levels are fractions; else :func:`enclose_floats`.

    ``certain`` and ``additions`` are those of that function.
    """
    if not all(isinstance(level, int | Fraction) for level in levels):
        floats = [float(level) for level in levels]
        bounds = enclose_floats(floats, certain=certain, additions=additions)
        return AcceptanceCurve.between(method, *bounds)
    total, bounds = Fraction(sum(levels)), enclose_fractions(levels)
    return AcceptanceCurve(method, *bounds, *enclose_sum(*bounds, total), printable_fraction(total))


def acceptance_curves(
    model: Model, verifiers: Mapping[str, Verifier], gamma: int, *, seed: int, threads: int
) -> dict[str, AcceptanceCurve]:
    """Acceptance curve of each verifier, by name.

    Raises ``TypeError`` for a model that is neither a Markov pair nor ``ngram``, and
    ``UsageError`` for a rule whose curve is not known on the model.
    """
    if isinstance(model, MarkovModel):
        return {
            name: compute_once(
                model, (verifier, gamma), partial(_markov_curve, model, verifier, gamma, threads)
            )
            for name, verifier in verifiers.items()
        }
    if not isinstance(model, NgramModel):
        raise TypeError(f"no exact distribution for {type(model).__name__}")
    rounds = -(-MIN_STRATA // len(model.contexts))
    samples = rao_blackwell(model, gamma, seed=seed, threads=threads, rounds=rounds)
    for verifier in verifiers.values():
        if not verifier.modes and verifier.name not in samples:
            raise UsageError(
                f"no acceptance of {verifier.name} is known on {model.name}: take a model whose "
                "rows follow from the last token, such as toy, compact or markov-V"
            )
    return {
        # At temperature 0 contexts are added up in sequence.
        name: enclose_curve("enumeration", modes_curve(model, gamma), additions=len(model.contexts))
        if verifier.modes
        else sampled_curve(samples[verifier.name], gamma)
        for name, verifier in verifiers.items()
    }


def _markov_curve(
    model: MarkovModel, verifier: Verifier, gamma: int, threads: int
) -> AcceptanceCurve:
    if is_enumerable(model, gamma):
        tree = exact_laws.compute_tree_law(verifier, exact_laws.markov_rows(model), gamma)
        return enclose_curve("enumeration", tree.curve, certain=tree.certain)
    q_start, q_rows = model.draft_start, model.draft_rows
    equal = np.array_equal(model.target_start, q_start) and np.array_equal(
        model.target_rows, q_rows
    )
    if verifier.keeps_equals and equal:
        return enclose_curve("closed-form", np.ones(gamma), certain=gamma)
    if acceptance := resolve_part(verifier.kept):
        start = acceptance(model.target_start[None], q_start[None])[0]
        rows = acceptance(model.target_rows, q_rows)
        return enclose_curve(
            "closed-form",
            exact_laws.linear_curve(start, rows, gamma),
            certain=exact_laws.certain_level_count(start, rows, q_start, q_rows, gamma),
            # A step adds up the tokens of a state, then the states.
            additions=model.states + model.vocab_size // model.states,
        )
    if verifier.bounds is None:
        raise UsageError(
            f"no acceptance of {verifier.name} is known on {model.name} with gamma {gamma}: it has "
            "neither kept nor bounds, and more than "
            f"{exact_laws.MAX_LEAVES:,} drafts to enumerate; take a smaller gamma or model"
        )
    enclosure = tree_bounds(model, gamma, verifier.bounds, threads=threads)
    return AcceptanceCurve.between("dp", enclosure.lower, enclosure.upper)


def sampled_curve(sample: RaoBlackwell, gamma: int) -> AcceptanceCurve:
    """Return the curve of means over drawn blocks or trees, with statistical bounds."""
    lower, upper = sample_bounds(sample, 1.0 - CONFIDENCE)
    low, high = _level_interval(sample, gamma, gamma, 1.0 - CONFIDENCE)
    return AcceptanceCurve("rao-blackwell", lower, upper, low, high, None, sample)


def sample_bounds(sample: RaoBlackwell, error: float) -> tuple[Floats, Floats]:
    """Bounds on Pr(tau >= l), l = 1..gamma; each fails with probability ``error``."""
    gamma = len(sample.mean) - 1
    lower, upper = np.array([_level_interval(sample, level, 1, error) for level in range(gamma)]).T
    return lower, upper


def _level_interval(
    sample: RaoBlackwell, entry: int, most: float, error: float
) -> tuple[float, float]:
    return stratified_bernstein(
        float(sample.mean[entry]),
        float(sample.variance[entry]),
        sample.strata,
        low=0,
        high=most,
        error=error,
    )


# The exact check of the project's own rules: their whole law against the target's.


FLOAT_TOLERANCE = 1e-9
"""Deviations up to this are rounding where rows are float64; rational rows allow none."""

MAX_PATH_GAMMA = 4  # up to this draft length the rule itself is run, on every path of its choices

MAX_PATH_LEAVES = 1024
"""Most drafted blocks V^gamma for running the rule: some ten thousand paths, a second."""

_MAX_CALL_LEAVES = 2_500  # work limit for a rule with state: drafted blocks times distinct calls

_MIN_STATEFUL_TOKENS = 3
"""A check of a rule with state reaches this far: a debt of the first call, as short as one
token, has been judged by then, and a state that is lost or frozen shows from token 2 on."""

_MAX_TREE_LEAVES = 40_000
"""Work limit up to there by tree law, below a second, where running the rule ends sooner."""


def check_exactly(verifier: Verifier, model: Model, gamma: int) -> ExactCheck | None:
    """Compare the rule's own law with the target's, in fractions where the model has them.

    The drafted blocks of the model must be enumerable. Returns None where the law itself is too
    large to write out, or where float64 cannot hold it. A rule with state is judged on the first
    tokens of a generation, as many as the work limit allows, over all the calls that they take;
    None if those are fewer than 3 (2 at gamma 1). Any other rule is judged on one call's tokens,
    completed with the target's own.
    """
    assert isinstance(model, MarkovModel)
    rows = exact_laws.markov_rows(model)
    paths = gamma <= MAX_PATH_GAMMA and model.vocab_size**gamma <= MAX_PATH_LEAVES
    scope = f"every completed output of a call, {gamma + 1} tokens"
    if verifier.contract == "step":
        result = None
        if paths:
            laws = exact_laws.laws_by_paths(verifier, rows, gamma)
            result = _check_stateful(laws, rows, gamma, whole_calls=True)
        if result is None:
            paths = False
            laws = exact_laws.laws_by_tree(verifier, rows, gamma)
            result = _check_stateful(laws, rows, gamma, whole_calls=False)
        if result is None:
            return None
        scope, largest, tv = result
    elif paths:
        completed = _complete_law(
            exact_laws.laws_by_paths(verifier, rows, gamma)(exact_laws.START, (), gamma + 1),
            rows,
            gamma,
        )
        largest, tv = _law_deviation(completed, rows, gamma + 1)
    else:
        tree = exact_laws.compute_tree_law(verifier, rows, gamma)
        largest, tv = tree.max_abs_deviation, tree.total_variation
    method = "paths" if paths else "tree law"
    return exact_check(method, bool(model.rational), scope, largest, tv)


def exact_check(
    method: Any, rational: bool, scope: str, deviation: Any, tv: Any
) -> ExactCheck | None:
    """Return the document's entry of a law's deviation; None where float64 cannot hold it."""
    # The sum, for a maximum may pass over NaN: that is no fault of the rule.
    if not math.isfinite(tv):
        return None
    arithmetic: Literal["rational", "float64"] = "rational" if rational else "float64"
    return ExactCheck(method, arithmetic, scope, float(deviation), float(tv))


def is_exact(check: ExactCheck) -> bool:
    """Whether the deviation is none, or rounding."""
    return check.max_abs_deviation <= (0 if check.arithmetic == "rational" else FLOAT_TOLERANCE)


def _check_stateful(
    laws: exact_laws.CallLaws, rows: exact_laws.Rows, gamma: int, *, whole_calls: bool
) -> tuple[str, Any, Any] | None:
    """Scope, largest deviation and TV; None where too few tokens can be reached.

    ``whole_calls``: a call is run to its end; else it is cut where the tokens are full.
    """
    longest = None
    for length in range(1, gamma + 2):
        leaves = rows.vocab_size ** (gamma if whole_calls else length)
        few = length <= _MIN_STATEFUL_TOKENS and not whole_calls
        work = _MAX_TREE_LEAVES if few else _MAX_CALL_LEAVES
        if leaves > work:
            break
        try:
            law = exact_laws.first_tokens(laws, length, max_laws=max(work // leaves, 2))
        except exact_laws.TooManyCalls:
            break
        longest = length, law
    if longest is None or longest[0] < min(_MIN_STATEFUL_TOKENS, gamma + 1):
        return None
    length, law = longest
    return f"first {length} tokens from reset, over calls", *_law_deviation(law, rows, length)


def _complete_law(
    law: exact_laws.CallLaw, rows: exact_laws.Rows, gamma: int
) -> dict[tuple[int, ...], Any]:
    """Law of gamma+1 tokens: one call's, completed with the target's own."""
    result: dict[tuple[int, ...], Any] = {}
    for (tokens, _), weight in law.items():
        for rest in itertools.product(range(rows.vocab_size), repeat=gamma + 1 - len(tokens)):
            share = weight * _joint_probability(rows, rest, tokens[-1])
            result[tokens + rest] = result.get(tokens + rest, 0) + share
    return result


def _law_deviation(
    law: dict[tuple[int, ...], Any], rows: exact_laws.Rows, length: int
) -> tuple[Any, Any]:
    """Largest absolute deviation from the target's joint law, and the TV distance."""
    differences = [
        abs(law.get(tokens, 0) - _joint_probability(rows, tokens, exact_laws.START))
        for tokens in itertools.product(range(rows.vocab_size), repeat=length)
    ]
    return max(differences), sum(differences) / 2


def _joint_probability(rows: exact_laws.Rows, tokens: tuple[int, ...], last: int) -> Any:
    """Return the target's probability of ``tokens`` after ``last``."""
    probability: Any = 1
    for token in tokens:
        probability = probability * rows.target[last][token]
        last = token
    return probability
