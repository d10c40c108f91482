"""A comparison on a pair of real models: every verifier decodes, is judged and timed.

On draft trees rules that judge such stand beside those for a single draft, which is as long.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from simverify import results as doc
from simverify.battery.by_position import output_tokens
from simverify.battery.judgement import stamped
from simverify.checks import comparison_iv
from simverify.comparing.real.pair_rows import DETECT, POWER, expected_accepted, pair_row
from simverify.comparing.real.tree_rows import coupling_bound, tree_row
from simverify.comparing.trees.rules import tree_rules
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair
from simverify.simulators.decoding.emitted import Decoded, Emitted
from simverify.simulators.decoding.expected import RULES
from simverify.simulators.decoding.job import LANES, REQUEST_TOKENS, decoding_document, make_job
from simverify.simulators.decoding.judges import judges
from simverify.simulators.decoding.loop import Clock, decode, plain
from simverify.simulators.decoding.trees.emitted import DecodedTrees, TreesEmitted, fewest_nodes
from simverify.simulators.decoding.trees.loop import RuleOfTrees, decode_trees
from simverify.simulators.latency import predicted_speedup
from simverify.trees import Drafting
from simverify.verifiers import Verifier, get_verifier
from simverify.verifiers.trees import TreeVerifier

TOKENS = 20_000
"""Fewest emitted tokens a verifier by default: enough for the acceptance test as well."""


def compare_pair(
    pair: TransformerPair,
    prompts: Sequence[str],
    verifiers: Sequence[str] | None = ("token", "block", "greedy"),
    *,
    gamma: int,
    drafting: Drafting | None = None,
    tokens: int | None = None,
    lanes: int = LANES,
    request_tokens: int = REQUEST_TOKENS,
    cost_ratio: float = 0.1,
    alpha: float = 1e-6,
    detect: float = DETECT,
    seed: int = 0,
    prompts_file: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> doc.CompareRun:
    """Decode the prompts with every verifier, judge the tokens, and time it against no draft.

    Parameters
    ----------
    pair
        Target, draft, tokenizer and sampling, as
        :func:`~simverify.models.real.transformer.load_pair` returns them.
    prompts
        Texts; lanes take them in turn, over and over.
    verifiers
        Of token, block, greedy and match. On draft trees of those that judge such, with token
        and block beside them; None: all that are lossless there.
    gamma
        Draft length; the depth of the trees.
    drafting
        The trees that are drafted; None: a single draft.
    tokens
        Emitted tokens a verifier; by default as many as the promised power needs.
    lanes
        Requests decoded side by side, 2 or more.
    request_tokens
        Most new tokens of one request; fewer where the context is short.
    cost_ratio
        Time of a draft token over that of a target call, for the model of the result; what
        was measured stands beside it.
    alpha, detect
        As in :func:`simverify.compare`; the deviation is of the kind that the result names.
    seed
        Of all draws. Batches of another size round otherwise and may emit other tokens.
    prompts_file
        Path of the prompts, for the document.

    Raises
    ------
    UsageError
        If a value is out of range, a verifier is unknown, or a prompt is too long.
    """
    comparison_iv(
        verifiers or (), gamma=gamma, cost_ratio=cost_ratio, alpha=alpha, detect=detect, seed=seed
    )
    rules = _rules_iv(verifiers, drafting)
    share = alpha / len(rules)
    wanted = max(output_tokens(detect, share), TOKENS) if tokens is None else tokens
    job = make_job(
        pair, prompts, gamma=gamma, tokens=wanted, lanes=lanes, request_tokens=request_tokens,
        seed=seed,
    )  # fmt: skip
    if drafting is not None:
        pair.trees_iv()
    say, stamp = progress or (lambda _: None), stamped()
    say(f"{pair.name}: the target alone")
    alone = plain(pair, job)
    runs: dict[str, Decoded] = {}
    of_trees: dict[str, DecodedTrees] = {}
    clocks = []
    calls = -(-job.lane_tokens // (gamma + 1))
    for rule in rules:
        say(f"{pair.name}: {rule.name}")
        if isinstance(rule, TreeVerifier):
            assert drafting is not None
            nodes = fewest_nodes(drafting.shape, job.lane_tokens)
            seen = TreesEmitted(job.lanes, seed, drafting, rule, nodes=nodes)
            clocks.append(decode_trees(pair, job, drafting, partial(RuleOfTrees, rule.rule), seen))
            of_trees[rule.name] = seen.decoded
        else:
            emitted = Emitted(job, rule, calls=calls)
            clocks.append(decode(pair, job, judges(rule), emitted))
            runs[rule.name] = emitted.decoded
    rows = []
    for rule in rules:
        if isinstance(rule, TreeVerifier):
            assert drafting is not None
            row = tree_row(
                pair.name, pair.vocab_size, rule, drafting, of_trees[rule.name], share=share,
                detect=detect, cost_ratio=cost_ratio,
            )  # fmt: skip
        else:
            row = pair_row(
                pair.name, pair.vocab_size, rule, runs[rule.name], share=share, detect=detect,
                cost_ratio=cost_ratio, baseline=runs.get("token"),
            )  # fmt: skip
            row = msgspec.structs.replace(row, one_draft=drafting is not None)
        rows.append(row)
    timings = [_timing(row, clock) for row, clock in zip(rows, clocks, strict=True)]
    latencies = [
        _latency(row, clock, alone, gamma) for row, clock in zip(rows, clocks, strict=True)
    ]
    info = doc.ModelInfo(
        name=pair.name, given=None, vocab_size=pair.vocab_size,
        bounds=_bounds(rules[0].name, runs, drafting, of_trees), file_sha256=None,
        draft_distance=None, temperature=None, corpus_sha256=None,
        target_perplexity=None, draft_perplexity=None,
    )  # fmt: skip
    return doc.CompareRun(
        schema_version=doc.SCHEMA_VERSION,
        seed=seed,
        gamma=gamma,
        blocks=None,
        alpha=alpha,
        detect=detect,
        power=POWER,
        eos=min(pair.eos) if pair.eos else None,
        verdict=doc.overall([row.verdict for row in rows]),
        results=tuple(rows),
        models=(info,),
        decoding=decoding_document(pair, job, prompts, prompts_file),
        drafting=None
        if drafting is None
        else doc.DraftTrees(parents=drafting.shape.parents, scheme=drafting.scheme.name),
        meta=msgspec.structs.replace(stamp(), timings=tuple(timings), latencies=tuple(latencies)),
    )


def _bounds(
    first: str,
    runs: Mapping[str, Decoded],
    drafting: Drafting | None,
    of_trees: Mapping[str, DecodedTrees],
) -> doc.Bounds:
    """Return the bound that no rule beats in one call; ``first``: the rule that is named first."""
    if drafting is not None:
        name, seen = next(iter(of_trees.items()))
        return doc.Bounds(coupling=coupling_bound(drafting, seen), blocks_of=name)
    # Greedy's first calls attain the bound: on its own blocks no row contradicts it.
    blocks_of = "greedy" if "greedy" in runs else first
    return doc.Bounds(coupling=expected_accepted(runs[blocks_of], "greedy"), blocks_of=blocks_of)


def _timing(row: doc.CompareResult, clock: Clock) -> doc.Timing:
    seconds = clock.draft + clock.score + clock.verify
    return doc.Timing(
        model=row.model, verifier=row.verifier, blocks_per_second=clock.calls / seconds
    )


def _latency(row: doc.CompareResult, clock: Clock, alone: Clock, gamma: int) -> doc.Latency:
    each = [part / clock.tokens for part in (clock.draft, clock.score, clock.verify)]
    rounds = clock.calls / clock.score
    ratio = clock.draft / clock.drafted * rounds
    return doc.Latency(
        model=row.model, verifier=row.verifier,
        plain=alone.seconds_per_token, speculative=clock.seconds_per_token,
        draft=each[0], score=each[1], verify=each[2], cost_ratio=ratio,
        predicted=predicted_speedup(row.block_efficiency - 1.0, gamma, ratio),
        measured=alone.seconds_per_token / clock.seconds_per_token,
        block_cost=clock.score / clock.calls * alone.calls / alone.score,
    )  # fmt: skip


def _rules_iv(
    names: Sequence[str] | None, drafting: Drafting | None
) -> "list[Verifier | TreeVerifier]":
    if drafting is None:
        return [_rule_iv(get_verifier(name)) for name in names or ()]
    rules: list[Verifier | TreeVerifier] = [
        rule
        for rule in tree_rules(names, drafting, {}).values()
        if isinstance(rule, Verifier | TreeVerifier)
    ]
    if not any(isinstance(rule, TreeVerifier) for rule in rules):
        raise UsageError(
            f"there is no rule for draft trees among {', '.join(rule.name for rule in rules)}: "
            "name one, or ask for a single draft"
        )
    return rules


def _rule_iv(rule: Verifier) -> Verifier:
    if rule.name not in RULES:
        raise UsageError(
            f"verifier {rule.name!r} has no expected acceptance on real models: expected one of "
            f"{', '.join(RULES)} (for temperature 0, set the temperature)"
        )
    return rule
