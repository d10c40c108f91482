"""An engine that runs into its adapter's own mistake is not blamed for it."""

import numpy as np
import pytest
from support.engine_doubles import checkout, largest_deviation

from simverify.errors import SimverifyError

pytest.importorskip("torch")

DOUBLE = """
import torch
from somewhere.nobody.has import RejectionSamplingImpl, PLACEHOLDER_TOKEN_ID


class DefaultRejectionSamplingImpl(RejectionSamplingImpl):

    def forward(self, target_logits, draft_token_ids, bonus_token_ids, *, is_greedy,
                draft_probs=None):
        {line}
        return torch.tensor([[0, 0, 0]]), None, None
"""


def _deviation(line, folder):
    return largest_deviation("lmdeploy", checkout(folder, "lmdeploy", DOUBLE.format(line=line)))


def test_what_the_adapter_raises_is_the_adapters(tmp_path, monkeypatch):
    def broken(*_given):
        raise_ = lambda *arguments: 1 // 0  # noqa: E731
        raise_.__code__ = raise_.__code__.replace(
            co_filename=blocks.__file__, co_name="a line of the adapter"
        )
        return raise_

    from simverify.engines import declare
    from simverify.engines.catalogue import blocks

    monkeypatch.setattr(declare, "as_verify", broken)
    with pytest.raises(SimverifyError, match=r"adapter does not fit it: ZeroDivisionError.*blocks"):
        _deviation("pass", tmp_path)


def test_what_an_adapters_object_lacks_is_the_adapters(tmp_path):
    from simverify.engines.fake_models import RowsModel
    from simverify.symbolic.provenance import adapter_error_location

    model = RowsModel(lambda prefix: np.ones(2) / 2, ())
    with pytest.raises(AttributeError) as caught:
        model.generation_config  # noqa: B018
    assert (
        adapter_error_location(caught.value)
        == "simverify.engines.fake_models has no generation_config"
    )


def test_what_the_engine_raises_is_the_engines(tmp_path):
    assert _deviation("raise ValueError('no')", tmp_path) > 0.1


NET = """
import torch
from einops import rearrange


class Own:
    def __call__(self, one):
        return one


def twice(one, other):
    return one + other


def speculative_decoding(net, small_net, prompt, seq_len, gamma, filter_thres=0.9):
    own = Own()
    {line}
    return torch.cat([prompt, torch.zeros(1, gamma + 1, dtype=torch.int64)], 1), 0
"""


@pytest.mark.parametrize(
    "line",
    [
        "net()",
        "net(\n        prompt,\n        prompt,\n    )",
        "rearrange(prompt)",
        "net.logits()",
        "net.config.vocab_size + small_net.logits(prompt, 0, 1, 2)",
    ],
)
def test_arguments_that_an_adapters_object_does_not_take_are_the_adapters(tmp_path, line):
    folder = checkout(tmp_path, "lucidrains", NET.format(line=line))
    with pytest.raises(SimverifyError, match="adapter does not fit it: TypeError"):
        largest_deviation("lucidrains", folder)


@pytest.mark.parametrize(
    "line", ["own()", "twice(1)", "net + 1", "len(net)", "torch.cat(3)", "own(net, *[1])"]
)
def test_arguments_that_the_engines_own_code_does_not_take_are_the_engines(tmp_path, line):
    folder = checkout(tmp_path, "lucidrains", NET.format(line=line))
    assert largest_deviation("lucidrains", folder) > 0.1
