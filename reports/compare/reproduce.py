"""The command that makes a comparison's document again."""

import shlex
from collections.abc import Iterator

from simverify.reports.view import Block, Command, Prose
from simverify.reports.words import listed
from simverify.results import CompareRun, Decoding, DraftTrees, ModelInfo
from simverify.trees import TreeShape

TREE_FILE = "tree.json"


def reproduce_blocks(run: CompareRun) -> Iterator[Block]:
    """Yield the command with what it needs, or why there is none."""
    if run.decoding is not None:
        yield from _decoding_blocks(run, run.decoding)
        return
    unnamed = [model.name for model in run.models if not _nameable(model)]
    if unnamed:
        yield Prose(
            f"No command line gives this run again: it was made in Python, by simverify.compare, "
            f"with models that no name or plain path leads to: {listed(unnamed)}."
        )
        return
    yield Command(compare_command(run))
    yield from _tree_file(run)
    for model in run.models:
        if model.file_sha256 is not None:
            yield Prose(
                f"It reads the file {model.given}: the same file has sha256 {model.file_sha256}."
            )
        if model.corpus_sha256 is not None:
            yield Prose(
                f"{model.name} is trained on this Python's own text; another Python's gives other "
                f"numbers. The same text has sha256 {model.corpus_sha256}."
            )
    yield Prose("It gives the same document, whatever the threads, but for the object meta.")


def _decoding_blocks(run: CompareRun, found: Decoding) -> Iterator[Block]:
    """The command of a run on real models; the length of its requests is the default."""
    if found.trace is not None:
        yield from _trace_blocks(run, found)
        return
    bundled = found.target == "tiny-llama"
    if found.prompts is None and not bundled:
        yield Prose("No command line gives this run again: its prompts were given in Python.")
        return
    drafters = [model.drafter for model in run.models]
    if len({one and (one.name, one.calibration) for one in drafters}) > 1:
        yield Prose("No command line gives this run again: its drafters were mixed in Python.")
        return
    options = {
        "--gamma": str(run.gamma),
        **_trees(run),
        "--target": found.target,
        "--draft": found.draft,
        **_drafter(run),
        "--prompts": found.prompts or "",
        "--verifiers": ",".join(dict.fromkeys(row.verifier for row in run.results)),
        "--tokens": _tokens(run, found),
        "--lanes": str(found.lanes),
        "--temperature": _number(found.temperature),
        "--top-k": "" if found.top_k is None else str(found.top_k),
        "--top-p": _number(found.top_p),
        "--device": found.device,
        "--dtype": found.dtype,
        "--cost-ratio": _number(run.results[0].speedup.cost_ratio),
        "--alpha": _number(run.alpha),
        "--detect": _number(run.detect),
        "--seed": str(run.seed),
    }
    words = [word for name, value in options.items() if value for word in _words(name, value)]
    if any(one and one.calibration is False for one in drafters):
        words.append("--no-calibration")
    yield Command(shlex.join(["simverify", "compare", *words]))
    yield from _tree_file(run)
    yield Prose(
        f"The prompts together have sha256 {found.prompts_sha256}. Another machine or torch may "
        f"round logits otherwise and emit other tokens; the verdict stands on those that it does."
    )


def _trace_blocks(run: CompareRun, found: Decoding) -> Iterator[Block]:
    """The command of a run on a trace."""
    options = {
        "--trace": found.trace or "",
        "--verifiers": ",".join(row.verifier for row in run.results),
        "--cost-ratio": _number(run.results[0].speedup.cost_ratio),
        "--alpha": _number(run.alpha),
        "--detect": _number(run.detect),
        "--seed": str(run.seed),
    }
    words = [word for name, value in options.items() for word in _words(name, value)]
    yield Command(shlex.join(["simverify", "compare", *words]))
    yield Prose(
        f"The trace has sha256 {found.trace_sha256}; it gives the same document, but for the "
        f"object meta."
    )


def _drafter(run: CompareRun) -> dict[str, str]:
    """Return the options of a drafter, the same but for the layers a group on all models."""
    drafters = [model.drafter for model in run.models if model.drafter is not None]
    if not drafters:
        return {}
    numbers = [str(one.layer_parallel) for one in drafters if one.layer_parallel is not None]
    return {"--drafter": drafters[0].name, "--layer-parallel": ",".join(numbers)}


def _tokens(run: CompareRun, found: Decoding) -> str:
    """Return how many tokens were asked for; nothing where that was left to the default.

    Acceptance by tree width then has a number of its own, a fifth or less of the verifiers'; else
    it has theirs.
    """
    studied = [one for entry in run.layer_parallel for one in entry.acceptance]
    if studied:
        emitted = studied[0].blocks * (1.0 + studied[0].expected_accepted.upper)
        if emitted < found.tokens / 2:
            return ""
    return str(found.tokens)


def _tree_file(run: CompareRun) -> Iterator[Block]:
    if run.drafting is not None and _levels(run.drafting) == TREE_FILE:
        parents = ", ".join(map(str, run.drafting.parents))
        yield Prose(f'{TREE_FILE} is a file that holds {{"parents": [{parents}]}}.')


def _trees(run: CompareRun) -> dict[str, str]:
    """Return the options of draft trees."""
    if run.drafting is None:
        return {}
    return {"--tree": _levels(run.drafting), "--scheme": run.drafting.scheme}


def compare_command(run: CompareRun) -> str:
    """Return the command line of a run all of whose models have names."""
    knobs = [model for model in run.models if model.temperature is not None]
    load = run.results[0].speedup
    options = {
        "--gamma": str(run.gamma),
        **_trees(run),
        "--verifiers": ",".join(dict.fromkeys(row.verifier for row in run.results)),
        "--models": ",".join(model.given or "" for model in run.models),
        "--blocks": "" if run.blocks is None else str(run.blocks),
        "--calls": str(max(len(row.calls) for row in run.results)) if not run.drafting else "",
        "--eos": "" if run.eos is None else str(run.eos),
        "--cost-ratio": _number(load.cost_ratio),
        "--batch-size": str(load.batch_size) if load.batch_size > 1 else "",
        "--free-rows": _number(load.free_rows),
        "--draft-distance": _number(knobs[0].draft_distance) if knobs else "",
        "--temperature": _number(knobs[0].temperature) if knobs else "",
        "--alpha": _number(run.alpha),
        "--detect": _number(run.detect),
        "--seed": str(run.seed),
    }
    words = [word for name, value in options.items() if value for word in _words(name, value)]
    return shlex.join(["simverify", "compare", *words])


def _levels(found: DraftTrees) -> str:
    """Return children per level where that says the tree, or the name of a file to write."""
    words = TreeShape(found.parents).words()
    levels = words.removesuffix(" children per level")
    return levels if levels != words else TREE_FILE


def _words(name: str, value: str) -> list[str]:
    # A path that begins with a hyphen would be taken for an option.
    return [f"{name}={value}"] if value.startswith("-") else [name, value]


def _nameable(model: ModelInfo) -> bool:
    """Whether ``--models``, whose names are split at commas and stripped, can name the model."""
    given = model.given or ""
    return given != "" and given == given.strip() and "," not in given and given.isprintable()


def _number(value: float | None) -> str:
    """The shorter of two ways to write a number that give it back to the last bit."""
    if value is None:
        return ""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)
