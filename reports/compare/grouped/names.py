"""Models by name where one pair drafts in several ways: the way is never cut off."""

from collections.abc import Iterable

from simverify.reports.words import listed, shortened
from simverify.results import CompareResult, CompareRun, ModelInfo

_LONGEST_WAY = 40


def way(model: ModelInfo) -> str:
    """Return how the model's drafts were made, as its name ends; empty where they are plain."""
    found = model.drafter
    if found is None:
        return ""
    if found.layer_parallel is None:
        return shortened(found.name, _LONGEST_WAY)
    without = "" if found.calibration else ", no-calibration"
    return shortened(f"{found.name}({found.layer_parallel}{without})", _LONGEST_WAY)


def pair_name(model: ModelInfo) -> str:
    """Return the name without the way of drafting."""
    return model.name.removesuffix(way(model)).rstrip()


def model_name(model: ModelInfo, longest: int) -> str:
    """Return the name, cut at ``longest`` characters, and behind it the way of drafting."""
    return f"{shortened(pair_name(model), longest)} {way(model)}".rstrip()


def model_names(models: Iterable[ModelInfo], most: int, longest: int) -> str:
    """Return the first names, the ways of one pair behind it: deep easyspec(1), easyspec(4)."""
    ways: dict[str, list[str]] = {}
    for model in models:
        ways.setdefault(pair_name(model), []).append(way(model))
    words = [
        f"{shortened(name, longest)} {listed([way or 'plain' for way in found], most)}"
        if any(found)
        else shortened(name, longest)
        for name, found in ways.items()
    ]
    return listed(words, most, max(map(len, words), default=1))


def result_name(run: CompareRun, row: CompareResult, longest: int) -> str:
    """Return verifier and model, cut at ``longest`` characters, and the way of drafting."""
    model = next((model for model in run.models if model.name == row.model), None)
    if model is None or model.drafter is None:
        return shortened(f"{row.verifier} on {row.model}", longest)
    return f"{shortened(f'{row.verifier} on {pair_name(model)}', longest)} {way(model)}"
