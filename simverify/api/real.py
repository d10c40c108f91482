"""A pair of real models, and the law of a request, as the options of every command name them."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from simverify.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simverify.drafting.method import DraftMethod
    from simverify.emitted import Law, Mask
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


class OfRealModels:
    """Options with those of a pair of real models among them."""

    def real(self) -> RealModels:
        """Return what is said of the pair."""
        names = (field.name for field in fields(RealModels))
        return RealModels(**{name: getattr(self, name) for name in names})


@dataclass(frozen=True, kw_only=True)
class LawOptions:
    """What an engine was asked for beside temperature, top-k and top-p; None: not given.

    Attributes
    ----------
    min_p
        Emitted tokens: keep what is at least so many times as likely as the likeliest.
    typical_p
        Emitted tokens: keep the tokens of most typical surprise, up to this share.
    repetition_penalty
        Emitted tokens: divides scores of what the prompt or the answer holds.
    presence_penalty
        Emitted tokens: taken off the score of what the answer holds.
    frequency_penalty
        Emitted tokens: taken off for each time that the answer holds it.
    logit_bias
        Emitted tokens: added to scores, JSON such as {"5": -100}.
    bad_words
        Emitted tokens: never written, JSON such as ["word", [5, 6]], texts or token ids.
    min_tokens
        Emitted tokens: so many come before the end of a request.
    order
        Emitted tokens: the order in which parameters act: transformers (the default), vllm,
        sglang, llamacpp, mlx-lm, or some of them, such as top-p,temperature.
    mask
        Emitted tokens: a function that says which may come next, path/file.py:attr; it is given
        the ids of the prompt and of the answer so far.
    extra_body
        Endpoint: fields of every request beside these, JSON, such as a schema to follow.
    """

    min_p: float | None = None
    typical_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: str | None = None
    bad_words: str | None = None
    min_tokens: int | None = None
    order: str | None = None
    mask: str | None = None
    extra_body: str | None = None

    def declared(self, pair: "TransformerPair", mask: "Mask | None" = None) -> "Law":
        """Return the law that the options declare, with the temperature and cuts of ``pair``.

        ``mask``: in the place of the function that is named. Raises ``UsageError`` for what is out
        of range, and for a mask that does not load.
        """
        from dataclasses import replace

        from simverify.emitted.law import as_law
        from simverify.emitted.law.words import fields_of, object_iv, order_iv

        said = {field.name: getattr(self, field.name) for field in fields(LawOptions)}
        for name, kind in (("logit_bias", dict), ("bad_words", list)):
            if said[name] is not None:
                said[name] = object_iv(said[name], name.replace("_", "-"), kind)
        law = replace(as_law(pair.sampling), **fields_of(said, "the command", pair))
        if self.order is not None:
            law = replace(law, order=order_iv(self.order))
        return replace(law, mask=mask or (None if self.mask is None else mask_named(self.mask)))

    def ranges(self) -> None:
        """Raise ``UsageError`` for a number, an order or JSON that is out of range."""
        from simverify.emitted.law import Law
        from simverify.emitted.law.words import NUMBERS, object_iv, order_iv

        given = {n: getattr(self, n) for n in (*NUMBERS, "min_tokens") if hasattr(self, n)}
        Law(**{name: value for name, value in given.items() if value is not None})
        for name, kind in (("logit_bias", dict), ("bad_words", list), ("extra_body", dict)):
            if getattr(self, name) is not None:
                object_iv(getattr(self, name), name.replace("_", "-"), kind)
        if self.order is not None:
            order_iv(self.order)


def mask_named(spec: str) -> "Mask":
    """Return the mask function of path/file.py:attr; ``UsageError`` if it does not load."""
    from simverify.auditing.subject import load_subject
    from simverify.emitted.law import Mask

    if ":" not in spec:
        raise OptionError(f"{{mask}} is {spec!r}: expected path/file.py:attr")
    return Mask(spec, load_subject(spec).rule)
