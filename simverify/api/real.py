"""A pair of real models, as the options of every command name it."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from simverify.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simverify.drafting.method import DraftMethod
    from simverify.models.real.sampling import Sampling
    from simverify.models.real.transformer import TransformerPair

BUNDLED = "tiny-llama"


@dataclass(frozen=True, kw_only=True)
class RealModels:
    """Options of real models, named as on the command line; None: not given."""

    target: str | None = None
    draft: str | None = None
    prompts: Path | None = None
    tokens: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    device: str | None = None
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    threads: int | None = None
    drafter: str | None = None
    layer_parallel: str | None = None
    no_calibration: bool | None = None

    def complete(self) -> None:
        """Raise ``OptionError`` if a part of the pair is missing that does not ship."""
        missing = {
            "target": "real models are a target and a draft",
            "draft": "real models are a target and a draft",
            "prompts": "name a file of prompts, JSONL or text",
        }
        if self.from_texts:
            if self.draft is not None:
                raise OptionError(
                    f"{{draft}} is not for {{drafter}} {self.drafter}, which drafts from the texts "
                    "alone: leave it out"
                )
            del missing["draft"]
        for name, why in missing.items():
            if getattr(self, name) is None and self.target != BUNDLED:
                raise OptionError(f"{{{name}}} is missing: {why}")

    def sampling(self) -> "Sampling":
        """Return the law that is sampled; raises ``UsageError`` out of range."""
        from simverify.models.real.sampling import Sampling

        temperature = 1.0 if self.temperature is None else self.temperature
        return Sampling(temperature, self.top_k, self.top_p)

    def methods(self) -> "tuple[DraftMethod, ...]":
        """Return how drafts are made; raises ``UsageError`` for what does not go together."""
        from simverify.drafting.method import methods_of

        return methods_of(self.drafter, self.layer_parallel, calibration=not self.no_calibration)

    @property
    def from_texts(self) -> bool:
        """Whether no draft model is needed; raises as :meth:`methods`."""
        return all(method.from_texts for method in self.methods())

    def texts(self) -> "Sequence[str]":
        """Read the prompts: the bundled ones where no file is named."""
        from simverify.models.real.prompts import read_prompts
        from simverify.models.real.transformer import BUNDLED as FOLDER

        return read_prompts(self.prompts or FOLDER / "prompts.jsonl")

    def load(self) -> "TransformerPair":
        """Load target and draft."""
        from simverify.models.real.transformer import load_pair, use_threads

        assert self.target is not None
        use_threads(self.threads)
        return load_pair(
            self.target, self.draft, sampling=self.sampling(), device=self.device or "cpu",
            dtype=self.dtype or "float32",
        )  # fmt: skip
