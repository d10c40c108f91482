"""Two causal language models as target and draft: prompts, loading, the law of the next token.

Needs torch and transformers, as ``kv_cache`` does; simulated models need neither.
"""

import importlib.util
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from simverify.arrays import Floats
from simverify.errors import SimverifyError, UsageError
from simverify.models.tiny_llama import BUNDLED as BUNDLED

if TYPE_CHECKING:
    from simverify.models.kv_cache import CachedModel, UncachedModel


# Prompts from a file: JSONL, such as Spec-Bench's ``question.jsonl``, or a text file.


_PROMPT_FIELDS = ("prompt", "text", "turns")


def read_prompts(path: Path) -> tuple[str, ...]:
    """Return the prompts of a file, one or more.

    A ``.jsonl`` file holds an object a line with ``prompt`` or ``text``, a string, or
    ``turns``, a list of strings of which the first is taken (Spec-Bench). Any other file is
    text: its paragraphs, parted by empty lines, are the prompts. Raises ``UsageError`` if the file
    cannot be read, is not UTF-8, a line is no such object, or none is there.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"prompts: cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"prompts: {path} is not UTF-8 text (byte {error.start})") from None
    if path.suffix == ".jsonl":
        lines = enumerate(text.split("\n"), 1)
        prompts = [check_prompt(f"{path}, line {n}", line) for n, line in lines if line.strip()]
    else:
        prompts = [part.strip() for part in text.replace("\r\n", "\n").split("\n\n")]
    prompts = [prompt for prompt in prompts if prompt]
    if not prompts:
        raise UsageError(f"prompts: {path} holds none: write one a paragraph, or JSONL")
    return tuple(prompts)


def check_unicode(text: str, where: str) -> str:
    """Return ``text`` from JSON if a tokenizer can take it; ``UsageError`` otherwise."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"{where} is no Unicode text: half a surrogate pair at character {error.start}"
        ) from None
    return text


def check_prompt(where: str, line: str) -> str:
    """Return the prompt of a line of JSONL at ``where``; ``UsageError`` if it has none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"prompts: {where} is no JSON: {error}") from None
    for field in _PROMPT_FIELDS:
        if isinstance(value, dict) and field in value:
            prompt = value[field]
            if field == "turns" and isinstance(prompt, list) and prompt:
                prompt = prompt[0]
            if isinstance(prompt, str):
                return check_unicode(prompt, f"prompts: {where}: {field!r}")
            raise UsageError(f"prompts: {where}: {field!r} holds no string")
    raise UsageError(f"prompts: {where} is no object with one of {', '.join(_PROMPT_FIELDS)}")


# From logits to the law that is sampled: temperature, top-k, top-p.


@dataclass(frozen=True)
class Sampling:
    """How logits become a row of probabilities, for target and draft alike.

    ``temperature`` 0 is one-hot at the largest logit, the lowest id of equals. ``top_k`` keeps
    the k largest logits and their equals; ``top_p`` the fewest tokens, likeliest first, whose
    probability after temperature and top-k reaches it. None: all tokens are kept. Raises
    ``UsageError`` if temperature is negative or not finite, top_k below 1 or top_p outside (0, 1].
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not (0.0 <= self.temperature < np.inf):
            raise UsageError(f"temperature is {self.temperature}, expected 0 or more")
        if self.top_k is not None and self.top_k < 1:
            raise UsageError(f"top-k is {self.top_k}, expected 1 or more")
        if self.top_p is not None and not 0.0 < self.top_p <= 1.0:
            raise UsageError(f"top-p is {self.top_p}, expected more than 0 and at most 1")

    def rows(self, logits: npt.ArrayLike) -> Floats:
        """Return float64 rows (..., V) that sum to 1, from logits (..., V) of any float type.

        -inf is a token that cannot be drawn. Raises ``ValueError`` on NaN, +inf, or a row
        without a finite logit.
        """
        x = np.asarray(logits, dtype=np.float64)
        top = x.max(axis=-1, keepdims=True)
        if not np.isfinite(top).all():
            raise ValueError("logits hold NaN or +inf, or a row is -inf throughout")
        if self.temperature == 0.0:
            first: Floats = (np.arange(x.shape[-1]) == x.argmax(axis=-1)[..., None]).astype(float)
            return first
        if self.top_k is not None and self.top_k < x.shape[-1]:
            least = -np.partition(-x, self.top_k - 1, axis=-1)[..., self.top_k - 1, None]
            x = np.where(x < least, -np.inf, x)
        p: Floats = np.exp((x - top) / self.temperature)
        p /= p.sum(axis=-1, keepdims=True)
        if self.top_p is not None and self.top_p < 1.0:
            order = np.argsort(-p, axis=-1, kind="stable")
            ranked = np.take_along_axis(p, order, axis=-1)
            before = np.cumsum(ranked, axis=-1) - ranked
            keep = np.empty(p.shape, np.bool_)
            np.put_along_axis(keep, order, before < self.top_p, axis=-1)
            p = np.where(keep, p, 0.0)
            p /= p.sum(axis=-1, keepdims=True)
        return p


Dtype = Literal["float32", "bfloat16", "float16"]

_BUNDLED_DRAFTS = {"tiny-llama": "draft", "tiny-llama-deep": "draft-deep"}


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
        if self.target_name == "tiny-llama" and self.draft_name in _BUNDLED_DRAFTS:
            return self.draft_name
        return f"{Path(self.target_name).name} / {Path(self.draft_name).name}"

    def target(self, prefix: Sequence[int]) -> npt.NDArray[np.float64]:
        """Row (V,) of the target after ``prefix``, which holds one token or more."""
        return self._row(self.target_model, prefix)

    def draft(self, prefix: Sequence[int]) -> npt.NDArray[np.float64]:
        """Row (V,) of the draft after ``prefix``, which holds one token or more."""
        return self._row(self.draft_model, prefix)

    def cached(self, model: Any, requests: int) -> "CachedModel | UncachedModel":
        """Return ``target_model`` or ``draft_model`` with an empty cache for a batch.

        One that has no cache to take tokens back from computes every row from the whole text.
        """
        from simverify.models.kv_cache import CachedModel, UncachedModel

        return (UncachedModel if self.is_whole(model) else CachedModel)(model, requests)

    def is_whole(self, model: Any) -> bool:
        """Return whether each row of ``model`` is computed from all tokens."""
        return any(model is own for own in self.whole)

    def check_tree_attention(self) -> None:
        """Raise ``UsageError`` unless both models take the masks of draft trees."""
        from simverify.models.kv_cache import check_tree_attention

        for side in ("target", "draft"):
            model = getattr(self, f"{side}_model")
            if not self.is_whole(model):
                check_tree_attention(model, getattr(self, f"{side}_name"))

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

    Raises ``UsageError`` if torch or transformers is missing, a model is not there or no causal
    language model, the device is not there, or vocabularies or tokenizers differ;
    ``SimverifyError`` if a model does not load, or does not fit into memory.
    """
    _check_packages()
    from simverify.models.kv_cache import (
        check_causal,
        consistent_length,
        supports_rollback,
        text_config,
    )

    _check_device(device)
    folders = [
        str(BUNDLED / folder) if (folder := bundled.get(name)) else name
        for name, bundled in ((target, {"tiny-llama": "target"}), (draft, _BUNDLED_DRAFTS))
        if name is not None
    ]
    loaded = [_load_model(folder, device, dtype) for folder in folders]
    tokenizers = [_load_tokenizer(folder) for folder in folders]
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
    unique_models = {id(m): (m, g) for m, g in zip(loaded, (target, draft), strict=True)}
    for model, given in unique_models.values():
        check_causal(model, given)
    whole = tuple(model for model, _ in unique_models.values() if not supports_rollback(model))
    limits = [getattr(text_config(model), "max_position_embeddings", None) for model in loaded]
    limits += [consistent_length(model) for model, _ in unique_models.values()]
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
        _check_packages()
        import torch

        if threads < 1:
            raise UsageError(f"threads is {threads}, expected 1 or more")
        torch.set_num_threads(threads)


def _check_packages() -> None:
    for package in ("torch", "transformers"):
        if importlib.util.find_spec(package) is None:
            raise UsageError(f"real models need {package}: pip install 'simverify[models]'")


def _check_device(device: str) -> None:
    import torch

    try:
        kind = torch.device(device).type
    except RuntimeError:
        raise UsageError(f"device is {device!r}, expected one such as cpu or cuda") from None
    if kind == "cuda" and not torch.cuda.is_available():
        raise UsageError(f"device is {device!r}, and torch sees no GPU here: use --device cpu")
    accelerator = torch.accelerator.current_accelerator()
    if kind != "cpu" and (accelerator is None or accelerator.type != kind):
        raise UsageError(f"device is {device!r}, and torch computes on none here: use --device cpu")


def _load_model(name: str, device: str, dtype: Dtype) -> Any:
    import torch
    import transformers

    load: Any = transformers.AutoModelForCausalLM.from_pretrained
    hub: Any = transformers.utils.logging
    hub.disable_progress_bar()
    hub.set_verbosity_error()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # one line is ours to say
    _check_model_folder(name)
    try:
        model = load(name, dtype=getattr(torch, dtype))
        return model.to(device).eval()
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(
            f"{name} does not load as a causal language model: {_short_error(error)}"
        ) from None
    except (MemoryError, torch.OutOfMemoryError) as error:
        raise SimverifyError(f"{name} does not fit into memory: {_short_error(error)}") from None
    except Exception as error:
        raise SimverifyError(f"{name} does not load: {_short_error(error)}") from None


def _load_tokenizer(name: str) -> Any:
    from transformers import AutoTokenizer

    if Path(name).parent == BUNDLED:
        name = str(BUNDLED / "tokenizer")
    try:
        return AutoTokenizer.from_pretrained(name)
    except Exception as error:
        raise UsageError(f"{name} has no tokenizer that loads: {_short_error(error)}") from None


def _check_model_folder(name: str) -> None:
    looks_like_path = name.startswith((".", "/", "~")) or Path(name).exists()
    if looks_like_path and not (Path(name) / "config.json").is_file():
        raise UsageError(f"{name} holds no config.json: expected a folder of a Transformers model")


def _short_error(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 200 else f"{text[:197]}..."
