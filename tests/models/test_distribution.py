"""Each stage against Transformers' own processors; orders; what is refused."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from simverify.errors import UsageError  # noqa: E402
from simverify.models.distribution import (  # noqa: E402
    ORDERS,
    STAGES,
    Law,
    Mask,
    check_order,
)
from simverify.models.transformer import Sampling  # noqa: E402

V, PROMPT, TOKENS = 40, (3, 5, 5, 9), (7, 3, 7, 11, 2, 7)


def logits(seed=0):
    rng = np.random.default_rng(seed)
    return (3 * rng.normal(size=(len(TOKENS), V))).astype(np.float32)


def by_transformers(x, processors):
    """Rows that Transformers' classes give, each called with what stands before."""
    found = []
    for i, row in enumerate(x):
        ids = torch.tensor([[*PROMPT, *TOKENS[:i]]])
        scores = torch.tensor(row[None], dtype=torch.float64)
        for processor in processors:
            scores = processor(ids, scores)
        found.append(torch.softmax(scores, -1)[0].numpy())
    return np.array(found)


def classes(**given):
    """Transformers' processors for the fields of a law, in its order."""
    t = transformers
    made = {
        "logit_bias": lambda b: t.SequenceBiasLogitsProcessor({(i,): v for i, v in b}),
        "repetition_penalty": t.RepetitionPenaltyLogitsProcessor,
        "bad_words": lambda w: t.NoBadWordsLogitsProcessor([list(x) for x in w]),
        "min_tokens": lambda n: t.MinNewTokensLengthLogitsProcessor(len(PROMPT), n, [1, 7]),
        "mask": lambda m: t.PrefixConstrainedLogitsProcessor(
            lambda _, ids: m.allowed(PROMPT, tuple(ids.tolist()[len(PROMPT) :])), 1
        ),
        "temperature": t.TemperatureLogitsWarper,
        "top_k": t.TopKLogitsWarper,
        "top_p": t.TopPLogitsWarper,
        "min_p": t.MinPLogitsWarper,
        "typical_p": lambda m: t.TypicalLogitsWarper(mass=m),
    }
    return [made[name](value) for name, value in given.items()]


EVEN = Mask("even", lambda prompt, tokens: list(range(len(tokens) % 2, V, 2)))

CASES = [
    {"min_p": 0.1},
    {"typical_p": 0.6},
    {"repetition_penalty": 1.7},
    {"repetition_penalty": 0.6},
    {"logit_bias": ((0, 4.0), (7, -100.0))},
    {"bad_words": ((7,), (3, 7), (9, 8), (5, 9, 7, 12))},
    {"min_tokens": 4},
    {"mask": EVEN},
    {"top_k": 5, "top_p": 0.7},
    {"temperature": 0.6, "top_k": 20, "top_p": 0.9, "min_p": 0.02, "typical_p": 0.8},
    {"logit_bias": ((7, 3.0),), "repetition_penalty": 1.3, "bad_words": ((3, 7),),
     "min_tokens": 3, "mask": EVEN, "temperature": 1.4, "top_k": 12, "min_p": 0.03},
]  # fmt: skip


@pytest.mark.parametrize("given", CASES, ids=lambda g: "+".join(g))
def test_rows_are_those_of_transformers(given):
    x, law = logits(), Law(**given, ends=(1, 7))
    due = by_transformers(x, classes(**given))
    assert np.allclose(law.after(x, PROMPT, TOKENS), due, atol=1e-9)
    # The same, from the middle: a law has no memory but what stands before.
    assert np.allclose(law.after(x[3:], PROMPT, TOKENS, first=3), due[3:], atol=1e-9)
    assert not np.allclose(Law().after(x, PROMPT, TOKENS), due, atol=1e-3)


def test_presence_and_frequency_count_what_was_emitted_alone():
    x, law = logits(), Law(presence_penalty=0.5, frequency_penalty=0.25)
    due = x.astype(float)
    for i in range(len(TOKENS)):
        for token in set(TOKENS[:i]):
            due[i, token] -= 0.5 + 0.25 * TOKENS[:i].count(token)
    due = np.exp(due) / np.exp(due).sum(axis=1, keepdims=True)
    found = law.after(x, PROMPT, TOKENS)
    assert np.allclose(found, due)
    assert found[0, 5] == pytest.approx(due[0, 5])  # 5 stands in the prompt


@pytest.mark.parametrize("engine", ORDERS)
def test_every_order_has_every_stage(engine):
    assert sorted(ORDERS[engine]) == sorted(STAGES)
    law = Law(2.0, 9, 0.8, min_p=0.1, order=ORDERS[engine])
    differs = not np.allclose(law.after(logits(), (), TOKENS), Law(2.0, 9, 0.8, min_p=0.1).after(
        logits(), (), TOKENS))  # fmt: skip
    assert differs == (engine in ("llamacpp", "mlx-lm", "sglang", "vllm"))


def test_an_order_is_an_engines_or_some_stages():
    assert check_order("vllm") == ORDERS["vllm"]
    swapped = check_order("top_p, temperature")
    assert swapped.index("top-p") < swapped.index("temperature") < swapped.index("min-p")
    for bad in ("", "sampler", "top-p", "top-p,top-p", "top-p,temperatur"):
        with pytest.raises(UsageError, match="order is "):
            check_order(bad)


def test_greedy_takes_the_penalties_and_no_cuts():
    x = np.zeros((1, V))
    x[0, [5, 6]] = 2.0, 1.5
    law = Law(0.0, repetition_penalty=2.0, min_p=0.9, order=ORDERS["llamacpp"])
    assert law.after(x, (5,), (), 0).argmax() == 6
    assert Law(0.0).after(x, (5,), (), 0).argmax() == 5


def test_values_that_change_nothing_are_none():
    same = Law(top_p=1.0, min_p=0.0, typical_p=1.0, repetition_penalty=1.0, presence_penalty=0.0,
               frequency_penalty=0.0)  # fmt: skip
    assert same == Law()
    assert same.plain
    x = logits()
    assert (same.after(x, PROMPT, TOKENS) == Sampling().rows(x)).all()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"min_p": 1.5}, "min-p is 1.5, expected 0 to 1"),
        ({"typical_p": 0.0}, "typical-p is 0"),
        ({"repetition_penalty": 0.0}, "repetition-penalty is 0"),
        ({"presence_penalty": float("nan")}, "presence-penalty is nan"),
        ({"min_tokens": -1}, "min-tokens is -1"),
        ({"logit_bias": ((5, float("inf")),)}, "logit-bias of 5"),
        ({"order": ("mask",)}, "order is"),
    ],
)
def test_values_out_of_range_are_refused(given, words):
    with pytest.raises(UsageError, match=words):
        Law(**given)


@pytest.mark.parametrize(
    ("allowed", "words"),
    [
        (lambda p, t: [], "after 1 tokens allows nothing"),
        (lambda p, t: [V], f"allows the id {V}"),
        (lambda p, t: [-1, 3], "allows the id -1"),
        (lambda p, t: [0.5], "float64 values"),
        (lambda p, t: 1 // 0, "raises ZeroDivisionError"),
        (lambda p, t: 3, "raises TypeError"),
    ],
)
def test_a_mask_that_misbehaves_is_one_line(allowed, words):
    law = Law(mask=Mask("m.py:f", lambda p, t: allowed(p, t) if t else None))
    with pytest.raises(UsageError, match=words) as error:
        law.after(logits(), PROMPT, TOKENS)
    assert "\n" not in str(error.value)


def test_a_law_that_leaves_nothing_is_refused():
    law = Law(mask=Mask("m", lambda p, t: [1]), min_tokens=2, ends=(1,))
    with pytest.raises(UsageError, match=r"after 4 \+ 0 tokens no token is left"):
        law.after(logits(), PROMPT, TOKENS)
