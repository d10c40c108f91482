"""Two engines against each other, without a target: answers, tests, bounds, the document."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy import sparse

from simverify import results as doc
from simverify import stats
from simverify.battery.battery import (
    certificate_document,
    rejection_findings,
    start_meta,
    test_document,
)
from simverify.errors import UsageError
from simverify.models.transformer import Sampling
from simverify.served.answers import (
    ANSWER_DEVIATION,
    END_UNIT,
    MAX_PILOT_PROMPTS,
    MAX_REPEATED_PROMPTS,
    MAX_SIZES,
    ONE_TOKEN_DEVIATION,
    PILOT_PAIRS,
    POWER,
    AgainstSettings,
    Answer,
    AnswerPairs,
    FeatureDifferences,
    PrefixCounts,
    PromptGroup,
    Unit,
    check_answer,
    collision_rate,
    count_copied_prompts,
    count_prefixes,
    feature_differences,
    frequent_columns,
    gram_matrices,
    iter_pairs,
    most_repeated_prompts,
    ngrams,
    pair_answers,
    pair_scores,
    prefixes,
    summary_differences,
)
from simverify.served.client import ProgressThrottle, check_concurrency, run_in_order
from simverify.served.collect import AnswerClient, report_failures
from simverify.served.requests import Prompt, read_objects
from simverify.served.server import Endpoint

# Two servers, asked the same prompts in pairs at the same time, so that time explains nothing.


@dataclass(frozen=True)
class BothAnswers:
    """Answers of two servers in order, and remarks; ``planned``: pairs that a schedule asks for."""

    first: tuple[Answer, ...]
    second: tuple[Answer, ...]
    notes: tuple[str, ...]
    planned: int = 0


def second_answer_file(keep: Path) -> Path:
    """Return the file that keeps the second server's answers, beside that of the first."""
    return keep.with_name(f"{keep.stem}.against{keep.suffix}")


def collect_both(
    endpoints: tuple[Endpoint, Endpoint],
    prompts: Sequence[Prompt],
    law: Sampling,
    *,
    seed: int = 0,
    concurrency: int | None = None,
    keep: Path | None = None,
    before: BothAnswers | None = None,
    progress: Callable[[str], None] | None = None,
) -> BothAnswers:
    """Ask two servers the prompts in turn, in pairs; a prompt may stand there several times.

    ``seed`` draws which of a pair is sent first. ``concurrency``: requests in flight, of both
    together. ``keep``: file of the first server's answers; :func:`second_answer_file` has the
    second's. Existing files are continued; without files, ``before`` is. ``UsageError`` if a server
    does not answer, answers with an error or no completion, or a file holds other answers.
    """
    width = check_concurrency(concurrency)
    say = ProgressThrottle(progress or (lambda _: None))
    files = (None, None) if keep is None else (keep, second_answer_file(keep))
    clients = [
        AnswerClient(endpoint, law, prompts, file, check_answer, say)
        for endpoint, file in zip(endpoints, files, strict=True)
    ]
    first, second = clients
    total = len(prompts)
    rng = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 4, 0]))
    swapped = rng.integers(0, 2, total)
    with first, second:
        if keep is None and before is not None:
            first.answers, second.answers = list(before.first), list(before.second)
        for name, client in zip(("first", "second"), clients, strict=True):
            if client.answers and before is None:
                say(f"kept: {len(client.answers):,} answers of the {name}")

        def owner(slot: int) -> AnswerClient[Answer]:
            return clients[(slot % 2) ^ int(swapped[slot // 2])]

        def work(slot: int) -> dict[str, Any]:
            return owner(slot).ask(slot // 2)

        def take(slot: int, value: dict[str, Any]) -> None:
            owner(slot).add(value)
            done = len(first.answers) + len(second.answers)
            say.now_and_then(f"{done:,} of {2 * total:,} answers are there")

        def early(slot: int, value: dict[str, Any]) -> None:
            owner(slot).add_early(slot // 2, value)

        todo = [slot for slot in range(2 * total) if slot // 2 >= len(owner(slot).answers)]
        with report_failures(*clients):
            # The first request to each finds out how to ask, alone.
            for client in clients:
                head = next((slot for slot in todo if owner(slot) is client), None)
                if head is not None:
                    todo.remove(head)
                    take(head, work(head))
            with closing(run_in_order(work, todo, width, say.waiting, early=early)) as window:
                for slot, value in window:
                    take(slot, value)
    notes = tuple(_server_notes(clients, keep))
    return BothAnswers(tuple(first.answers), tuple(second.answers), notes)


def _server_notes(clients: Sequence[AnswerClient[Answer]], keep: Path | None) -> Iterator[str]:
    names = zip(("first", "second"), clients, strict=True)
    if unknown := [name for name, client in names if not client.server.known]:
        yield (
            f"the {' and the '.join(unknown)} does not say what it is: parameters that were not "
            f"asked for, such as top-k, are its own defaults, which may cause a difference"
        )
    if keep is None:
        yield (
            "they will answer otherwise next time: --keep FILE keeps all answers, for a command "
            "that reproduces this run"
        )


# The tests of two engines' answers, and the bound if they pass.


_DELTA = 1e-3
_MAX_POOLED_PAIRS = 2500  # pairs whose single units are compared over all prompts
_MAX_AGREEMENT_PRODUCTS = 8_000_000
"""Products of pairs of pairs in a test of agreement: with more repeats the first ones count."""

_MAX_PERMUTATION_PRODUCTS = 2e11  # that permutations may take: some minutes


def run_tests(
    pairs: AnswerPairs,
    most: Sequence[PromptGroup],
    starts: PrefixCounts,
    begins: FeatureDifferences,
    units: FeatureDifferences,
    settings: AgainstSettings,
) -> tuple[list[stats.TestResult], str | None]:
    """Test that two engines' answers have one distribution; ``settings`` fix everything.

    ``most``, ``starts``: the most repeated prompts, and the beginnings of their answers. Last comes
    in words which test this level cannot have, None for none.
    """
    shares, seed = settings.shares(), settings.seed
    first = max(int((_MAX_AGREEMENT_PRODUCTS / len(pairs.groups)) ** 0.5), 2)
    some = replace(pairs, groups=tuple(group[:first] for group in pairs.groups))
    sizes = [len(group) for group in some.groups]
    # First units and neighbouring ones, whatever the prompt.
    firsts = feature_differences(pairs, lambda _, answer: answer[:1])
    twos = feature_differences(pairs, lambda _, answer: pairwise(answer))
    detectable = starts.detectable(shares["counts"])
    counts = stats.quadratic_test(
        starts.blocks, alpha=shares["counts"], name="counts of first two tokens, by prompt"
    )
    tests = [
        _prefix_sign_test(pairs, begins, firsts, shares["contexts"]),
        replace(
            counts,
            min_detectable=detectable if detectable < 1.0 else math.inf,
            deviation=ANSWER_DEVIATION,
        ),
        stats.quadratic_test(
            [pair_scores(pairs)], alpha=shares["scores"], name="how tokens fit what came before"
        ),
    ]
    shared = begins if some.n == pairs.n else feature_differences(some, prefixes)
    in_prefixes = gram_matrices(shared.weighted(), sizes)
    in_grams = gram_matrices(feature_differences(some, ngrams).weighted(), sizes)
    rows = np.unique(np.linspace(0, pairs.n - 1, min(pairs.n, _MAX_POOLED_PAIRS)).astype(np.int64))
    ones, neighbours = (gram_matrices(x.weighted()[rows], [len(rows)]) for x in (units, twos))
    for grams, share, where in (
        (in_prefixes, "prefixes", "shared prefixes"),
        (in_grams, "n-grams", "n-grams, in a prompt"),
        (ones, "pooled", "single tokens, over all prompts"),
        (neighbours, "twos", "pairs of tokens, over all prompts"),
    ):
        name = f"agreement in {where}"
        tests.append(stats.agreement_test(grams, alpha=shares[share], seed=seed, name=name))
    tests += [
        stats.directions_test(
            frequent_columns(units),
            alpha=shares["rates"],
            per_pair=max((pairs.units(0) + pairs.units(1)) / (2 * pairs.n), 1e-9),
            name="rates of single tokens",
            deviation=ONE_TOKEN_DEVIATION,
        ),
        stats.directions_test(
            summary_differences(pairs)[1],
            alpha=shares["summaries"],
            name="summaries of answers",
            deviation="mean of a summary",
        ),
    ]
    not_run = None
    swaps, products = stats.swaps_needed(shares["swaps"]), sum(size**2 for size in sizes)
    if swaps > stats.MOST_SWAPS or swaps * products > _MAX_PERMUTATION_PRODUCTS:
        not_run = (
            f"permutations of whole answers: alpha {settings.alpha:g} takes {swaps:,} of them, too "
            f"many for {pairs.n:,} pairs"
        )
    elif not any(test.rejected for test in tests):
        kernels, name = _sum_scaled_kernels(in_prefixes, in_grams), "permutations of whole answers"
        tests.append(stats.swap_test(kernels, alpha=shares["swaps"], seed=seed, name=name))
    return tests, not_run


def first_unit_certificate(
    groups: Sequence[PromptGroup], *, chosen: bool = False
) -> stats.Certificate:
    """Bound the TV between the distributions of an answer's first unit, on average over prompts.

    The plug-in TV is at least the true one in expectation, and moves by 1/n at most with each of
    the 2 n answers to a prompt (McDiarmid). It holds for each of the three sizes that a run may
    have, at a third of its error rate. ``chosen``: whether prompts were chosen by their first
    answers, which the choice may distort.
    """
    distance, moves, penalty = 0.0, 0.0, 0.0
    for group in groups:
        one, other = (Counter(pair[side][:1] for pair in group) for side in (0, 1))
        off = sum(abs(one[unit] - other[unit]) for unit in {*one, *other})
        distance += off / (2 * len(group))
        moves += 2.0 / len(group)
        penalty += 2.0 * PILOT_PAIRS / len(group) if chosen else 0.0
    count = len(groups)
    slack = math.sqrt(math.log(MAX_SIZES / _DELTA) * moves / 2.0) / count
    return stats.Certificate(
        bound=min((distance + penalty) / count + slack, 1.0),
        delta=_DELTA,
        method=f"TV of the counts + sqrt(ln({MAX_SIZES}/delta) S / 2) / P"
        + (f" + {penalty / count:.2g} for those that were tried" if chosen else "")
        + f", {count} prompts",
        assumption="answers do not depend on each other and how often each prompt is asked was "
        "fixed beforehand, or doubled by simverify; it is of an answer's first token, to these "
        "prompts",
    )


def _prefix_sign_test(
    pairs: AnswerPairs, begins: FeatureDifferences, firsts: FeatureDifferences, alpha: float
) -> stats.TestResult:
    """Sign tests of who alone begins with a prefix: in each prompt, and first units over all."""
    both = sparse.hstack([begins.values, firsts.values])
    sides = [np.asarray((x > 0).sum(axis=0)).ravel().astype(np.int64) for x in (both, -both)]
    return stats.discordant_test(
        *sides, n=pairs.n, alpha=alpha, name="repeated contexts, first tokens and shared prefixes"
    )


def _sum_scaled_kernels(first: list[np.ndarray], second: list[np.ndarray]) -> list[np.ndarray]:
    """Add two kernels, each over how much its sum varies."""
    spreads = [
        math.sqrt(sum(float((np.tril(own, -1) ** 2).sum()) for own in grams)) or 1.0
        for grams in (first, second)
    ]
    return [a / spreads[0] + b / spreads[1] for a, b in zip(first, second, strict=True)]


def _largest_differences(
    pairs: AnswerPairs, begins: FeatureDifferences, units: FeatureDifferences
) -> tuple[str, ...]:
    """Say where the two differ most: a prefix, a unit, a summary; without an error rate."""
    lines = []
    if begins.names:
        prompt, prefix = cast("tuple[int, tuple[Unit, ...]]", begins.largest())
        group = pairs.groups[prompt]
        counts = [sum(pair[side][: len(prefix)] == prefix for pair in group) for side in (0, 1)]
        lines.append(
            f"answers to the prompt {pairs.prompts[prompt]!r:.40} that begin with "
            f"{_unit_words(prefix)}: {counts[0]:,} of {len(group):,}, and {counts[1]:,} of "
            f"{len(group):,}"
        )
    if units.names:
        unit = cast("Unit", units.largest())
        rates = []
        for side in (0, 1):
            seen = [pair[side].count(unit) for group in pairs.groups for pair in group]
            rates.append(sum(seen) / max(pairs.units(side), 1))
        lines.append(
            f"rate of {_unit_words((unit,))} over all answers: {rates[0]:.3g}, and {rates[1]:.3g}"
        )
    names, numbers = summary_differences(pairs)
    spread = np.sqrt((numbers**2).sum(axis=0))
    scores = numbers.sum(axis=0) / np.where(spread > 0.0, spread, 1.0)
    worst = int(np.abs(scores).argmax())
    more = "more" if scores[worst] > 0 else "less"
    lines.append(f"{names[worst]}: {more} in the first, by {abs(scores[worst]):.1f} sd")
    return tuple(lines)


def _unit_words(units: tuple[Unit, ...]) -> str:
    shown = ["(end)" if unit == END_UNIT else repr(unit) for unit in units[:8]]
    more = "" if len(units) <= 8 else f" and {len(units) - 8} more"
    return " ".join(shown) + more


# The schedule: every prompt is asked, and a few are asked often.
#
# What is asked next depends on how answers begin, of both engines together, and on nothing that
# swapping a pair would change: all error rates stay those of the swaps.


_MAX_COLLISION_RATE = 0.9  # of answers to a prompt that begin alike; with more it tells little


def collect_in_rounds(
    endpoints: tuple[Endpoint, Endpoint],
    prompts: Sequence[Prompt],
    law: Sampling,
    settings: AgainstSettings,
    *,
    concurrency: int | None = None,
    keep: Path | None = None,
    say: Callable[[str], None],
) -> BothAnswers:
    """Ask two servers until the deviation of ``settings`` would be found, or the plan ends.

    With ``repeats`` each prompt is asked as often. Without, up to 64 prompts are tried. Of those
    with several answers, the eight that are answered in the fewest ways are asked as often as is
    planned, and again if that was too little. ``UsageError`` as :func:`collect_both`.
    """

    def ask(schedule: Sequence[Prompt], before: BothAnswers | None) -> BothAnswers:
        how: Any = {"seed": settings.seed, "concurrency": concurrency, "keep": keep}
        return collect_both(endpoints, schedule, law, before=before, progress=say, **how)

    return run_schedule(prompts, settings, ask, _read_saved_answers(keep), say)


def run_schedule(
    prompts: Sequence[Prompt],
    settings: AgainstSettings,
    ask: Callable[[Sequence[Prompt], BothAnswers | None], BothAnswers],
    kept: tuple[tuple[Answer, ...], tuple[Answer, ...]] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> BothAnswers:
    """Call ``ask`` with longer and longer schedules; ``kept``: answers of an earlier run."""
    if settings.repeats is not None:
        schedule = list(prompts) * settings.repeats
    else:
        count = min(len(prompts), MAX_PILOT_PROMPTS)
        schedule = [prompts[i * len(prompts) // count] for i in range(count)] * PILOT_PAIRS
    while kept is not None and min(map(len, kept)) >= len(schedule):
        size = len(schedule)
        earlier = BothAnswers(kept[0][:size], kept[1][:size], ())
        longer = _extend_schedule(earlier, schedule, settings, lambda _: None)
        if longer is None:
            break
        schedule = longer
    answers = ask(schedule, None)
    while (longer := _extend_schedule(answers, schedule, settings, say)) is not None:
        schedule = longer
        answers = ask(schedule, answers)
    return replace(answers, planned=len(schedule))


def _extend_schedule(
    asked: BothAnswers,
    schedule: list[Prompt],
    settings: AgainstSettings,
    say: Callable[[str], None],
) -> list[Prompt] | None:
    if settings.repeats is not None:
        return None
    pairs = pair_answers(asked.first, asked.second)
    names = dict(zip((answer.prompt for answer in asked.first), schedule, strict=False))
    largest = max(map(len, pairs.groups))
    if largest <= PILOT_PAIRS:
        shared = dict(zip(pairs.prompts, map(collision_rate, pairs.groups), strict=True))
        able = [prompt for prompt in shared if shared[prompt] < _MAX_COLLISION_RATE]
        able.sort(key=shared.__getitem__, reverse=True)
        often = [names[prompt] for prompt in able[:MAX_REPEATED_PROMPTS]]
        if not often or (repeats := settings.planned(len(often))) <= PILOT_PAIRS:
            return None
        say(
            f"{len(often)} of {len(shared):,} prompts are asked {repeats:,} times: "
            f"their answers begin in the fewest ways, but more than one"
        )
        return schedule + often * (repeats - PILOT_PAIRS)
    most = most_repeated_prompts(pairs)
    often = [
        names[prompt]
        for prompt, group in zip(pairs.prompts, pairs.groups, strict=True)
        if 2 * len(group) >= largest
    ]
    detectable = count_prefixes(most).detectable(settings.shares()["counts"])
    wanted = settings.more(largest, detectable, len(often))
    if wanted is None:
        return None
    say(
        f"answers begin in more ways than planned, TV {detectable:.2g} would be found: the "
        f"{len(often)} prompts are asked {wanted:,} times in all"
    )
    return schedule + often * (wanted - largest)


def _read_saved_answers(keep: Path | None) -> tuple[tuple[Answer, ...], tuple[Answer, ...]] | None:
    """Return what can be read of an earlier run's files; the rest is reported when it continues."""
    if keep is None or not (keep.is_file() and second_answer_file(keep).is_file()):
        return None
    sides = []
    for path in (keep, second_answer_file(keep)):
        answers: list[Answer] = []
        with suppress(UsageError, OSError):
            whole = path.read_bytes().rfind(b"\n") + 1
            for at, value in read_objects(path, "keep", whole):
                answers.append(check_answer(value, at))
        sides.append(tuple(answers))
    return sides[0], sides[1]


# The whole comparison, from the answers to the document.


_COPY_REASONS = (
    "answers to one prompt are copies of each other",
    "the two answers are copies of each other, in each",
)


@dataclass(frozen=True)
class AnswerSources:
    """The names of two sources of answers, and the command that compares them again.

    ``planned``: pairs as fixed beforehand; None: those that are there. ``asked``: the parameters of
    both. ``endpoint``: whether servers were asked; ``side_by_side``: whether the answers of a pair
    came at one time; ``notes``: remarks on them.
    """

    first: str
    second: str
    reproduce: str
    planned: int | None = None
    asked: doc.AskedFor | None = None
    endpoint: bool = False
    side_by_side: bool = False
    notes: tuple[str, ...] = ()


def audit_against(
    pairs: AnswerPairs, sources: AnswerSources, settings: AgainstSettings | None = None
) -> doc.AgainstRun:
    """Judge whether two engines answer by one distribution; ``UsageError`` without a pair."""
    settings, stamp = settings or AgainstSettings(), start_meta()
    if not pairs.n:
        raise UsageError("there is no pair of answers: ask both the same prompts")
    begins = feature_differences(pairs, prefixes)
    units = feature_differences(pairs, lambda _, answer: answer)
    most = most_repeated_prompts(pairs)
    starts = count_prefixes(most)
    tests, not_run = run_tests(pairs, most, starts, begins, units, settings)
    findings = tuple(rejection_findings(tests))
    detectable = min(starts.detectable(settings.shares()["counts"]), 1.0)
    open_ = _open_reason(pairs, detectable, settings, sources)
    copies = open_ is not None and open_.startswith(_COPY_REASONS)
    verdict: doc.Verdict = "INCONCLUSIVE" if open_ else "PASS"
    if findings and not copies:
        verdict = "FAIL"
    certificate = first_unit_certificate(most, chosen=len(most) < len(pairs.groups))
    return doc.AgainstRun(
        schema_version=doc.SCHEMA_VERSION,
        first=sources.first,
        second=sources.second,
        endpoint=sources.endpoint,
        units=pairs.kind,
        prompts=len(pairs.groups),
        repeats=max(map(len, pairs.groups)),
        asked_most=len(most),
        once=starts.once,
        pairs=pairs.n,
        planned=pairs.n if sources.planned is None else sources.planned,
        left_out=pairs.left_out,
        tokens=(pairs.units(0), pairs.units(1)),
        copied=(count_copied_prompts(pairs, 0), count_copied_prompts(pairs, 1)),
        asked=sources.asked,
        sha256=_pairs_sha256(pairs),
        alpha=settings.alpha,
        detect=settings.detect,
        power=POWER,
        seed=settings.seed,
        verdict=verdict,
        tests=tuple(test_document(test) for test in tests),
        detectable=detectable,
        deviation=ANSWER_DEVIATION,
        certificate=certificate_document(certificate) if verdict == "PASS" else None,
        findings=findings,
        shown=_largest_differences(pairs, begins, units) if findings else (),
        inconclusive=open_ if verdict == "INCONCLUSIVE" else None,
        notes=(*_verdict_notes(pairs, not_run, sources, verdict), *sources.notes),
        reproduce=sources.reproduce,
        meta=stamp(),
    )


def _open_reason(
    pairs: AnswerPairs, detectable: float, settings: AgainstSettings, sources: AnswerSources
) -> str | None:
    """Return why there is no verdict, if so; copies leave none whatever was found."""
    several = any(len(group) >= 3 and len({a for a, _ in group}) > 2 for group in pairs.groups)
    if several and all(one == other for _, one, other in iter_pairs(pairs)):
        return (
            f"{_COPY_REASONS[1]} of all {pairs.n:,} pairs, though those to one prompt differ: one "
            f"seed for both, a cache before them, or one server behind both addresses; ask without "
            f"a seed, and each by itself"
        )
    # Those that were only tried may have one answer by their law, and are asked no more for that.
    most = replace(pairs, groups=tuple(map(tuple, most_repeated_prompts(pairs))))
    count = sum(len(group) >= 3 for group in most.groups)
    if count and all(2 * count_copied_prompts(most, side) > count for side in (0, 1)):
        return (
            f"{_COPY_REASONS[0]}, in {count_copied_prompts(most, 0):,} of {count:,} "
            f"prompts of the first and {count_copied_prompts(most, 1):,} of the second: they were "
            f"drawn at temperature 0 or with one seed, and asking again tells nothing; ask above "
            f"0, and without a seed"
        )
    longer = sum(len(answer) > 1 for group in pairs.groups for pair in group for answer in pair)
    if longer < pairs.n:
        return (
            "most answers are one token: what speculation does shows from the second on; ask for "
            "longer ones, by --max-tokens"
        )
    if detectable <= settings.detect:
        return None
    planned = pairs.n if sources.planned is None else sources.planned
    short = f"{pairs.n:,} of {planned:,} pairs are there: " if pairs.n < planned else ""
    often = max(map(len, pairs.groups))
    if detectable >= 1.0:
        few, amount = min(len(pairs.groups), MAX_REPEATED_PROMPTS), "more than a million answers"
        with suppress(UsageError):
            amount = f"some {replace(settings, repeats=None).planned(few):,} answers"
        return (
            f"{short}no power is promised, asked was {settings.detect:g}: that takes {amount} to "
            f"each of {few} prompts, of each, by --repeats"
        )
    wanted = math.ceil(often * (detectable / settings.detect) ** 2.7)
    return (
        f"{short}power {POWER:g} against TV {detectable:.2g} alone, asked was "
        f"{settings.detect:g}: that takes some {wanted:,} answers to each prompt of each, by "
        f"--repeats, or prompts that are answered in fewer ways"
    )


def _verdict_notes(
    pairs: AnswerPairs, not_run: str | None, sources: AnswerSources, verdict: doc.Verdict
) -> Iterator[str]:
    if pairs.kind != "ids":
        yield (
            "text was compared, as the two give no token ids that mean the same: two ways to spell "
            "one text are one here, and a fault that changes nothing else is not seen"
        )
    if not sources.side_by_side:
        yield (
            "two files do not say when their answers came: what changes over time, such as a model "
            "that was reloaded, looks like a difference here; servers are asked side by side"
        )
    for side, name in ((0, "first"), (1, "second")):
        count, other = count_copied_prompts(pairs, side), count_copied_prompts(pairs, 1 - side)
        if verdict == "FAIL" and count > len(pairs.groups) / 2 >= other:
            yield f"the {name} gives one answer alone to {count:,} prompts: one seed?"
    if not_run is not None and verdict != "FAIL":
        yield f"not run: {not_run}"
    if pairs.left_out:
        yield f"{pairs.left_out:,} answers have no other beside them: left out"


def _pairs_sha256(pairs: AnswerPairs) -> str:
    digest = hashlib.sha256()
    for prompt, group in zip(pairs.prompts, pairs.groups, strict=True):
        digest.update(f"{json.dumps([prompt, group])}\n".encode())
    return digest.hexdigest()
