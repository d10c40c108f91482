"""What a watch says: the numbers of now, and the document of a life."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import UNSET

from simverify import results as doc
from simverify.emitted.watching.asking import Asker
from simverify.emitted.watching.canary import POWER, Canary, WatchSettings
from simverify.emitted.watching.metrics import Metric
from simverify.emitted.watching.state import State
from simverify.models.real.transformer import TransformerPair


@dataclass(frozen=True)
class Watched:
    """What is watched, and how.

    ``log``: the file that is read; ``asker``: what writes it, None of a log of others. ``once``:
    end where the log ends; ``stay``: go on after an alarm. ``every``: seconds between looks or
    requests.
    """

    name: str
    log: Path
    folder: Path
    reproduce: str
    asker: Asker | None = None
    once: bool = False
    stay: bool = False
    every: float = 1.0


def metrics_of(
    watched: Watched, state: State, settings: WatchSettings, proxy: bool, seen: float
) -> list[Metric]:
    """Return the numbers of now; ``seen``: when the last line was read, seconds since 1970."""
    canary, asker = state.canary, watched.asker
    delay = settings.delay(
        0 if canary is None else canary.tokens,
        proxy,
        {} if canary is None else canary.balls,
    )
    return [
        Metric("alarm", "1 from an alarm on.", float(bool(canary and canary.alarm))),
        Metric("log_evalue", "Logarithm of the e-value now.",
               canary.log_evalue if canary else 0.0),
        Metric("log_evalue_highest", "The largest there ever was.",
               canary.highest if canary else 0.0),
        Metric("log_evalue_alarm", "The value at which the alarm is raised, ln(1 / alpha).",
               settings.hurdle),
        Metric("delay_tokens", f"Tokens within which a TV of {settings.detect:g} from now "
               f"on is told, with probability {POWER:g}.", delay),
        Metric("tokens", "Tokens judged.", canary.tokens if canary else 0, True),
        Metric("requests", "Requests judged.", canary.requests if canary else 0, True),
        Metric("unsupported", "Tokens that truncation cuts off, beyond the margin.",
               canary.unsupported if canary else 0, True),
        Metric("unread", "Lines that could not be judged.", state.unread, True),
        Metric("log_restarts", "Times that the log was rotated, cut or replaced.",
               state.place.restarts, True),
        Metric("server_up", "Whether the server, or the log, is there.",
               float(asker.up if asker else watched.log.exists())),
        Metric("last_read_seconds", "When the last line was read, seconds since 1970.",
               seen),
    ]  # fmt: skip


def document_of(
    watched: Watched, state: State, settings: WatchSettings, pair: TransformerPair, proxy: bool,
    meta: doc.Meta,
) -> doc.WatchRun:  # fmt: skip
    """Return what was seen in all of a life."""
    canary = state.canary or Canary(settings, proxy)
    afters = sorted({0, canary.tokens, 1_000_000})
    delays = [settings.delay(n, proxy, canary.balls) for n in afters]
    why = _short(canary.tokens, delays[0])
    if watched.asker is None and not watched.log.exists():
        why = f"{watched.log} is not there: {why}"
    enough = canary.tokens >= delays[0]
    verdict: doc.Verdict = "FAIL" if canary.alarm else "PASS" if enough else "INCONCLUSIVE"
    return doc.WatchRun(
        schema_version=doc.SCHEMA_VERSION,
        source=watched.name,
        endpoint=watched.asker is not None,
        target=pair.target_name,
        draft=pair.draft_name if proxy else None,
        state=str(watched.folder),
        device=str(pair.target_model.device),
        dtype=str(pair.target_model.dtype).removeprefix("torch."),
        temperature=pair.sampling.temperature,
        top_k=pair.sampling.top_k,
        top_p=pair.sampling.top_p,
        requests=canary.requests,
        tokens=canary.tokens,
        unread=state.unread,
        text_alone=state.text_alone,
        restarts=state.place.restarts,
        alpha=settings.alpha,
        detect=settings.detect,
        power=POWER,
        balls=canary.balls,
        delays=tuple(
            doc.WatchDelay(after=n, tokens=None if x == float("inf") else x)
            for n, x in zip(afters, delays, strict=True)
        ),
        log_evalue=canary.log_evalue,
        highest=canary.highest,
        highest_at=canary.highest_at,
        weights=settings.weights or UNSET,
        hurdle=settings.hurdle,
        near=canary.near,
        unsupported=canary.unsupported,
        alarm=canary.alarm,
        alarm_at=canary.alarm_at,
        seed=settings.seed,
        verdict=verdict,
        findings=(canary.alarm,) if canary.alarm else (),
        inconclusive=None if verdict != "INCONCLUSIVE" else why,
        notes=tuple(_notes(state)),
        reproduce=watched.reproduce,
        meta=meta,
    )


def _short(tokens: int, delay: float) -> str:
    if delay == float("inf"):
        return f"{tokens:,} tokens are there, and no number tells that deviation: rounding hides it"
    return f"{tokens:,} tokens are there: that deviation is told within {delay:,.0f}"


def _notes(state: State) -> list[str]:
    found = []
    if state.unread:
        alone = f", {state.text_alone:,} of them for want of token ids" if state.text_alone else ""
        found.append(
            f"{state.unread:,} lines could not be judged{alone}: were they left out for what they "
            f"say, the alarm rate does not hold"
        )
    if state.place.restarts:
        found.append(
            f"the log was rotated, cut or replaced {state.place.restarts:,} times: what was lost "
            f"between was not judged"
        )
    return found


def key_of(
    pair: TransformerPair, settings: WatchSettings, source: str, proxy: bool
) -> dict[str, Any]:
    """Return what a state is of: another target, law, precision or rate is another life."""
    law = pair.sampling
    return {
        "source": source, "target": pair.target_name, "draft": pair.draft_name if proxy else None,
        "vocabulary": pair.vocab_size, "dtype": str(pair.target_model.dtype),
        "temperature": law.temperature, "top_k": law.top_k, "top_p": law.top_p,
        "alpha": settings.alpha, "seed": settings.seed,
        **({"weights": settings.weights} if settings.weights else {}),
    }  # fmt: skip
