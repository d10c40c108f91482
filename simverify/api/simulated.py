"""A comparison on simulated models, from its options: a single draft or trees, whose rules."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from simverify.checks import refuse
from simverify.errors import OptionError
from simverify.models import DEFAULT_DISTANCE, Model
from simverify.options.compare import CompareOptions, RealPairOptions
from simverify.results import CompareRun
from simverify.verifiers import VERIFIERS
from simverify.verifiers.trees import TREE_VERIFIERS

if TYPE_CHECKING:
    from simverify.comparing.own import OwnRule
    from simverify.simulators.latency import Load
    from simverify.trees import Drafting

DEFAULT_MODELS = ("toy", "compact", "markov-64", "ngram")
TREE_MODELS = ("toy", "compact", "markov-64")
"""By default on draft trees: those whose rules are compiled."""

DEFAULT_VERIFIERS = ("token", "block", "greedy", "match")
DETECT = 0.01

Rule = str | Callable[..., Any]
"""A built-in verifier's name, a SPEC as an audit takes it, or a callable."""


def compare_simulated(options: CompareOptions, shared: dict[str, Any]) -> CompareRun:
    """Compare rules on simulated models, on a single draft or on draft trees."""
    from simverify.comparing.comparison import compare as compare_models
    from simverify.comparing.own import DETECT as FOR_CALLS

    distance, temperature = options.draft_distance, options.temperature
    models = DEFAULT_MODELS if options.models is None else options.models
    verifiers = options.verifiers
    drafting = asked_trees(options, shared)
    if drafting is not None:
        refuse(
            {"calls": options.calls or None, "eos": options.eos},
            "{option} is for a single draft: leave {drafts} and {tree} out",
        )
        models = TREE_MODELS if models == DEFAULT_MODELS else models
    else:
        verifiers = DEFAULT_VERIFIERS if verifiers is None else verifiers
    own: dict[str, OwnRule] = {}
    if verifiers is not None and not isinstance(verifiers, str):
        verifiers, own = _own_rules(verifiers, drafting, shared)
    # On ngram the rules for draft trees are called too.
    called = own or (drafting is not None and any(_is_ngram(model) for model in models))
    return compare_models(
        models,
        verifiers,
        drafting=drafting,
        own=own,
        load=_load(options),
        blocks=options.blocks,
        calls=options.calls,
        eos=options.eos,
        threads=options.threads,
        detect=(FOR_CALLS if called else DETECT) if options.detect is None else options.detect,
        temperature=1.0 if temperature is None else temperature,
        distance=DEFAULT_DISTANCE if distance is None else distance,
        **shared,
    )


def _is_ngram(model: str | Model) -> bool:
    return (model if isinstance(model, str) else model.name) == "ngram"


def asked_trees(
    options: CompareOptions | RealPairOptions, shared: dict[str, Any]
) -> "Drafting | None":
    """Return how trees are drafted, None for a single draft; the depth is gamma in ``shared``."""
    if options.drafts is None and options.tree is None:
        refuse({"scheme": options.scheme}, "{option} is for draft trees: name {drafts} or {tree}")
        return None
    from simverify.comparing.trees.asked import drafting_asked

    tree = None if options.tree is None else str(options.tree)
    drafting = drafting_asked(options.drafts, tree, options.scheme, options.gamma)
    shared["gamma"] = drafting.shape.depth
    return drafting


def _own_rules(
    verifiers: Sequence[Rule], drafting: "Drafting | None", shared: Mapping[str, Any]
) -> "tuple[list[str], dict[str, OwnRule]]":
    """Return the names of ``verifiers``, and of them the rules that are nobody's built-in ones.

    Callables, and what an audit knows by a SPEC: code, faults, engines.
    """
    built_in = {**VERIFIERS, **TREE_VERIFIERS}
    names: list[str] = []
    own: dict[str, OwnRule] = {}
    for verifier in verifiers:
        if isinstance(verifier, str) and verifier in built_in:
            names.append(verifier)
            continue
        from simverify.api.code.own_rules import own_rule
        from simverify.api.code.subjects import subject_of

        name, load = subject_of(verifier)
        names.append(name)
        if name not in own:
            own[name] = own_rule(
                name, load, gamma=shared["gamma"], seed=shared["seed"], drafting=drafting
            )
    return names, own


def _load(options: CompareOptions) -> "Load":
    from simverify.simulators.latency import Load

    if options.free_rows is None and options.batch_size is not None and options.batch_size != 1:
        raise OptionError(
            "{batch_size} alone changes nothing, as all rows of a call are free: name {free_rows} "
            "too, such as {free_rows} 128"
        )
    free = None if options.free_rows is None else float(options.free_rows)
    return Load(1 if options.batch_size is None else options.batch_size, free)
