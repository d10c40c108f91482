"""All rules of a comparison on one pair of real models, drafting in one way."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from simverify import results as doc
from simverify.comparing.real.pair_rows import expected_accepted, pair_row
from simverify.comparing.real.tree_rows import coupling_bound, tree_row
from simverify.drafting.method import DraftMethod
from simverify.models.real.transformer import TransformerPair
from simverify.simulators.decoding.emitted import Decoded, Emitted
from simverify.simulators.decoding.job import drafter_document
from simverify.simulators.decoding.judges import judges
from simverify.simulators.decoding.lanes import Clock, Job
from simverify.simulators.decoding.loop import decode
from simverify.simulators.decoding.trees.emitted import DecodedTrees, TreesEmitted, fewest_nodes
from simverify.simulators.decoding.trees.loop import RuleOfTrees, decode_trees
from simverify.simulators.latency import predicted_speedup
from simverify.trees import Drafting
from simverify.verifiers import Verifier
from simverify.verifiers.trees import TreeVerifier


@dataclass(frozen=True)
class Promise:
    """What every row is judged by: its ``share`` of alpha, what is to be found, a cost ratio."""

    share: float
    detect: float
    cost_ratio: float


@dataclass(frozen=True, eq=False)
class Drafted:
    """What every rule made of the drafts of one method, by its name."""

    method: DraftMethod
    rules: Sequence[Verifier | TreeVerifier]
    drafting: Drafting | None
    runs: dict[str, Decoded]
    of_trees: dict[str, DecodedTrees]
    clocks: dict[str, Clock]


def decode_rules(
    pair: TransformerPair,
    job: Job,
    rules: Sequence[Verifier | TreeVerifier],
    drafting: Drafting | None,
    method: DraftMethod,
    say: Callable[[str], None],
) -> Drafted:
    """Decode ``job`` with every rule, one after the other."""
    runs: dict[str, Decoded] = {}
    of_trees: dict[str, DecodedTrees] = {}
    clocks = {}
    calls = -(-job.lane_tokens // (job.gamma + 1))
    for rule in rules:
        say(f"{method.on(pair)}: {rule.name}")
        if isinstance(rule, TreeVerifier):
            assert drafting is not None
            nodes = fewest_nodes(drafting.shape, job.lane_tokens)
            seen = TreesEmitted(job.lanes, job.seed, drafting, rule, nodes=nodes)
            judge = partial(RuleOfTrees, rule.rule)
            clocks[rule.name] = decode_trees(pair, job, drafting, judge, seen, method)
            of_trees[rule.name] = seen.decoded
        else:
            emitted = Emitted(job, rule, calls=calls)
            clocks[rule.name] = decode(pair, job, judges(rule), emitted, method=method)
            runs[rule.name] = emitted.decoded
    return Drafted(method, rules, drafting, runs, of_trees, clocks)


def rows_of(pair: TransformerPair, found: Drafted, promise: Promise) -> list[doc.CompareResult]:
    """Judge what every rule made."""
    rows = []
    name, vocab_size = found.method.on(pair), pair.vocab_size
    for rule in found.rules:
        if isinstance(rule, TreeVerifier):
            assert found.drafting is not None
            row = tree_row(
                name, vocab_size, rule, found.drafting, found.of_trees[rule.name],
                share=promise.share, detect=promise.detect, cost_ratio=promise.cost_ratio,
            )  # fmt: skip
        else:
            row = pair_row(
                name, vocab_size, rule, found.runs[rule.name], share=promise.share,
                detect=promise.detect, cost_ratio=promise.cost_ratio,
                baseline=found.runs.get("token"),
            )  # fmt: skip
            row = msgspec.structs.replace(row, one_draft=found.drafting is not None)
        rows.append(row)
    return rows


def model_info(pair: TransformerPair, found: Drafted) -> doc.ModelInfo:
    """Return the document's entry of the pair, drafting as it did."""
    method = found.method
    return doc.ModelInfo(
        name=method.on(pair), given=None, vocab_size=pair.vocab_size,
        bounds=_bounds(found), file_sha256=None, draft_distance=None, temperature=None,
        corpus_sha256=None, target_perplexity=None, draft_perplexity=None,
        drafter=drafter_document(method),
    )  # fmt: skip


def timings(rows: Sequence[doc.CompareResult], found: Drafted) -> list[doc.Timing]:
    """Return how fast each rule's calls were."""
    return [
        doc.Timing(
            model=row.model, verifier=row.verifier,
            blocks_per_second=clock.calls / (clock.draft + clock.score + clock.verify),
        )
        for row, clock in zip(rows, found.clocks.values(), strict=True)
    ]  # fmt: skip


def latencies(rows: Sequence[doc.CompareResult], found: Drafted, alone: Clock) -> list[doc.Latency]:
    """Return the wall clock of each rule; ``alone``: of the target without a draft."""
    return [
        _latency(row, clock, alone) for row, clock in zip(rows, found.clocks.values(), strict=True)
    ]


def _latency(row: doc.CompareResult, clock: Clock, alone: Clock) -> doc.Latency:
    each = [part / clock.tokens for part in (clock.draft, clock.score, clock.verify)]
    rounds = clock.calls / clock.score
    ratio = clock.draft / clock.drafted * rounds
    return doc.Latency(
        model=row.model, verifier=row.verifier,
        plain=alone.seconds_per_token, speculative=clock.seconds_per_token,
        draft=each[0], score=each[1], verify=each[2], cost_ratio=ratio,
        predicted=predicted_speedup(row.block_efficiency - 1.0, row.gamma, ratio),
        measured=alone.seconds_per_token / clock.seconds_per_token,
        block_cost=clock.score / clock.calls * alone.calls / alone.score,
    )  # fmt: skip


def _bounds(found: Drafted) -> doc.Bounds:
    """Return the bound that no rule beats in one call."""
    if found.drafting is not None:
        name, seen = next(iter(found.of_trees.items()))
        return doc.Bounds(coupling=coupling_bound(found.drafting, seen), blocks_of=name)
    # Greedy's first calls attain the bound: on its own blocks no row contradicts it.
    blocks_of = "greedy" if "greedy" in found.runs else found.rules[0].name
    return doc.Bounds(
        coupling=expected_accepted(found.runs[blocks_of], "greedy"), blocks_of=blocks_of
    )
