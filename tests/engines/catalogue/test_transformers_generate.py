"""Transformers' whole ``generate`` on models whose probabilities are an audit's rows."""

import sys

import pytest
from support.engine_doubles import checkout, largest_deviation

from simverify.engines import get_engine
from simverify.errors import SimverifyError
from simverify.folders import find_package

pytest.importorskip("torch")

LIBRARY = """\
from types import SimpleNamespace
import torch
from . import generation, modeling_outputs
from .generation.utils import GenerationMixin


class PretrainedConfig(SimpleNamespace):
    pass


class PreTrainedModel(torch.nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config, self.generation_config = config, SimpleNamespace()
"""

OUTPUTS = "from types import SimpleNamespace as CausalLMOutputWithPast\n"

GENERATORS = """\
import torch


class AssistedCandidateGenerator:
    def __init__(self, assistant, cache, temperature):
        self.assistant, self.cache, self.temperature = assistant, cache, temperature

    def get_candidates(self, ids, left):
        self.cache.crop(ids.shape[1] - 1)
        rows = []
        for _ in range(min(self.assistant.generation_config.num_assistant_tokens, left - 1)):
            new = ids[:, self.cache.seen :]
            logits = self.assistant(new, past_key_values=self.cache, logits_to_keep=1).logits
            rows.append((logits[:, -1].double() / self.temperature).softmax(-1))
            ids = torch.cat([ids, torch.multinomial(rows[-1], 1)], dim=1)
        return ids, rows


class PromptLookupCandidateGenerator:
    pass
"""

GENERATE = """\
import torch
from .candidate_generator import AssistedCandidateGenerator


class Cache:
    def __init__(self):
        self.keys = None

    @property
    def seen(self):
        return 0 if self.keys is None else self.keys.shape[2]

    def update(self, keys, values, layer):
        self.keys = keys if self.keys is None else torch.cat([self.keys, keys], dim=2)
        return self.keys, self.keys

    def crop(self, length):
        if self.keys is not None:
            self.keys = self.keys[:, :, :length]


class GenerationMixin:
    def generate(self, inputs, assistant_model=None, **kwargs):
        return self._assisted_decoding(inputs, assistant_model, **kwargs)

    def _assisted_decoding(self, ids, assistant, max_new_tokens, temperature, **_):
        cache, end = Cache(), ids.shape[1] + max_new_tokens
        generator = AssistedCandidateGenerator(assistant, Cache(), temperature)
        while ids.shape[1] < end:
            start = ids.shape[1]
            drafted, q = generator.get_candidates(ids, end - start)
            new = drafted[:, cache.seen :]
            logits = self(new, past_key_values=cache, logits_to_keep=len(q) + 1).logits
            p = (logits[0].double() / temperature).softmax(-1)
            for i, row in enumerate(q):
                x = drafted[0, start + i]
                if torch.rand((), dtype=torch.float64) * row[0, x] > p[i, x]:
                    left = (p[i] - row[0]).clamp(min=0)
                    break
            else:
                i, left = len(q), p[-1]
            ids = torch.cat([drafted[:, : start + i], torch.multinomial(left, 1)[None]], dim=1)
            cache.crop(start + i)
        return ids
"""

FILES = {
    "transformers/__init__.py": LIBRARY,
    "transformers/modeling_outputs.py": OUTPUTS,
    "transformers/generation/__init__.py": "from . import candidate_generator, utils\n",
    "transformers/generation/candidate_generator.py": GENERATORS,
}


@pytest.fixture
def unloaded(monkeypatch):
    """No Transformers is imported, and what the test imports is gone after it."""

    def forget():
        for name in [n for n in sys.modules if n.partition(".")[0] == "transformers"]:
            monkeypatch.delitem(sys.modules, name)

    forget()
    yield forget
    for name in [n for n in sys.modules if n.partition(".")[0] == "transformers"]:
        del sys.modules[name]


def test_a_double_of_generate_has_the_law_of_the_target(unloaded, tmp_path):
    folder = checkout(tmp_path, "transformers-generate", GENERATE, FILES)
    assert largest_deviation("transformers-generate", folder, 2) < 1e-6


@pytest.mark.parametrize(
    ("file", "right", "wrong"),
    [
        # What the target saw of a draft that was rejected stays in its cache.
        ("generation/utils.py", "cache.crop(start + i)", "cache.crop(start + len(q))"),
        # Draws at another temperature than that of the row it hands on.
        ("generation/candidate_generator.py", "multinomial(rows[-1], 1)",
         "multinomial(logits[:, -1].softmax(-1), 1)"),
        ("generation/utils.py", "(p[i] - row[0]).clamp(min=0)", "p[i]"),
    ],
)  # fmt: skip
@pytest.mark.thorough
def test_one_wrong_line_of_the_double_is_another_law(unloaded, tmp_path, file, right, wrong):
    files = {"transformers/generation/utils.py": GENERATE, **FILES}
    text = files[f"transformers/{file}"]
    assert text.count(right) == 1
    files[f"transformers/{file}"] = text.replace(right, wrong)
    folder = checkout(tmp_path, "transformers-generate", GENERATE, files)
    assert largest_deviation("transformers-generate", folder, 2) > 1e-3


def test_another_signature_is_one_line(tmp_path):
    text = GENERATE.replace("assistant_model", "drafter")
    folder = checkout(tmp_path, "transformers-generate", text, FILES)
    with pytest.raises(SimverifyError, match=r"and no assistant_model: .* >=5.22,<6") as error:
        get_engine("transformers-generate").load(folder)
    assert "\n" not in str(error.value)


def test_a_second_copy_in_one_process_is_one_line(unloaded, tmp_path):
    one, other = (
        checkout(tmp_path / name, "transformers-generate", GENERATE, FILES) for name in "ab"
    )
    get_engine("transformers-generate").load(one)
    with pytest.raises(SimverifyError, match=r"is imported already, and .*in a process of its own"):
        get_engine("transformers-generate").load(other)


REAL = pytest.mark.skipif(
    find_package("transformers") is None,
    reason="transformers is not installed: pip install transformers==5.24.0",
)


@REAL
@pytest.mark.parametrize("way", ["generate", "lookup"])
def test_the_installed_one_is_lossless(way):
    assert largest_deviation(f"transformers-{way}", None) < 1e-6


@REAL
def test_the_installed_one_is_lossy_with_another_vocabulary():
    """The page of its finding has a patch that makes it lossless."""
    assert largest_deviation("transformers-universal", None) > 1e-3
