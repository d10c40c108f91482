"""Verifiers that cut, temper or penalise inside: held to a target that states it."""

from functools import partial

import numpy as np
import pytest
from support.levels import at_night

import simverify
from simverify.auditing.instances import instances_for, is_clear_cut, with_processing
from simverify.auditing.settings import AuditSettings
from simverify.errors import UsageError
from simverify.verifiers.token import verify as token

# Each step as an engine's author would write it on probabilities, apart from simverify's own.


def renormalised(row, keep):
    cut = np.where(keep, row, 0.0)
    return cut / cut.sum()


def top_k(k, row):
    return renormalised(row, np.isin(np.arange(len(row)), np.argsort(-row, kind="stable")[:k]))


def top_p(share, row, *, crossing=1):
    ranked = np.argsort(-row, kind="stable")
    count = max(1, int((np.cumsum(row[ranked]) < share).sum()) + crossing)
    return renormalised(row, np.isin(np.arange(len(row)), ranked[:count]))


def min_p(share, row):
    return renormalised(row, row >= share * row.max())


def typical_p(share, row):
    with np.errstate(divide="ignore", invalid="ignore"):
        surprise = -np.log(row)
        far = np.abs(surprise - np.where(row > 0, row * surprise, 0.0).sum())
    ranked = np.argsort(far, kind="stable")
    count = int((np.cumsum(row[ranked]) < share).sum()) + 1
    return renormalised(row, np.isin(np.arange(len(row)), ranked[:count]))


def temper(temperature, row):
    if temperature == 0:
        return np.eye(len(row))[row.argmax()]
    tempered = row ** (1 / temperature)
    return tempered / tempered.sum()


def steps(*functions):
    """Do one after the other."""

    def process(row):
        for function in functions:
            row = function(row)
        return row

    return process


def rule(accept, residual=None, bonus=None):
    """A ``verify`` rule that processes p in three places, by three functions where they differ."""
    residual, bonus = residual or accept, bonus or accept

    def verify(target_probs, draft_probs, draft_tokens, rng):
        for i, x in enumerate(draft_tokens):
            q = draft_probs[i]
            if rng.random() * q[x] >= accept(target_probs[i])[x]:
                p = residual(target_probs[i])
                left = np.maximum(p - q, 0)
                left = left if left.sum() > 0 else p
                token = rng.choice(len(p), p=left / left.sum())
                return [*map(int, draft_tokens[:i]), int(token)]
        p = bonus(target_probs[-1])
        return [*map(int, draft_tokens), int(rng.choice(len(p), p=p))]

    return verify


def untouched(row):
    return row


K2, K3, P9, T = partial(top_k, 2), partial(top_k, 3), partial(top_p, 0.9), partial(temper, 0.7)
T_THEN_P, P_THEN_T = steps(T, P9), steps(P9, T)

RIGHT = {
    "one token": (rule(partial(top_k, 1)), {"top_k": 1}),
    "top-k": (rule(K2), {"top_k": 2}),
    "top-k, none left out": (rule(untouched), {"temperature": 1.0, "top_p": 1.0}),
    "top-k beyond the battery": (rule(partial(top_k, 50)), {"top_k": 50}),
    "top-p": (rule(P9), {"top_p": 0.9}),
    "top-p, one token": (rule(partial(top_p, 0.1)), {"top_p": 0.1}),
    "top-p, few left out": (rule(partial(top_p, 0.999)), {"top_p": 0.999}),
    "min-p": (rule(partial(min_p, 0.3)), {"min_p": 0.3}),
    "typical-p": (rule(partial(typical_p, 0.5)), {"typical_p": 0.5}),
    "temperature": (rule(T), {"temperature": 0.7}),
    "greedy": (rule(partial(temper, 0)), {"temperature": 0.0}),
    "temperature first": (rule(T_THEN_P), {"temperature": 0.7, "top_p": 0.9}),
    "temperature last": (
        rule(P_THEN_T), {"temperature": 0.7, "top_p": 0.9, "order": "llamacpp"}
    ),
    "order by name": (
        rule(P_THEN_T), {"temperature": 0.7, "top_p": 0.9, "order": "top-p,temperature"}
    ),
    "three steps": (
        rule(steps(T, P9, K3)), {"temperature": 0.7, "top_p": 0.9, "top_k": 3, "order": "sglang"}
    ),
}  # fmt: skip


@pytest.mark.thorough(by_day=2)
@pytest.mark.parametrize(
    "name",
    at_night(
        RIGHT, but=("top-k", "top-p", "min-p", "typical-p", "temperature last", "three steps")
    ),
)
def test_right_code_passes_by_the_target_that_is_stated(name):
    verify, stated = RIGHT[name]
    run = simverify.audit(verify, **stated)
    assert (run.verdict, run.tier) == ("PASS", "exact")
    assert max(one.max_abs_deviation for one in run.instances) < 1e-12


WRONG = {
    "residual not cut": (rule(K2, residual=untouched), {"top_k": 2}),
    "bonus not cut": (rule(K2, bonus=untouched), {"top_k": 2}),
    "acceptance not cut": (rule(untouched, K2, K2), {"top_k": 2}),
    "one more": (rule(K3), {"top_k": 2}),
    "one less": (rule(partial(top_k, 49)), {"top_k": 50}),
    "one more of many": (rule(partial(top_k, 51)), {"top_k": 50}),
    "not cut at all": (token, {"top_k": 50}),
    "residual of many not cut": (
        rule(partial(top_k, 50), residual=untouched), {"top_k": 50}
    ),
    "not normalised": (
        rule(lambda row: np.where(K3(row) > 0, row, 0.0), K3, K3), {"top_k": 3}
    ),
    "without the token that crosses": (rule(partial(top_p, 0.9, crossing=0)), {"top_p": 0.9}),
    "with one token more": (rule(partial(top_p, 0.9, crossing=2)), {"top_p": 0.9}),
    "residual without temperature": (rule(T, residual=untouched), {"temperature": 0.7}),
    "bonus without temperature": (rule(T, bonus=untouched), {"temperature": 0.7}),
    "half a temperature": (rule(partial(temper, 0.63)), {"temperature": 0.7}),
    "greedy, but the bonus": (rule(partial(temper, 0), bonus=untouched), {"temperature": 0.0}),
    "temperature last, first stated": (rule(P_THEN_T), {"temperature": 0.7, "top_p": 0.9}),
    "temperature first, last stated": (
        rule(T_THEN_P), {"temperature": 0.7, "top_p": 0.9, "order": "llamacpp"}
    ),
    "top-k first, last stated": (
        rule(steps(T, K3, P9)), {"temperature": 0.7, "top_p": 0.9, "top_k": 3, "order": "sglang"}
    ),
    "min-p before temperature": (
        rule(steps(partial(min_p, 0.1), partial(temper, 1.5))), {"temperature": 1.5, "min_p": 0.1}
    ),
    "typical-p, residual": (
        rule(partial(typical_p, 0.5), residual=untouched), {"typical_p": 0.5}
    ),
}  # fmt: skip


@pytest.mark.thorough(by_day=3)
@pytest.mark.parametrize(
    "name",
    at_night(
        WRONG,
        but=(
            "residual not cut",
            "acceptance not cut",
            "one more of many",
            "without the token that crosses",
            "bonus without temperature",
            "temperature last, first stated",
            "typical-p, residual",
        ),
    ),
)
def test_wrong_code_fails_by_the_target_that_is_stated(name):
    verify, stated = WRONG[name]
    run = simverify.audit(verify, **stated)
    assert (run.verdict, run.tier) == ("FAIL", "exact")
    assert "law" in {finding.kind for finding in run.findings}


def draft_cut(target_probs, draft_probs, draft_tokens, rng):
    """Cuts the draft's rows, which nobody did when the tokens were drawn."""
    return rule(K2)(target_probs, np.array([K2(row) for row in draft_probs]), draft_tokens, rng)


def cut_after(target_probs, draft_probs, draft_tokens, rng):
    """Takes a token of the whole target, and then the likeliest one where it is cut off."""
    *accepted, last = token(target_probs, draft_probs, draft_tokens, rng)
    row = K2(target_probs[len(accepted)])
    return [*accepted, last if row[last] > 0 else int(row.argmax())]


@pytest.mark.parametrize("verify", [draft_cut, cut_after])
def test_a_cut_in_another_place_fails(verify):
    assert simverify.audit(verify, top_k=2).verdict == "FAIL"


# Rules that draft themselves, and those for draft trees.


def step_rule(process):
    def step(prefix, target, draft, gamma, rng):
        rows, drafts, tokens = [target(prefix)], [], []
        for _ in range(gamma):
            drafts.append(draft((*prefix, *tokens)))
            tokens.append(int(rng.choice(len(drafts[-1]), p=drafts[-1])))
            rows.append(target((*prefix, *tokens)))
        rows = [process(row, (*prefix, *tokens[:i])) for i, row in enumerate(rows)]
        return token(np.array(rows), np.array(drafts), np.array(tokens), rng)

    return step


def tree_rule(process):
    def tree(target_probs, draft_probs, tokens, parents, rng):
        node, out = -1, []
        while True:
            p = process(target_probs[node + 1])
            for child in [i for i, parent in enumerate(parents) if parent == node]:
                q, x = draft_probs[node + 1], tokens[child]
                if rng.random() * q[x] < p[x]:
                    break
                left = np.maximum(p - q, 0)
                p = left / left.sum() if left.sum() > 0 else p
            else:
                return [*out, int(rng.choice(len(p), p=p))]
            out.append(int(x))
            node = child

    return tree


@pytest.mark.parametrize("k", at_night([2, 5], but=[2]))
def test_a_step_rule_that_cuts(k):
    right = simverify.audit(step_rule(lambda row, _: top_k(k, row)), contract="step", top_k=k)
    wrong = simverify.audit(step_rule(lambda row, _: top_k(k + 1, row)), contract="step", top_k=k)
    assert (right.verdict, right.tier, wrong.verdict) == ("PASS", "exact", "FAIL")


@pytest.mark.parametrize("k", at_night([2, 5], but=[2]))
def test_a_tree_rule_that_cuts(k):
    given = {"contract": "tree", "scheme": "iid", "top_k": k, "gamma": 2, "vocab": 3}
    right = simverify.audit(tree_rule(partial(top_k, k)), **given)
    wrong = simverify.audit(tree_rule(partial(top_k, k + 1)), **given)
    assert (right.verdict, right.tier, wrong.verdict) == ("PASS", "exact", "FAIL")


def penalised(row, before, *, presence=0.0, frequency=0.0, repetition=1.0):
    with np.errstate(divide="ignore"):
        scores = np.log(row)
    for x in range(len(row)):
        count = before.count(x)
        scores[x] *= repetition if count else 1.0
        scores[x] -= frequency * count + presence * bool(count)
    p = np.exp(scores - scores.max())
    return p / p.sum()


@pytest.mark.parametrize(
    "penalty", [{"presence": 0.5}, {"frequency": 0.7}, {"presence": 0.4, "frequency": 0.3}]
)
@pytest.mark.thorough(by_day=1)
def test_penalties_see_the_tokens_of_the_same_block(penalty):
    """What a block drafts counts, as in the target that is sampled token by token."""

    def verify(late, target_probs, draft_probs, draft_tokens, rng):
        seen = [list(draft_tokens[: 0 if late else i]) for i in range(len(target_probs))]
        rows = [penalised(row, x, **penalty) for row, x in zip(target_probs, seen, strict=True)]
        return token(np.array(rows), draft_probs, draft_tokens, rng)

    def right(target_probs, draft_probs, draft_tokens, rng):
        return verify(False, target_probs, draft_probs, draft_tokens, rng)

    def wrong(target_probs, draft_probs, draft_tokens, rng):
        return verify(True, target_probs, draft_probs, draft_tokens, rng)

    stated = {f"{name}_penalty": value for name, value in penalty.items()}
    assert simverify.audit(right, **stated).verdict == "PASS"
    assert simverify.audit(wrong, **stated).verdict == "FAIL"


@pytest.mark.slow
def test_a_repetition_penalty_counts_the_prompt():
    def step(whole, row, before):
        return penalised(row, list(before[-whole:]), repetition=1.5)

    given = {"contract": "step", "repetition_penalty": 1.5}
    assert simverify.audit(step_rule(partial(step, 0)), **given).verdict == "PASS"
    assert simverify.audit(step_rule(partial(step, 2)), **given).verdict == "FAIL"


# The sampled tier, of code that cannot be followed.


@pytest.mark.thorough(by_day=1)
@pytest.mark.parametrize("stated", [{"top_k": 2}, {"top_k": 20}, {"temperature": 0.7}])
def test_what_is_sampled_is_held_to_it_too(stated):
    process = partial(top_k, stated["top_k"]) if "top_k" in stated else T
    given = stated | {"max_paths": 1, "detect": 0.05, "alpha": 1e-9}
    right = simverify.audit(rule(process), **given)
    wrong = simverify.audit(rule(process, bonus=untouched), **given)
    assert (right.verdict, right.tier) == ("PASS", "sampled")
    assert (wrong.verdict, wrong.trial.instance.expected_probs is None) == ("FAIL", False)


# What is stated, said and refused.


@pytest.mark.parametrize("name", ["top-k", "temperature last", "min-p", "residual not cut"])
def test_a_failure_says_what_the_output_follows(name):
    verify, stated = (WRONG if name in WRONG else RIGHT)[name]
    run = simverify.audit(verify)
    assert run.verdict == "FAIL"
    if name in WRONG:
        assert run.follows is None
        return
    followed = {key: getattr(run.follows, key) for key in stated if key != "order"}
    assert followed == {key: value for key, value in stated.items() if key != "order"}
    assert f"--{list(followed)[-1].replace('_', '-')} {list(followed.values())[-1]}" in str(run)


@pytest.mark.parametrize(
    ("verify", "stated", "says"),
    [
        (token, {"min_p": 0.1},
         "follows the target's rows as they are on the instances tried. If that is intended, state "
         "no processing."),
        (rule(partial(top_k, 2)), {}, "If that is intended, add --top-k 2."),
        (rule(partial(top_k, 2)), {"top_k": 3}, "If that is intended, state --top-k 2 instead."),
    ],
)  # fmt: skip
def test_a_failure_says_what_to_state_instead(verify, stated, says):
    run = simverify.audit(verify, **stated)
    assert run.verdict == "FAIL"
    assert says in " ".join(str(run).split())


def test_the_document_says_what_the_target_is():
    verify, stated = WRONG["temperature first, last stated"]
    run = simverify.audit(verify, **stated)
    assert run.processing.order == ("top-p", "temperature")
    assert "--temperature 0.7 --top-p 0.9 --order llamacpp" in run.reproduce
    assert "the target's rows after top-p 0.9, then temperature 0.7" in " ".join(str(run).split())
    instance = run.counterexample.instance
    assert set(instance.expected_probs) == set(instance.target_probs)
    assert f"due {run.counterexample.probability_expected:.9g}" in simverify.replay(run)


@pytest.mark.parametrize(
    ("stated", "says"),
    [
        ({"top_k": 400}, "top-k is 400: expected 1 to 298, since the instances are small"),
        ({"top_p": 1.5}, "top-p is 1.5, expected more than 0 and at most 1"),
        ({"top_p": 1 - 1e-9}, "the options that state the target change none of its rows"),
        ({"order": "exllama"}, "order is 'exllama': expected one of transformers, vllm"),
        ({"top_k": 2, "contract": "draft"}, "top_k states the target of code that emits tokens"),
        ({"top_k": 2, "batch_mix": "all"}, "batch_mix judges requests by the rows that the code"),
    ],
)
def test_what_cannot_be_judged_is_refused(stated, says):
    with pytest.raises(UsageError, match=says):
        simverify.audit(token, **stated)


@pytest.mark.parametrize("stated", [{"top_k": 2}, {"top_p": 0.5}, {"min_p": 0.5}])
def test_no_instance_has_a_tie_at_a_cut(stated):
    """Engines differ in which of the equals they keep."""
    processing = AuditSettings(**stated).processing
    models = instances_for("verify", 4, 12, seed=0)
    tied = [m for m in models if not all(is_clear_cut(processing, w, (), ()) for w in m.targets)]
    assert tied
    nudged = [with_processing(model, processing) for model in models]
    kept = [model for model in nudged if model is not None]
    assert {m.name for m in models if m.core} <= {m.name for m in kept}
    assert len(kept) > 0.95 * len(models)
    for model in kept:
        assert all(is_clear_cut(processing, w, (), ()) for w in model.targets)
        assert with_processing(model, processing) == model
