"""``simverify sampler`` and ``simverify generators``."""

from typing import TYPE_CHECKING

from simverify.cli.common import Outputs, document_command, print_entries
from simverify.options.samplers import SamplerOptions

if TYPE_CHECKING:
    from simverify.results import SamplerRun


@document_command(SamplerOptions, arguments={"function": ""}, optional=True)
def sampler(options: SamplerOptions, _outputs: Outputs) -> "SamplerRun":
    """Judge whether a library's sampler emits the row that it is given.

    Its distribution is computed where that is possible, and sampled elsewhere. A row loses digits
    where its type has few; that is said apart, and the sampler is judged by the row that it gets.
    """
    from simverify.api.samplers import sampler as judge

    return judge.run(options)


def generators() -> int:
    """Show what random numbers of libraries are, and what their samplers make of them."""
    from simverify.reports.samplers import generator_entries, sampler_entries

    print("Uniform random numbers\n")
    print_entries(generator_entries())
    print("\nSamplers: total variation between what comes out and the row\n")
    print_entries(sampler_entries())
    return 0
