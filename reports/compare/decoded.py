"""How tokens of real models came about, in words that the terminal and the reports share."""

from simverify.reports.view import Cell, Table
from simverify.results import CompareRun, Decoding, Drafter


def law_words(temperature: float, top_k: int | None, top_p: float | None) -> str:
    """Return what shapes the rows that are sampled and tested."""
    words = [f"temperature {temperature:g}"]
    words += [] if top_k is None else [f"top-k {top_k}"]
    words += [] if top_p is None else [f"top-p {top_p:g}"]
    return ", ".join(words)


def decoded_line(found: Decoding) -> str:
    """Return how the blocks were made, without their models and prompts."""
    made = "decoded" if found.trace is None else "recorded"
    return f"{made} at {_law(found)}, {found.dtype} on {found.device}, {_requests(found)}"


def decoded_table(found: Decoding, drafter: str) -> Table:
    """Return all that is known of how the blocks were made; ``drafter``: empty where plain."""
    prompts = found.prompts or "bundled, or texts from Python"
    whose = "each verifier" if found.trace is None else "the recording, by token verification"
    rows = [
        ("target", found.target),
        ("draft", found.draft or "none: texts alone"),
        *([("drafter", drafter)] if drafter else []),
        ("sampling", _law(found)),
        ("computed in", f"{found.dtype} on {found.device}"),
        ("prompts", f"{prompts}, sha256 {found.prompts_sha256}"),
        ("tokens", f"{found.tokens:,} of {whose}, {_requests(found)}"),
    ]
    if found.drafter is not None:
        rows.insert(2, ("drafter", _drafter(found.drafter)))
    if found.trace is not None:
        rows.append(("trace", f"{found.trace}, sha256 {found.trace_sha256}"))
    return Table(
        "How it was decoded" if found.trace is None else "How the blocks were recorded",
        ("what", "value"),
        tuple((Cell(name), Cell(value)) for name, value in rows),
    )


def rests_on(found: Decoding) -> str:
    """Return what verdicts on real models rest on."""
    emitted = (
        "tokens that each verifier emitted while it decoded"
        if found.trace is None
        else "tokens that each verifier emitted on the recorded blocks"
    )
    return f"tests of the {emitted}, each token against its own target row"


def optimum_words(run: CompareRun) -> str:
    """Return on which blocks E[tau] and its optimum were taken; empty for simulated models."""
    if run.decoding is None:
        return ""
    whose = "each verifier's own" if run.decoding.trace is None else "the recorded"
    words = f"E[tau] and its optimum are of {whose} blocks."
    stateful = dict.fromkeys(row.verifier for row in run.results if row.optimum.name == "coupling")
    if stateful:
        words += (
            f" For {', '.join(stateful)} they are of first calls, which attain the bound; measured "
            "and block efficiency are of whole generations, in which its debt is paid."
        )
    return words


def _drafter(found: Drafter) -> str:
    if found.layer_parallel is None:
        return found.name
    mended = "with" if found.calibration else "without"
    return f"{found.name}, {found.layer_parallel} layers a group, {mended} calibration"


def _law(found: Decoding) -> str:
    return law_words(found.temperature, found.top_k, found.top_p)


def _requests(found: Decoding) -> str:
    return f"{found.lanes} requests side by side, of {found.request_tokens:,} tokens at most"
