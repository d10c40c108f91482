"""The paths on which a call broke its contract, run again and shown draw by draw."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from simverify.auditing.exact.generations.enumerate import MAX_PATHS, SECONDS, check_ids
from simverify.auditing.exact.generations.generation import decode
from simverify.auditing.exact.generations.trees import arguments_of, as_judged
from simverify.auditing.probes.calls import Outcome, Rule, attempt, built, caller, read
from simverify.auditing.probes.cases import Case
from simverify.auditing.replay.blame.steps import Steps
from simverify.auditing.replay.drafts import broken_draft
from simverify.auditing.replay.instance_rows import InstanceRows, drafting_of
from simverify.auditing.replay.text import branch_line
from simverify.auditing.subject import Contract
from simverify.results import Breach
from simverify.symbolic import Enumeration
from simverify.symbolic.enumeration.endings import BadTokens, Tokens
from simverify.symbolic.enumeration.recorder import Leaf, Recorder
from simverify.trees import ROOT, DraftTree, TreeShape


def replay_breach(rule: Rule, contract: Contract, found: Breach) -> tuple[str, ...]:
    """Return a text for each path on which ``rule`` breaks its contract again, heaviest first.

    Of a rule that drafts itself, in the shortest generation in which it does. Raises
    ``CannotEnumerate``, ``TooManyPaths`` or ``OutOfTime`` as the exact tier does.
    """
    broken = broken_paths(rule, contract, found)
    return tuple(
        "\n".join([*_head(found), f"path {i} of {len(broken)} that break it:", *_path(leaf)]) + "\n"
        for i, leaf in enumerate(broken)
    )


def broken_paths(
    rule: Rule, contract: Contract, found: Breach, steps: Steps | None = None
) -> list[Leaf]:
    """Return the paths on which ``rule`` breaks its contract again, the heaviest first.

    ``steps``: follows the lines that they run. Raises as :func:`replay_breach` does.
    """
    broken: list[Leaf] = []
    rule, contract = as_judged(rule, contract, drafting_of(found.instance))
    for length in _lengths(contract, found):
        broken = broken or _broken(rule, contract, found, length, steps)
    return broken


def _lengths(contract: Contract, found: Breach) -> list[int]:
    """Return how many tokens are generated, at first and then."""
    gamma = found.instance.gamma
    if contract != "step":
        return [gamma + 1]
    # The last call asks for the rows after gamma drafts more.
    deepest = max(len(prefix.split(",")) for prefix in found.instance.target_probs)
    recorded = max(deepest - gamma + 1, 1)
    return sorted({min(gamma + 1, recorded), recorded})


def _broken(
    rule: Rule, contract: Contract, found: Breach, length: int, steps: Steps | None
) -> list[Leaf]:
    seed_once = contract in ("step", "draft")
    enumeration = Enumeration(rule, seed_once=seed_once)
    source = Recorder(enumeration.source.prune, seed_once=seed_once, steps=steps)
    enumeration.source = source
    if contract == "step":
        one = _generation(rule, found, length)
    elif contract == "draft":
        one = broken_draft(rule, found)
    else:
        one = _block(rule, found) if contract == "verify" else _tree(rule, found)

    def call() -> Tokens:
        source.handing(enumeration.rng)
        outcome = one(enumeration.rng)
        source.end(outcome.tokens or (), _broke(outcome))
        if outcome.tokens is None:
            raise BadTokens("broken", outcome.fault)
        return outcome.tokens

    with enumeration:
        enumeration.run(call, max_paths=MAX_PATHS, seconds=SECONDS)
    broken = [leaf for leaf in source.take() if leaf.broke]
    return sorted(broken, key=lambda leaf: -leaf.weight)


def _block(rule: Rule, found: Breach) -> Callable[[Any], Outcome]:
    drafted = found.draft_tokens
    assert drafted is not None, "a breach of the verify contract has draft tokens"
    targets, drafts = _rows(found)
    case = Case(found.instance.name, found.instance.gamma, targets, np.vstack([drafts, drafts[:1]]))
    call = caller(rule, "verify")
    return lambda rng: call(case, rng, drafted)


def _tree(rule: Rule, found: Breach) -> Callable[[Any], Outcome]:
    tree, model = _tree_of(found), InstanceRows(found.instance)
    ways = {tree.text(node) for node in range(ROOT, len(tree.tokens))}
    arguments = arguments_of(tree, model.target, model.draft)

    def run(rng: Any) -> tuple[Tokens, str]:
        tokens = read(rule(*(x.copy() for x in arguments.values()), rng))
        if len(tokens) > found.instance.gamma + 1:
            raise BadTokens("too-many", f"returned {len(tokens)} tokens")
        check_ids(tokens, model.vocab_size)
        return tokens, f"returned {tokens}: no way from the root" * (tokens[:-1] not in ways)

    return lambda rng: attempt(lambda: run(rng))


def _tree_of(found: Breach) -> DraftTree:
    drafting = drafting_of(found.instance)
    assert drafting is not None, "a breach of the tree contract says how trees are drafted"
    assert found.parents is not None, "and has the tree's shape"
    assert found.draft_tokens is not None, "and its tokens"
    return DraftTree(TreeShape(found.parents), found.draft_tokens, drafting.scheme)


def _generation(rule: Rule, found: Breach, length: int) -> Callable[[Any], Outcome]:
    model, gamma = InstanceRows(found.instance), found.instance.gamma
    before: Tokens = ()

    def run(rng: Any) -> tuple[Tokens, str]:
        nonlocal before
        before = ()
        step, reset = built(rule)

        def more(emitted: Tokens) -> Tokens:
            nonlocal before
            before = emitted
            new = read(step(emitted, model.target, model.draft, gamma, rng))
            check_ids(new, model.vocab_size)
            return new

        tokens = decode(
            more, reset, length=length, prefix=model.prompt,
            eos=model.eos, earlier_calls=model.earlier_calls,
        )  # fmt: skip
        return tokens, ""

    def one(rng: Any) -> Outcome:
        outcome = attempt(lambda: run(rng))
        if outcome.tokens is not None or not before:
            return outcome
        place = f"in the call after the tokens {', '.join(map(str, before))}"
        return replace(outcome, fault=f"{outcome.fault}, {place}")

    return one


def _broke(outcome: Outcome) -> str:
    if outcome.changed:
        return f"changes its arguments in place: {', '.join(outcome.changed)}"
    return outcome.fault


def _rows(found: Breach) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Target rows (gamma+1, V) and draft rows (gamma, V) of the drafted block."""
    model, drafted = InstanceRows(found.instance), found.draft_tokens or ()
    targets = [model.target(model.prompt + drafted[:i]) for i in range(len(drafted) + 1)]
    drafts = [model.draft(model.prompt + drafted[:i]) for i in range(len(drafted))]
    return np.array(targets), np.array(drafts)


def _head(found: Breach) -> list[str]:
    lines = [f"{found.instance.name}: {found.message}"]
    if found.draft_tokens is None:
        return lines
    if found.parents is not None:
        return [*lines, f"draft tree {_tree_of(found).drawn()}"]
    targets, drafts = _rows(found)
    lines.append(f"draft tokens {', '.join(map(str, found.draft_tokens))}")
    for i, p in enumerate(targets):
        lines += [f"position {i}", f"  p = {_row(p)}"]
        if i < len(drafts):
            lines.append(f"  q = {_row(drafts[i])}")
    return lines


def _path(leaf: Leaf) -> list[str]:
    lines = [f"  {leaf.broke}", f"  probability {leaf.weight:.6g}, {leaf.draws} draws"]
    return lines + [branch_line(branch) for branch in leaf.branches]


def _row(row: np.ndarray[Any, Any]) -> str:
    return "  ".join(f"{x:.6g}" for x in row)
