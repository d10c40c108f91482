"""The drafters by name, and how one is made for a batch of requests."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simverify.errors import OptionError, escape_braces
from simverify.models.transformer import TransformerPair
from simverify.options.option import DRAFTERS, DrafterName

if TYPE_CHECKING:  # they need torch
    from simverify.drafting.texts import Drafter

MAX_LAYERS_PER_GROUP = 1_000
"""Most layers a group; few models have a tenth as many."""


@dataclass(frozen=True)
class DraftMethod:
    """How drafts are made.

    ``name``: plain, token by token with the pair's draft; easyspec, with that model's layers in
    groups of ``layer_parallel``, and with or without ``calibration``; prompt-lookup and ngram,
    from the texts alone, without a draft model.

    Raises ``UsageError`` for another name, or what does not go with it.
    """

    name: DrafterName = "plain"
    layer_parallel: int = 1
    calibration: bool = True

    def __post_init__(self) -> None:
        if self.name not in DRAFTERS:
            raise OptionError(
                f"{{drafter}} is {escape_braces(self.name)}: expected one of {', '.join(DRAFTERS)}"
            )
        if not 1 <= self.layer_parallel <= MAX_LAYERS_PER_GROUP:
            raise OptionError(
                f"{{layer_parallel}} is {self.layer_parallel}: expected 1 to "
                f"{MAX_LAYERS_PER_GROUP} layers a group"
            )
        if self.name != "easyspec" and (self.layer_parallel != 1 or not self.calibration):
            raise OptionError(f"groups of layers are for {{drafter}} easyspec, not {self.name}")

    @property
    def words(self) -> str:
        """How tables name it: easyspec(4), easyspec(4, no-calibration), ngram; plain is ''."""
        if self.name == "plain":
            return ""
        if self.name != "easyspec":
            return self.name
        without = "" if self.calibration else ", no-calibration"
        return f"easyspec({self.layer_parallel}{without})"

    @property
    def from_texts(self) -> bool:
        """Whether no draft model is needed, and each law is that of one token alone."""
        return self.name in ("prompt-lookup", "ngram")

    def check_tree_attention(self) -> None:
        """Raise ``UsageError`` if it drafts no trees."""
        if self.from_texts:
            raise OptionError(
                f"{{drafter}} {self.name} proposes one token after each text, and drafts no trees: "
                "take a rule for a single draft, or another {drafter}"
            )

    def on(self, pair: TransformerPair) -> str:
        """Return what tables call ``pair``, drafting so; drafters from texts use no draft model."""
        name = Path(pair.target_name).name if self.from_texts else pair.name
        return f"{name} {self.words}".strip()

    def make(self, pair: TransformerPair, requests: int) -> "Drafter":
        """Return the drafter for a batch of ``requests``, none of which has a text yet.

        Raises ``UsageError`` if the draft model is of a type whose layers cannot be grouped.
        """
        from simverify.drafting.easyspec import EasySpec, PlainDrafter
        from simverify.drafting.texts import NgramDrafter, PromptLookup

        whole = pair.is_whole(pair.draft_model)
        match self.name:
            case "plain":
                return PlainDrafter(pair.draft_model, requests, whole=whole)
            case "easyspec":
                if whole:
                    raise OptionError(
                        "{drafter} easyspec keeps fuzzy keys and values in a cache, which "
                        f"{pair.draft_name} has none of that could be taken back: take plain"
                    )
                return EasySpec(
                    pair.draft_model, requests, self.layer_parallel, calibration=self.calibration
                )
            case "prompt-lookup":
                return PromptLookup(pair.vocab_size, requests)
            case "ngram":
                return NgramDrafter(pair.vocab_size, requests)


def make_methods(
    drafter: str | None, layer_parallel: str | None, *, calibration: bool
) -> tuple[DraftMethod, ...]:
    """Return the ways of drafting that options name, one for each number of layers a group.

    ``drafter``: a name; None is plain. ``layer_parallel``: numbers with commas between, for
    easyspec; None is 4. Raises ``UsageError`` for what does not go together.
    """
    name = drafter or "plain"
    if name == "easyspec":
        given = "4" if layer_parallel is None else layer_parallel
        numbers = [_check_layer_parallel(number, given) for number in given.split(",")]
        for number in numbers:
            if numbers.count(number) > 1:
                raise OptionError(
                    f"{{layer_parallel}} is {escape_braces(given)}: {number} is there twice, "
                    "expected each number once"
                )
        return tuple(DraftMethod("easyspec", number, calibration=calibration) for number in numbers)
    for option, value in (("layer_parallel", layer_parallel), ("no_calibration", not calibration)):
        if value:
            raise OptionError(
                f"{{{option}}} is for layers in groups: name {{drafter}} easyspec too"
            )
    return (DraftMethod(name),)  # type: ignore[arg-type]  # checked there


def _check_layer_parallel(text: str, given: str) -> int:
    digits = text.strip()
    if not (
        digits.isascii() and digits.isdigit() and len(digits) <= len(str(MAX_LAYERS_PER_GROUP))
    ):
        raise OptionError(
            f"{{layer_parallel}} is {escape_braces(given)}: expected the layers a group, 1 to "
            f"{MAX_LAYERS_PER_GROUP}, or a list such as 1,2,4"
        )
    return int(digits)
