"""The options of ``triage`` and ``watch``: names, types, defaults, explanations."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """The target that an engine should follow, and how a server is asked; None: not given.

    Attributes
    ----------
    target
        The model whose law the engine should follow: a folder or a name that Transformers
        loads, or tiny-llama, which ships.
    draft
        The engine's draft, or a model near it, which makes more visible.
    device
        Where the target computes; cpu by default.
    dtype
        The precision that the engine computes in, or the coarser one of two.
    threads
        Threads of torch.
    prompts
        Of a server: prompts, JSONL or a text file with one a paragraph.
    max_tokens
        Of a server: limit of one completion, 128 if not given.
    served_model
        Of a server: name of the model there; by default the first that it lists.
    seed
        Seed of what is drawn here.
    """

    target: str | None = None
    draft: str | None = None
    device: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    threads: int | None = None
    prompts: Path | None = None
    max_tokens: int | None = None
    served_model: str | None = None
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class TriageOptions(TargetOptions):
    """Options of a triage; None: not given.

    Attributes
    ----------
    keep
        Folder for the answers of servers, a.jsonl and b.jsonl; what an earlier run began is
        gone on with.
    """

    keep: Path | None = None
