import itertools
from fractions import Fraction

import numpy as np
import pytest

from simverify.audit.instances import SmallModel, battery, instances_for
from simverify.audit.search import search

MODELS = list(battery(4, 5))


def rows(model, depth):
    for length in range(depth):
        for prefix in itertools.product(range(model.vocab_size), repeat=length):
            yield model.target(prefix), model.draft(prefix)


def test_the_battery_is_small_scope_and_rich():
    assert {m.vocab_size for m in MODELS} == {2, 3, 4, 5}
    assert {m.gamma for m in MODELS} == {1, 2, 3, 4}
    pairs = [pair for model in MODELS for pair in rows(model, 2)]
    assert any((p == 0).any() and (q[p == 0] > 0).any() for p, q in pairs)
    assert any((q == 0).any() and (p[q == 0] > 0).any() for p, q in pairs)
    assert any((np.maximum(p - q, 0) > 0).sum() >= 2 for p, q in pairs)
    assert any(np.array_equal(p, q) for p, q in pairs)
    assert any((p * q).sum() == 0 for p, q in pairs)
    assert any(q.max() == 1 for _, q in pairs)
    assert any(p.max() == 1 for p, _ in pairs)
    assert any((p[q > 0] / q[q > 0]).min() < 0.5 for p, q in pairs)
    assert any(len(set(p)) < len(p) for p, _ in pairs)


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
def test_every_row_is_a_law(model):
    for p, q in rows(model, 3):
        assert p.sum() == pytest.approx(1, abs=1e-12)
        assert q.sum() == pytest.approx(1, abs=1e-12)


def test_rows_depend_on_the_prefix_and_are_fresh():
    model = next(m for m in MODELS if m.name == "plain, V=3, gamma=3")
    seen = {tuple(model.target(x)) for x in [(), (0,), (1,), (2,), (0, 1), (1, 0)]}
    assert len(seen) > 3
    model.target(())[:] = 0
    assert model.target(()).sum() == pytest.approx(1)


def test_the_document_holds_the_same_rows_as_fractions():
    model = MODELS[-1]
    document = model.document(2)
    for prefix, row in document.target_probs.items():
        tokens = tuple(map(int, prefix.split(","))) if prefix else ()
        assert [float(Fraction(x)) for x in row] == pytest.approx(list(model.target(tokens)))
        assert sum(Fraction(x) for x in row) == 1


def test_rules_that_draft_themselves_get_smaller_instances():
    step = instances_for("step", 4, 5, 0)
    assert max(m.vocab_size for m in step) == max(m.gamma for m in step) == 3
    assert len(instances_for("verify", 4, 5, 0)) == len(MODELS)
    assert all(m.gamma <= 2 and m.vocab_size <= 3 for m in instances_for("verify", 2, 3, 0))


def test_the_search_shrinks():
    def fails(model: SmallModel) -> bool:
        p, q = model.target(()), model.draft(())
        return bool(abs(p - q).sum() > 0.5)

    found = search(fails, max_vocab=4, max_gamma=3, examples=100, seed=0)
    assert (found.vocab_size, found.gamma, len(found.targets)) == (2, 1, 1)
    assert search(lambda _: False, max_vocab=3, max_gamma=2, examples=20, seed=0) is None
