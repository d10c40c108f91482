"""The options of ``simverify sampler``."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from simverify.options.option import BUDGET, DETECT, INSTANCES, SUBJECT, Options, Range, option
from simverify.options.option import SEED as SEED_RANGE

RowKind = Literal["flat", "peaked", "heavy"]
Dtype = Literal["float64", "float32", "float16", "bfloat16"]


@dataclass(frozen=True)
class SamplerOptions(Options):
    """Of a library's function that draws tokens."""

    title: ClassVar[str] = "a sampler"

    function: str | None = option(
        "The function, such as torch.multinomial; simverify generators lists them.", SUBJECT
    )
    dtype: Dtype | None = option("Type of the row; by default, the function's usual one.", SUBJECT)
    vocab: int = option(
        "Number of tokens, 2 to 1,000,000.", INSTANCES, Range(low=2, high=1_000_000), default=32_000
    )
    row: RowKind | None = option(
        "Test only this row. flat: all tokens equal; peaked: .75 for the first token; heavy: "
        "1/rank. All three by default.",
        INSTANCES,
    )
    seed: int = option("Seed of the draws.", BUDGET, SEED_RANGE, default=0)
    alpha: float = option(
        "Probability that a sampled row fails although the sampler is right.",
        BUDGET,
        Range(above=0, below=1),
        default=1e-6,
    )
    detect: float = option(
        "Exact rows fail above this total variation (TV). Sampled rows draw enough to find it with "
        "probability .9: half of it takes four times the draws.",
        BUDGET,
        DETECT,
        default=0.03,
    )
