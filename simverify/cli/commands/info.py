"""Commands that only tell: verifiers, models, faults, engines, schema."""

import sys

from simverify.cli.common import print_entries
from simverify.cli.streams import say_error


def verifiers() -> int:
    """List the built-in verifiers, and the rules for draft trees."""
    from simverify.verifiers import VERIFIERS
    from simverify.verifiers.trees import TREE_VERIFIERS

    print_entries(
        (f"{v.name} ({v.contract} contract)", (v.summary, v.citation)) for v in VERIFIERS.values()
    )
    print_entries(
        (
            f"{v.name} (tree contract, {v.needs})",
            (v.summary, f"lossless on {', '.join(v.schemes)}", v.citation),
        )
        for v in TREE_VERIFIERS.values()
        if v.name not in VERIFIERS
    )
    return 0


def models() -> int:
    """List the built-in models; trains ngram if it is not in the cache yet."""
    from simverify.models import BUILT_IN, REAL
    from simverify.models.ngram import load_ngram

    ngram = load_ngram(announce=say_error)
    trained = (
        f"held-out perplexity per byte {ngram.target_perplexity:.2f} target, "
        f"{ngram.draft_perplexity:.2f} draft",
        f"corpus sha256 {ngram.corpus_sha256}",
    )
    print_entries(
        (name, (summary, *(trained if name == "ngram" else ())))
        for name, summary in BUILT_IN.items()
    )
    print_entries((name, (f"{summary}; compare takes it alone",)) for name, summary in REAL.items())
    print_entries([("FILE", ("your own pair, .json or .npz: see the README",))])
    return 0


def faults() -> int:
    """List the catalogue of faulty verifiers, and of correct ones that look faulty."""
    from simverify.faults import CONTROLS, FAULTS

    print("Faults, each with where it was seen:\n")
    print_entries(
        (f"{f.name} ({f.contract} contract{f', {f.scheme}' if f.scheme else ''})",
         (f.summary, f.seen_in))
        for f in FAULTS.values()
    )  # fmt: skip
    print("\nMust pass, each with why it is right:\n")
    print_entries(
        (f"{c.name} ({c.contract} contract)", (c.summary, c.why)) for c in CONTROLS.values()
    )
    return 0


def engines() -> int:
    """List the engines whose functions can be audited, and what of them is installed."""
    from simverify.engines import installed_engines, unloaded_engine

    for row in installed_engines():
        state = f"{row.version} installed" if row.version else "not installed"
        if row.version and row.missing:
            state += f", needs {', '.join(row.missing)}"
        engine = unloaded_engine(row.name)
        if row.version and engine.versions:
            state += f", adapter for {engine.versions}"
        source = (f"sha256 {row.sha256}",) if row.sha256 else (f"get it by: {engine.how_to_get}",)
        function = row.function.replace(":", ": ")  # where a long line may break
        print_entries([(row.name, (function, f"{state}; tier: {row.tier}", *source))])
    return 0


def schema() -> int:
    """Print the JSON Schema of the result document."""
    from simverify.results.reading.schema import shipped_schema

    sys.stdout.write(shipped_schema())
    return 0
