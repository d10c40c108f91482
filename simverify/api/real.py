"""A pair of real models, and the law of a request, as the options of every command name them."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simverify.errors import OptionError
from simverify.options.option import Compute, Drafting, Models, Options, text_of
from simverify.options.option import Law as LawOptions
from simverify.options.served import DeclaredLaw

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simverify.drafting.method import DraftMethod
    from simverify.models.transformer import Sampling, TransformerPair
    from simverify.served import Law, Mask

BUNDLED_MODEL = "tiny-llama"


@dataclass(frozen=True, kw_only=True)
class RealModelOptions(Drafting, Compute, LawOptions, Models):
    """Options of real models, named as on the command line; None: not given."""

    prompts: Path | None = None
    tokens: int | None = None
    layer_parallel: str | None = None

    @classmethod
    def of(cls, options: Options) -> "RealModelOptions":
        """Return what the options of a command say of the pair."""
        known = {name for name in type(options).names() if name in vars(cls())}
        given = {name: getattr(options, name) for name in known}
        if given.get("prompts") is not None:
            given["prompts"] = Path(given["prompts"])
        if given.get("layer_parallel") is not None:
            given["layer_parallel"] = str(given["layer_parallel"])
        return cls(**given)

    def complete(self) -> None:
        """Raise ``OptionError`` if a part of the pair is missing that does not ship."""
        missing = dict.fromkeys(("target", "draft"), "real models are a target and a draft")
        missing["prompts"] = "name a file of prompts, JSONL or text"
        if self.from_texts:
            if self.draft is not None:
                raise OptionError(
                    f"{{draft}} is not for {{drafter}} {self.drafter}, which drafts from the texts "
                    "alone: leave it out"
                )
            del missing["draft"]
        for name, why in missing.items():
            if getattr(self, name) is None and self.target != BUNDLED_MODEL:
                raise OptionError(f"{{{name}}} is missing: {why}")

    def sampling(self) -> "Sampling":
        """Return the law that is sampled; raises ``UsageError`` out of range."""
        from simverify.models.transformer import Sampling

        temperature = 1.0 if self.temperature is None else self.temperature
        return Sampling(temperature, self.top_k, self.top_p)

    def methods(self) -> "tuple[DraftMethod, ...]":
        """Return how drafts are made; raises ``UsageError`` for what does not go together."""
        from simverify.drafting.method import make_methods

        return make_methods(self.drafter, self.layer_parallel, calibration=not self.no_calibration)

    def method(self, why: str) -> "DraftMethod":
        """Return the one way in which drafts are made; ``why`` there may not be several."""
        method, *others = self.methods()
        if others:
            raise OptionError(f"{{layer_parallel}} is one number here: {why}")
        return method

    @property
    def from_texts(self) -> bool:
        """Whether no draft model is needed; raises as :meth:`methods`."""
        return all(method.from_texts for method in self.methods())

    def texts(self) -> "Sequence[str]":
        """Read the prompts: the bundled ones where no file is named."""
        from simverify.models.transformer import BUNDLED, read_prompts

        return read_prompts(self.prompts or BUNDLED / "prompts.jsonl")

    def load(self) -> "TransformerPair":
        """Load target and draft."""
        from simverify.models.transformer import load_pair, use_threads

        assert self.target is not None
        use_threads(self.threads)
        return load_pair(
            self.target,
            self.draft,
            sampling=self.sampling(),
            device=self.device or "cpu",
            dtype=self.dtype or "float32",
        )


def declared_law(options: DeclaredLaw, pair: "TransformerPair") -> "Law":
    """Return the law that the options declare, with the temperature and cuts of ``pair``.

    Raises ``UsageError`` for what is out of range, and for a mask that does not load.
    """
    from simverify.models.distribution import as_law, check_order, law_fields

    said = {name: getattr(options, name) for name in DeclaredLaw.names()} | _objects(options)
    law = replace(as_law(pair.sampling), **law_fields(said, "the command", pair))
    if options.order is not None:
        law = replace(law, order=check_order(options.order))
    return replace(law, mask=mask_of(options.mask))


def check_law(options: DeclaredLaw) -> None:
    """Raise ``UsageError`` for a number, an order or JSON that is out of range."""
    from simverify.models.distribution import NUMBER_PARAMETERS, Law, check_order

    given = {n: getattr(options, n, None) for n in (*NUMBER_PARAMETERS, "min_tokens")}
    Law(**{name: value for name, value in given.items() if value is not None})
    _objects(options)
    if options.order is not None:
        check_order(options.order)


def _objects(options: DeclaredLaw) -> dict[str, Any]:
    """Return what was given as JSON."""
    kinds = {"logit_bias": dict, "bad_words": list, "extra_body": dict}
    return {
        name: check_json(value, name, kind)
        for name, kind in kinds.items()
        if (value := getattr(options, name)) is not None
    }


def check_json(value: object, name: str, kind: type) -> Any:
    """Return what an option holds, an object or a list, or JSON of one; else ``UsageError``."""
    from simverify.models.distribution import check_json_option

    return check_json_option(text_of(value, name), name.replace("_", "-"), kind)


def mask_of(mask: "str | Callable[..., Any] | None") -> "Mask | None":
    """Return a mask that was handed over, or that of path/file.py:attr.

    ``UsageError`` if it does not load.
    """
    from simverify.auditing.subject import load_subject
    from simverify.models.distribution import Mask

    if mask is None:
        return None
    if callable(mask):
        return Mask(text_of(mask, "mask"), mask)
    if ":" not in mask:
        raise OptionError(f"{{mask}} is {mask!r}: expected path/file.py:attr")
    return Mask(mask, load_subject(mask).rule)
