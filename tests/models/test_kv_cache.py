"""A cache of ragged requests against the model without one."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from support.real_models import (  # noqa: E402
    VOCAB_SIZE,
    little_pair,
)

from simverify.models.kv_cache import CachedModel  # noqa: E402


def logits_of(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].numpy()


def test_logits_are_those_of_the_request_alone():
    model, rng = little_pair().target_model, np.random.default_rng(1)
    requests = [[] for _ in range(5)]
    cached = CachedModel(model, 5)
    packed = 0
    read = 0
    for turn in range(25):
        for r, request in enumerate(requests):
            if not request and turn != 8:
                request += rng.integers(VOCAB_SIZE, size=rng.integers(0, 30)).tolist()
                cached.read(r, request)
                read += len(request)
        new = [rng.integers(VOCAB_SIZE, size=rng.integers(1, 5)).tolist() for _ in requests]
        found = cached.feed(new)
        for request, own, logits in zip(requests, new, found, strict=True):
            request += own
            np.testing.assert_allclose(logits, logits_of(model, request)[-len(own) :], atol=1e-4)
        # Sometimes all of a request goes, as when the next one begins; sometimes nothing.
        back = [min(int(rng.integers(0, 3)), len(request)) for request in requests]
        if turn % 4 == 3:
            ends = turn % len(requests)
            back[ends] = len(requests[ends])
        width = cached._used.shape[1]
        cached.take_back(back)
        packed += cached._used.shape[1] < width
        requests = [r[: len(r) - b] for r, b in zip(requests, back, strict=True)]
        assert cached.lengths.tolist() == [len(r) for r in requests]
        if turn == 12:
            cached.select([3, 0, 4])
            requests = [requests[i] for i in (3, 0, 4)]
    assert packed > 1
    assert read > 50


def test_nothing_left_at_all():
    model = little_pair().target_model
    cached = CachedModel(model, 3)
    cached.feed([[1, 2], [3], [4, 1]])
    cached.take_back([2, 1, 2])
    cached.select([0, 2])
    (first, second) = cached.feed([[4], [5, 6]])
    np.testing.assert_allclose(first, logits_of(model, [4]), atol=1e-4)
    np.testing.assert_allclose(second, logits_of(model, [5, 6]), atol=1e-4)
