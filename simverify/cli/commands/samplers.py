"""``simverify sampler`` and ``simverify generators``."""

from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from simverify.checks import pick_name
from simverify.cli.common import Outputs, document_command, print_entries, wrap_line
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


def generators(library: Annotated[str | None, Parameter(show_env_var=False)] = None, /) -> int:
    """Show what random numbers of libraries are, and what their samplers make of them.

    Parameters
    ----------
    library
        Show only this one, such as torch or libstdc++.
    """
    from simverify.reports.samplers import (
        draw_entries,
        generator_entries,
        library_names,
        sampler_entries,
        stream_entries,
    )

    if library is not None:
        pick_name(library, library_names(), "library")
    blank = ""
    for title, entries in (
        ("Uniform random numbers", generator_entries),
        ("Samplers: total variation between what comes out and the row", sampler_entries),
        (
            "Integers, permutations and normal numbers: total variation (TV) from the documented "
            "distribution",
            draw_entries,
        ),
        ("Streams: what two generators or keys of one seed share", stream_entries),
    ):
        if found := tuple(entries(library)):
            print(f"{blank}{wrap_line(title)}\n")
            print_entries(found)
            blank = "\n"
    return 0
