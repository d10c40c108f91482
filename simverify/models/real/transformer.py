"""Two causal language models as target and draft: loading, tokenizer, law of the next token.

torch and transformers are needed here and nowhere else among the models.
"""

import importlib.util
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from simverify.errors import SimverifyError, UsageError
from simverify.models import tiny_llama
from simverify.models.real.sampling import Sampling

if TYPE_CHECKING:
    from simverify.models.real.kv_cache import CachedModel
    from simverify.models.real.whole_model import WholeModel

Dtype = Literal["float32", "bfloat16", "float16"]

BUNDLED = Path(tiny_llama.__path__[0])
"""The pair that ships: ``target``, the drafts ``draft`` and ``draft-deep``, ``tokenizer``."""


_DRAFTS = {"tiny-llama": "draft", "tiny-llama-deep": "draft-deep"}


@dataclass(frozen=True, eq=False)
class TransformerPair:
    """A target and a draft of one vocabulary, with their tokenizer and the law they sample.

    ``target_name``, ``draft_name``: as given. ``target_model``, ``draft_model``: Transformers
    models in ``eval`` mode on one device. ``context``: most tokens of a sequence; ``eos``:
    tokens that end one. Rows are float64, whatever the models compute in: what is verified is
    the rounded law itself. ``whole``: those of the two models from whose memory tokens cannot be
    taken back, so that each row is computed from all tokens.
    """

    target_name: str
    draft_name: str
    target_model: Any
    draft_model: Any
    tokenizer: Any
    vocab_size: int
    context: int
    eos: frozenset[int]
    sampling: Sampling
    whole: tuple[Any, ...] = ()

    @property
    def name(self) -> str:
        """Name in tables: the draft's for the bundled pairs, both for others."""
        if self.target_name == "tiny-llama" and self.draft_name in _DRAFTS:
            return self.draft_name
        return f"{Path(self.target_name).name} / {Path(self.draft_name).name}"

    def target(self, prefix: Sequence[int]) -> npt.NDArray[np.float64]:
        """Row (V,) of the target after ``prefix``, which holds one token or more."""
        return self._row(self.target_model, prefix)

    def draft(self, prefix: Sequence[int]) -> npt.NDArray[np.float64]:
        """Row (V,) of the draft after ``prefix``, which holds one token or more."""
        return self._row(self.draft_model, prefix)

    def cached(self, model: Any, requests: int) -> "CachedModel | WholeModel":
        """Return ``target_model`` or ``draft_model`` with an empty cache for a batch.

        One that has no cache to take tokens back from computes every row from the whole text.
        """
        from simverify.models.real.kv_cache import CachedModel
        from simverify.models.real.whole_model import WholeModel

        return (WholeModel if self.is_whole(model) else CachedModel)(model, requests)

    def is_whole(self, model: Any) -> bool:
        """Return whether each row of ``model`` is computed from all tokens."""
        return any(model is own for own in self.whole)

    def trees_iv(self) -> None:
        """Raise ``UsageError`` unless both models take the masks of draft trees."""
        from simverify.models.real.cache_check import trees_iv

        for model, name in (
            (self.target_model, self.target_name), (self.draft_model, self.draft_name)
        ):  # fmt: skip
            if not self.is_whole(model):
                trees_iv(model, name)

    def encode(self, prompt: str) -> list[int]:
        """Return a prompt's token ids, one or more."""
        ids: list[int] = self.tokenizer(prompt).input_ids
        if not ids:
            start = self.tokenizer.bos_token_id
            ids = [min(self.eos) if start is None and self.eos else start or 0]
        return ids

    def _row(self, model: Any, prefix: Sequence[int]) -> npt.NDArray[np.float64]:
        if not len(prefix):
            raise ValueError("prefix is empty: a causal model needs one token or more")
        (logits,) = self.cached(model, 1).feed([list(prefix)])
        return self.sampling.rows(logits[-1])


def load_pair(
    target: str,
    draft: str | None,
    *,
    sampling: Sampling | None = None,
    device: str = "cpu",
    dtype: Dtype = "float32",
) -> TransformerPair:
    """Load two models that Transformers knows, by folder or name.

    ``tiny-llama`` is the bundled target, and ``tiny-llama`` or ``tiny-llama-deep`` a bundled
    draft; None lets the target draft for itself, loaded once. A folder is read without network.

    Raises
    ------
    UsageError
        If torch or transformers is missing, a model is not there or no causal language model,
        the device is not there, or vocabularies or tokenizers differ.
    SimverifyError
        If a model does not load, or does not fit into memory.
    """
    _packages_iv()
    from simverify.models.real.cache_check import causal_iv, same_rows_up_to, takes_back
    from simverify.models.real.text_config import text_config

    _device_iv(device)
    folders = [
        str(BUNDLED / folder) if (folder := bundled.get(name)) else name
        for name, bundled in ((target, {"tiny-llama": "target"}), (draft, _DRAFTS))
        if name is not None
    ]
    loaded = [_load(folder, device, dtype) for folder in folders]
    tokenizers = [_tokenizer(folder) for folder in folders]
    if draft is None:
        draft, loaded, tokenizers = target, loaded * 2, tokenizers * 2
    sizes = [text_config(model).vocab_size for model in loaded]
    if sizes[0] != sizes[1]:
        raise UsageError(
            f"{target} has {sizes[0]} tokens and {draft} {sizes[1]}: a draft proposes tokens of "
            f"the target, so both need one vocabulary"
        )
    words = [tokenizer.get_vocab() for tokenizer in tokenizers]
    if words[0] != words[1]:
        differing = sum(words[1].get(word) != number for word, number in words[0].items())
        raise UsageError(
            f"the tokenizers of {target} and {draft} differ in {max(differing, 1)} words: both "
            f"need the same"
        )
    largest = max(words[0].values(), default=0)
    if largest >= sizes[0]:
        raise UsageError(
            f"the tokenizer of {target} goes up to token {largest} and the model holds {sizes[0]} "
            f"tokens: expected those of one model"
        )
    own = {id(m): (m, g) for m, g in zip(loaded, (target, draft), strict=True)}
    for model, given in own.values():
        causal_iv(model, given)
    whole = tuple(model for model, _ in own.values() if not takes_back(model))
    limits = [getattr(text_config(model), "max_position_embeddings", None) for model in loaded]
    limits += [same_rows_up_to(model) for model, _ in own.values()]
    eos = loaded[0].generation_config.eos_token_id
    ends = eos if isinstance(eos, list) else [] if eos is None else [eos]
    return TransformerPair(
        target_name=target,
        draft_name=draft,
        target_model=loaded[0],
        draft_model=loaded[1],
        tokenizer=tokenizers[0],
        vocab_size=sizes[0],
        context=min([limit for limit in limits if limit and limit > 0] or [1 << 20]),
        eos=frozenset(ends),
        sampling=sampling or Sampling(),
        whole=whole,
    )


def use_threads(threads: int | None) -> None:
    """Let torch compute on so many threads from here on; None leaves it as it is."""
    if threads is not None:
        _packages_iv()
        import torch

        if threads < 1:
            raise UsageError(f"threads is {threads}, expected 1 or more")
        torch.set_num_threads(threads)


def _packages_iv() -> None:
    for package in ("torch", "transformers"):
        if importlib.util.find_spec(package) is None:
            raise UsageError(f"real models need {package}: pip install 'simverify[models]'")


def _device_iv(device: str) -> None:
    import torch

    try:
        kind = torch.device(device).type
    except RuntimeError:
        raise UsageError(f"device is {device!r}, expected one such as cpu or cuda") from None
    if kind == "cuda" and not torch.cuda.is_available():
        raise UsageError(f"device is {device!r}, and torch sees no GPU here: use --device cpu")
    here = torch.accelerator.current_accelerator()
    if kind != "cpu" and (here is None or here.type != kind):
        raise UsageError(f"device is {device!r}, and torch computes on none here: use --device cpu")


def _load(name: str, device: str, dtype: Dtype) -> Any:
    import torch
    import transformers

    load: Any = transformers.AutoModelForCausalLM.from_pretrained
    hub: Any = transformers.utils.logging
    hub.disable_progress_bar()
    hub.set_verbosity_error()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # one line is ours to say
    _there_iv(name)
    try:
        model = load(name, dtype=getattr(torch, dtype))
        return model.to(device).eval()
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(
            f"{name} does not load as a causal language model: {_line(error)}"
        ) from None
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise SimverifyError(f"{name} does not fit into memory: {_line(error)}") from None
    except Exception as error:
        raise SimverifyError(f"{name} does not load: {_line(error)}") from None


def _tokenizer(name: str) -> Any:
    from transformers import AutoTokenizer

    if Path(name).parent == BUNDLED:
        name = str(BUNDLED / "tokenizer")
    try:
        return AutoTokenizer.from_pretrained(name)
    except Exception as error:
        raise UsageError(f"{name} has no tokenizer that loads: {_line(error)}") from None


def _there_iv(name: str) -> None:
    looks_like_path = name.startswith((".", "/", "~")) or Path(name).exists()
    if looks_like_path and not (Path(name) / "config.json").is_file():
        raise UsageError(f"{name} holds no config.json: expected a folder of a Transformers model")


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 200 else f"{text[:197]}..."
