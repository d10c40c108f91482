"""``simverify figure``."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from simverify.cli.streams import say_error
from simverify.errors import UsageError


def figure(
    kind: Annotated[
        Literal["fig3", "fig4", "fig5", "easyspec-fig4"], Parameter(show_env_var=False)
    ],
    runs: Annotated[list[Path], Parameter(show_env_var=False)],
    /,
    *,
    output: Annotated[Path, Parameter(alias="-o")],
) -> int:
    """Draw a figure from comparisons, in the kind of the block verification and EasySpec papers.

    Parameters
    ----------
    kind
        fig3: Pr(tau >= l); fig4: block efficiency against gamma; fig5: speed-up against gamma;
        easyspec-fig4: acceptance by tree width, of drafts with layers in groups.
    runs
        Run files of comparisons; a panel for each model, two of easyspec-fig4.
    output
        The .svg or .pdf file to write.
    """
    from simverify.reports.formats.figures import draw, figure_iv
    from simverify.results import CompareRun
    from simverify.results.reading.document import check_writable, read_document

    figure_iv(output)
    check_writable(output)
    documents = []
    for path in runs:
        document = read_document(path)
        if not isinstance(document, CompareRun):
            raise UsageError(f"{path} is no comparison: figures are drawn from compare's run files")
        documents.append(document)
    if lacking := draw(kind, documents, output):
        some = ", ".join(f"U+{ord(c):04X}" for c in lacking[:5])
        more = f" and {len(lacking) - 5} more" if lacking[5:] else ""
        say_error(
            f"simverify: {output} may show boxes for {some}{more}, which matplotlib's font lacks: "
            "give the models other names, or set font.family in a matplotlibrc"
        )
    return 0
