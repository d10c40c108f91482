"""Speed-ups on real models: what the latency model predicts, and what the clock says."""

from collections.abc import Iterator

from simverify.reports.view import Cell, Table
from simverify.reports.words import figure
from simverify.results import CompareRun, Latency


def timed(run: CompareRun, model: str) -> tuple[Latency, ...]:
    """Return what was timed on ``model``: nothing where it was simulated, or on a trace."""
    return tuple(found for found in run.meta.latencies if found.model == model)


def speedup_words(run: CompareRun, model: str) -> Iterator[str]:
    """Yield which speed-up is which, in sentences; nothing for simulated models."""
    if run.decoding is None:
        return
    cost = f"{run.results[0].speedup.cost_ratio:g} as given (--cost-ratio)"
    block = f"a target call on {run.gamma + 1} tokens"
    if run.drafting is not None:
        block = f"a target call on the {len(run.drafting.parents) + 1} tokens of a tree"
    found = timed(run, model)
    yield (
        f"Predicted speed-up: (E[tau] + 1) / (gamma c + 1), the latency model, if {block} takes as "
        f"long as one on a single token. c is the time of a drafted token over that of such "
        f"a call: {cost}" + (", or as measured." if found else ". A trace times no model.")
    )
    if found:
        yield (
            "Measured speed-up: time a token without a draft over that with it, all requests "
            f"together, by the wall clock; reading prompts is in neither. Block cost: time of "
            f"{block} over one on a single token, which the prediction takes for 1."
        )


def speedup_table(run: CompareRun, model: str) -> Table | None:
    """Return predicted and measured speed-ups side by side, or None where nothing was timed."""
    found = timed(run, model)
    if not found:
        return None
    given = {row.verifier: row.speedup for row in run.results if row.model == model}
    cost = next(iter(given.values())).cost_ratio
    return Table(
        f"Speed-up over the target alone, which takes {time_words(found[0].plain)} a token",
        ("verifier", "measured", f"predicted, c = {cost:g}", "predicted, measured c", "measured c",
         "block cost", "a token", "draft", "target", "verifier's own"),
        tuple(
            (
                Cell(each.verifier),
                *(Cell(f"{x:.2f}x", x)
                  for x in (each.measured, given[each.verifier].predicted, each.predicted)),
                figure(each.cost_ratio, 2),
                figure(each.block_cost, 2),
                Cell(time_words(each.speculative), each.speculative),
                *(Cell(f"{part / each.speculative:.0%}", part / each.speculative)
                  for part in (each.draft, each.score, each.verify)),
            )
            for each in found
        ),
        numbers=frozenset(range(1, 10)),
        names=frozenset({0}),
    )  # fmt: skip


def time_words(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.0f} us"
