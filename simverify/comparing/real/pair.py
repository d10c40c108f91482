"""A comparison on a pair of real models: every verifier decodes, is judged and timed.

On draft trees rules that judge such stand beside those for a single draft, which is as long.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from simverify import results as doc
from simverify.battery.by_position import output_tokens
from simverify.battery.judgement import stamped
from simverify.checks import comparison_iv
from simverify.comparing.real.drafted import (
    Promise,
    decode_rules,
    latencies,
    model_info,
    rows_of,
    timings,
)
from simverify.comparing.real.layer_parallel import TOKENS as FEWER
from simverify.comparing.real.layer_parallel import drafting_times, layer_parallel_of
from simverify.comparing.real.pair_rows import DETECT, POWER
from simverify.comparing.trees.rules import tree_rules
from simverify.drafting.method import DraftMethod
from simverify.errors import UsageError
from simverify.models.real.transformer import TransformerPair
from simverify.simulators.decoding.expected import RULES
from simverify.simulators.decoding.job import LANES, REQUEST_TOKENS, decoding_document, make_job
from simverify.simulators.decoding.loop import plain
from simverify.trees import Drafting
from simverify.verifiers import Verifier, get_verifier
from simverify.verifiers.trees import TreeVerifier

if TYPE_CHECKING:
    from simverify.simulators.decoding.lanes import Clock

TOKENS = 20_000
"""Fewest emitted tokens a verifier by default: enough for the acceptance test as well."""


def compare_pair(
    pair: TransformerPair,
    prompts: Sequence[str],
    verifiers: Sequence[str] | None = ("token", "block", "greedy"),
    *,
    gamma: int,
    drafting: Drafting | None = None,
    methods: Sequence[DraftMethod] = (DraftMethod(),),
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
    methods
        How drafts are made, each in its turn; rows and bounds stand for each by its name.
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
    _methods_iv(methods, drafting)
    share = alpha / (len(rules) * len(methods))
    wanted = max(output_tokens(detect, share), TOKENS) if tokens is None else tokens
    job = make_job(
        pair, prompts, gamma=gamma, tokens=wanted, lanes=lanes, request_tokens=request_tokens,
        seed=seed,
    )  # fmt: skip
    if drafting is not None:
        pair.trees_iv()
    for method in methods:
        method.make(pair, 1)  # what does not fit the model is said before anything runs
    say, stamp = progress or (lambda _: None), stamped()
    say(f"{Path(pair.target_name).name}: the target alone")
    alone = plain(pair, job)
    promise = Promise(share, detect, cost_ratio)
    rows, models, speeds, times = [], [], [], []
    clocks: dict[int, Clock] = {}
    for method in methods:
        found = decode_rules(pair, job, rules, drafting, method, say)
        own = rows_of(pair, found, promise)
        rows += own
        models.append(model_info(pair, found))
        speeds += timings(own, found)
        times += latencies(own, found, alone)
        if method.name == "easyspec":
            clocks.setdefault(method.layer_parallel, next(iter(found.clocks.values())))
    layer_parallel: tuple[doc.LayerParallel, ...] = ()
    drafting_time: tuple[doc.DraftingTime, ...] = ()
    if clocks:
        studied = min(wanted, FEWER) if tokens is None else tokens
        layer_parallel = layer_parallel_of(pair, job, list(clocks), tokens=studied, say=say)
        drafting_time = drafting_times(pair, job, clocks)
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
        models=tuple(models),
        decoding=decoding_document(pair, job, prompts, prompts_file, methods),
        drafting=None
        if drafting is None
        else doc.DraftTrees(parents=drafting.shape.parents, scheme=drafting.scheme.name),
        layer_parallel=layer_parallel,
        meta=msgspec.structs.replace(
            stamp(), timings=tuple(speeds), latencies=tuple(times), drafting=drafting_time
        ),
    )


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


def _methods_iv(methods: Sequence[DraftMethod], drafting: Drafting | None) -> None:
    if len(set(methods)) < len(methods):
        raise UsageError("a drafter is named twice: name each way of drafting once")
    for method in methods:
        if drafting is not None:
            method.trees_iv()


def _rule_iv(rule: Verifier) -> Verifier:
    if rule.name not in RULES:
        raise UsageError(
            f"verifier {rule.name!r} has no expected acceptance on real models: expected one of "
            f"{', '.join(RULES)} (for temperature 0, set the temperature)"
        )
    return rule
