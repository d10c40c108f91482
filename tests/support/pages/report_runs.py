"""Documents for the tests of reports: the committed examples, and hostile ones."""

import json
from pathlib import Path

import msgspec
from msgspec.structs import replace

from simverify.results import Bounds, Decoding, Latency, Paired
from simverify.results.reading import read_document
from simverify.results.registry import document_type

FOLDER = Path(__file__).parents[3] / "reports" / "examples"

HOSTILE = (
    "<script>alert(1)</script>\x1b[31m\u202e\u0000\"'`|*_[x](http://a.example) @octo ]]> ${{x}}"
)


def example(name):
    return read_document(FOLDER / name / "run.json")


def compare_run(models=1, verifiers=4, name="model {}"):
    """A comparison of so many models, each a copy of the one whose contexts do not repeat."""
    run = msgspec.to_builtins(example("compare"))
    rows = [row for row in run["results"] if row["model"] == "markov-2048"][:verifiers]
    info = next(model for model in run["models"] if model["name"] == "markov-2048")
    names = [name.format(i) for i in range(models)]
    run["models"] = [info | {"name": model} for model in names]
    run["results"] = [row | {"model": model} for model in names for row in rows]
    run["meta"]["timings"] = [
        {"model": model, "verifier": row["verifier"], "blocks_per_second": 1.0}
        for model in names
        for row in rows
    ]
    return msgspec.convert(run, document_type())


def real_run(trace=False):
    """A comparison on real models: token, block and greedy, timed unless on a trace."""
    run = compare_run(1, 3, "little {}")
    at = {"token": (0.5, 1.5, 2.75), "block": (0.625, 1.75, 2.25), "greedy": (0.75, 1.625, 2.0)}

    def real(row):
        interval = replace(row.expected_accepted, exact=None, lower=1.0, upper=1.5,
                           method="rao-blackwell", confidence=0.999)  # fmt: skip
        paired = Paired(baseline="token", difference=0.25, ci_low=0.125, ci_high=0.375,
                        confidence=0.999, blocks=938)  # fmt: skip
        lossless = replace(row.lossless, tier="output", exact=None, tv=None,
                           max_abs_deviation=None, pits=())  # fmt: skip
        return replace(row, expected_accepted=interval, lossless=lossless,
                       paired=None if row.verifier == "token" else paired)  # fmt: skip

    results = tuple(map(real, run.results))
    bounds = Bounds(coupling=results[2].expected_accepted,
                    blocks_of="trace" if trace else "greedy")  # fmt: skip
    latencies = tuple(
        Latency(
            model="little 0", verifier=name, plain=1e-3, speculative=1e-3 / measured,
            draft=0.25e-3 / measured, score=0.5e-3 / measured, verify=0.25e-3 / measured,
            cost_ratio=0.0625, predicted=predicted, measured=measured, block_cost=cost,
        )
        for name, (measured, predicted, cost) in at.items()
    )  # fmt: skip
    return replace(
        run,
        results=results,
        models=(replace(run.models[0], bounds=bounds),),
        decoding=Decoding(
            target="big", draft="small", prompts="prompts.jsonl", prompts_sha256="ab12",
            tokens=2016, lanes=32, request_tokens=128, temperature=0.75, top_k=40, top_p=0.95,
            device="cuda", dtype="bfloat16", trace="recording" if trace else None,
            trace_sha256="cd34" if trace else None,
        ),
        meta=replace(run.meta, latencies=() if trace else latencies),
    )  # fmt: skip


def hostile_runs():
    """Both kinds of documents, with every text in them hostile."""
    for name in ("compare", "faulty-block"):
        run = json.loads((FOLDER / name / "run.json").read_text())
        yield msgspec.convert(spoilt(run), document_type())
    audit = msgspec.to_builtins(example("faulty-block"))
    audit["spec"] += HOSTILE
    audit["notes"] = [HOSTILE + "x" * 10_000_000] * 2
    audit["findings"] = [{"kind": "law", "text": HOSTILE}] * 500
    yield msgspec.convert(audit, document_type())


_FREE = {"spec", "name", "model", "verifier", "message", "words", "deviation", "method", "scope",
         "assumption", "fault", "why", "machine", "started", "version", "order", "reproduce",
         "not_enumerable", "inconclusive", "test", "measure", "dtype", "text"}  # fmt: skip
_LISTS = {"findings", "notes", "refuted", "not_refuted"}
_CHOSEN = {"enumeration", "closed-form", "dp", "rao-blackwell", "paths", "tree law", "block",
           "coupling"}  # fmt: skip


def spoilt(value, key=""):
    """``value`` with hostile words after every text that may be any text."""
    if isinstance(value, dict):
        return {k: spoilt(v, k) for k, v in value.items()}
    if isinstance(value, list):
        return [
            HOSTILE + v if key in _LISTS and isinstance(v, str) else spoilt(v, key) for v in value
        ]
    if isinstance(value, str) and key in _FREE and value not in _CHOSEN:
        return value + HOSTILE
    return value
