import pytest


@pytest.fixture(scope="module")
def pair():
    """The smallest pair of transformers, on one thread."""
    torch = pytest.importorskip("torch")
    from simverify.models.transformer import load_pair

    torch.set_num_threads(1)
    return load_pair("tiny-llama", "tiny-llama")


@pytest.fixture(scope="module")
def right(pair, request):
    """``N`` requests of the test file that follow the target, so many ``LANES`` at a time."""
    from support.emitted_tokens import emitted

    from simverify.verifiers import VERIFIERS

    own = request.module
    return emitted(pair, VERIFIERS["token"], own.N, lanes=own.LANES, length=32)
