"""What a comparison on real models adds to its table: pairs of rules, acceptance, time."""

from collections.abc import Iterator, Sequence

from simverify.results import CompareResult, CompareRun


def pair_lines(run: CompareRun, rows: Sequence[CompareResult]) -> Iterator[str]:
    """Yield lines of text; none for a simulated model."""
    for row in rows:
        if (paired := row.paired) is not None:
            half = (paired.ci_high - paired.ci_low) / 2
            yield (
                f"on the {paired.blocks:,} drafted blocks of {paired.baseline}, E[tau] of "
                f"{row.verifier} less {paired.baseline}'s: {paired.difference:+.4f}"
                f"\N{PLUS-MINUS SIGN}{half:.4f}"
            )
    if any(row.lossless.tier == "output" for row in rows):
        for row in rows:
            kept = " ".join(f"{share:.2f}" for share in row.acceptance_ccdf.measured)
            yield f"{row.verifier} keeps l tokens or more, l = 1 to {run.gamma}: {kept}"
    for found in run.meta.latencies:
        if found.model == rows[0].model:
            parts = (found.draft, found.score, found.verify)
            shares = ", ".join(
                f"{name} {part / found.speculative:.0%}"
                for name, part in zip(("draft", "target", "verifier"), parts, strict=True)
            )
            yield (
                f"{found.verifier}: {_time(found.speculative)} a token, {_time(found.plain)} "
                f"without a draft: {found.measured:.2f}x ({shares}). The latency model says "
                f"{found.predicted:.2f}x at the measured cost ratio {found.cost_ratio:.2f}, if a "
                f"target call on {run.gamma + 1} tokens takes as long as one on one; it took "
                f"{found.block_cost:.1f} times as long"
            )


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.0f} us"
