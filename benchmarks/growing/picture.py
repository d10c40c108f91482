"""The picture of what `growth.py` measured."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any


def draw(measured: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw time and memory of every axis, both on logarithmic scales; needs matplotlib."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = 3
    rows = -(-len(measured) // columns)
    # The same figures give the same bytes.
    with rc_context({"svg.hashsalt": "growth", "font.size": 8}):
        figure = Figure(figsize=(9.5, 2.7 * rows), layout="constrained")
        for index, axis in enumerate(measured):
            plot = figure.add_subplot(rows, columns, index + 1)
            values = [point["value"] for point in axis["points"]]
            seconds = [point["cpu_seconds"] for point in axis["points"]]
            mebibytes = [point["mebibytes"] for point in axis["points"]]
            plot.loglog(values, seconds, "o-", color="#0a5fbf", label="CPU seconds")
            plot.loglog(values, mebibytes, "s--", color="#9a5b00", label="MiB, peak")
            plot.set_title(axis["name"])
            plot.grid(alpha=0.3)
            plot.set_xticks(values, [f"{value:,.4g}" for value in values], rotation=40)
            plot.minorticks_off()
        figure.legend(*plot.get_legend_handles_labels(), loc="outside lower center", ncols=2)
        figure.savefig(path, format="svg", metadata={"Date": None})
