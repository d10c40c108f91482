"""One model of a comparison as blocks of a report: charts, curves against gamma, calls."""

from collections.abc import Iterator, Sequence

from simverify.reports.compare.brief import bound_words
from simverify.reports.compare.by_gamma import by_gamma
from simverify.reports.compare.charts import charts
from simverify.reports.compare.decoded import decoded_table
from simverify.reports.compare.grouped.names import way
from simverify.reports.compare.speedups import speedup_table, speedup_words, timed
from simverify.reports.compare.tree_chart import node_table, tree_pictures
from simverify.reports.view import Block, Cell, Pictures, Prose, Table
from simverify.reports.words import MOST_ROWS, figure, first
from simverify.results import CompareResult, CompareRun, Decoding, Expected, ModelInfo


def model_blocks(
    ident: str, run: CompareRun, model: ModelInfo, rows: Sequence[CompareResult]
) -> Iterator[Block]:
    """Yield the charts of a model and the tables behind them; ``ident`` is its own on the page."""
    words = f"V = {model.vocab_size:,}. No rule accepts more than "
    words += f"{expected_cell(model.bounds.coupling).text} tokens in one call (coupling bound"
    by = {"counting": ", by counting texts", "linear-programme": ", a linear program"}
    words += f"{by.get(model.bounds.coupling.method, '')}{bound_words(model.bounds)})."
    if model.target_perplexity is not None and model.draft_perplexity is not None:
        words += (
            f" Perplexity {model.target_perplexity:.3g} target, {model.draft_perplexity:.3g} draft."
        )
    if model.draft_distance is not None and model.temperature is not None:
        words += (
            f" Draft distance {model.draft_distance:g}, temperature {model.temperature:g}: "
            "random rows, the same for these and V."
        )
    if model.file_sha256 is not None:
        words += f" Read from {model.given}, sha256 {model.file_sha256}."
    if model.corpus_sha256 is not None:
        words += f" Corpus sha256 {model.corpus_sha256}."
    yield Prose(words)
    yield Pictures(charts(ident, model, rows, timed(run, model.name)))
    if run.drafting is not None:
        if pictures := tree_pictures(ident, run.drafting, rows):
            yield Pictures(pictures)
        if (masses := node_table(run.drafting, rows)) is not None:
            yield masses
    if run.decoding is not None:
        yield from _real(run, run.decoding, model, rows)
    elif not any(row.lossless.pits for row in rows):
        yield Prose("Contexts repeat here: tokens are counted by context, not by PITs.")
    gammas = [(row, point) for row in rows for point in by_gamma(row)]
    if gammas:
        shown, left_out = first(gammas, MOST_ROWS)
        yield Table(
            "Against gamma"
            + (", expected of first calls, measured over all" if run.decoding is not None else ""),
            (
                "verifier",
                "gamma",
                "Pr(tau >= gamma)",
                "measured",
                "block efficiency",
                "predicted speed-up",
            ),
            tuple(
                (
                    Cell(row.verifier),
                    Cell(str(point.gamma), point.gamma),
                    figure(point.accepted),
                    figure(point.measured_accepted),
                    figure(point.block_efficiency, 5),
                    figure(point.speedup),
                )
                for row, point in shown
            ),
            numbers=frozenset(range(1, 6)),
            names=frozenset({0}),
            folded=True,
            left_out=left_out,
        )
    calls = [(row, entry) for row in rows for entry in row.calls]
    if calls:
        shown_calls, left_out = first(calls, MOST_ROWS)
        yield Table(
            "Tokens out after calls",
            ("verifier", "calls", "exact", "measured", "from", "to"),
            tuple(
                (
                    Cell(row.verifier),
                    Cell(str(entry.calls), entry.calls),
                    Cell("shown, not judged") if entry.exact is None else figure(entry.exact, 8),
                    *(figure(x, 6) for x in (entry.measured.mean, entry.measured.ci_low,
                                             entry.measured.ci_high)),
                )
                for row, entry in shown_calls
            ),
            numbers=frozenset(range(1, 6)),
            names=frozenset({0}),
            folded=True,
            left_out=left_out,
        )  # fmt: skip


def _real(
    run: CompareRun, decoding: Decoding, model: ModelInfo, rows: Sequence[CompareResult]
) -> Iterator[Block]:
    """Yield what there is of real models alone: the clock, rules on the same blocks, settings."""
    if (table := speedup_table(run, model.name)) is not None:
        yield table
    for words in speedup_words(run, model.name):
        yield Prose(words)
    paired = [(row.verifier, row.paired) for row in rows if row.paired is not None]
    if paired:
        yield Table(
            "E[tau] on the same drafted blocks, less another rule's",
            ("verifier", "less", "drafted blocks", "difference", "from", "to", "confidence"),
            tuple(
                (
                    Cell(verifier),
                    Cell(found.baseline),
                    Cell(f"{found.blocks:,}", found.blocks),
                    *(Cell(f"{x:+.4f}", x)
                      for x in (found.difference, found.ci_low, found.ci_high)),
                    Cell(f"{found.confidence:.1%}", found.confidence),
                )
                for verifier, found in paired
            ),
            numbers=frozenset(range(2, 7)),
            names=frozenset({0, 1}),
        )  # fmt: skip
    yield decoded_table(decoding, way(model))


def expected_cell(expected: Expected) -> Cell:
    """Return E[tau], or the middle of its bounds with how far they reach."""
    if expected.method == "counting":
        return figure(expected.upper, 8)
    if expected.method == "measured":
        return Cell("not known")
    if expected.exact is not None and expected.upper - expected.lower < 1e-5:
        return figure(expected.exact, 8)
    middle = (expected.lower + expected.upper) / 2
    if expected.lower == 0.0 and expected.method == "rao-blackwell":
        return Cell(f"0 to {expected.upper:.2g}", middle)  # its middle says nothing
    half = (expected.upper - expected.lower) / 2
    return Cell(f"{middle:.4g} \N{PLUS-MINUS SIGN} {half:.2g}", middle)
