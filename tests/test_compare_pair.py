"""Comparison of verifiers on real models: verdicts, intervals, the document."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from simverify import compare_pair as module  # noqa: E402
from simverify.compare_pair import compare_pair  # noqa: E402
from simverify.errors import UsageError  # noqa: E402
from simverify.models.prompts import read_prompts  # noqa: E402
from simverify.models.sampling import Sampling  # noqa: E402
from simverify.models.transformer import BUNDLED, load_pair  # noqa: E402
from simverify.reports.schema import schema  # noqa: E402
from simverify.verifiers import VERIFIERS  # noqa: E402

PROMPTS = read_prompts(BUNDLED / "prompts.jsonl")


@pytest.fixture(scope="module")
def pair():
    torch.set_num_threads(1)
    return load_pair("tiny-llama", "tiny-llama")


@pytest.fixture(scope="module")
def run(pair):
    return compare_pair(pair, PROMPTS, ("token", "block", "greedy"), gamma=8, detect=0.05)
