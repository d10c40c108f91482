"""Which prompts two servers are asked, how often: all are tried, a few are asked often.

What is asked next depends on how answers begin, of both engines together, and on nothing that a
swap of a pair would change: all error rates stay those of the swaps.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from simverify.emitted.against.answers import Answer, answer_iv, paired
from simverify.emitted.against.asking import AskedBoth, ask_both, beside
from simverify.emitted.against.beginnings import collisions, counted, most_asked
from simverify.emitted.against.settings import OFTEN, TRIED, TRIES, AgainstSettings
from simverify.emitted.reading.chat import Prompt
from simverify.emitted.reading.requests import read_objects
from simverify.emitted.serving.server import Endpoint
from simverify.errors import UsageError
from simverify.models.real.sampling import Sampling

_ALIKE = 0.9
"""Share of pairs of answers that begin alike: a prompt with more tells little."""


@dataclass(frozen=True)
class Rounds:
    """Answers of two servers, and the pairs that were asked for in all."""

    asked: AskedBoth
    planned: int


def ask_in_rounds(
    endpoints: tuple[Endpoint, Endpoint],
    prompts: Sequence[Prompt],
    law: Sampling,
    settings: AgainstSettings,
    *,
    concurrency: int | None = None,
    keep: Path | None = None,
    say: Callable[[str], None],
) -> Rounds:
    """Ask two servers until the deviation of ``settings`` would be found, or the plan ends.

    With ``repeats`` each prompt is asked as often. Without, up to 64 prompts are tried; of those
    that are not answered in one way alone, the eight that are answered in the fewest ways are
    asked as often as is planned, and once more if that was too little.

    Raises
    ------
    UsageError
        As :func:`ask_both`.
    """

    def ask(schedule: Sequence[Prompt], before: AskedBoth | None) -> AskedBoth:
        return ask_both(
            endpoints, schedule, law, seed=settings.seed, concurrency=concurrency, keep=keep,
            before=before, progress=say,
        )  # fmt: skip

    return in_rounds(prompts, settings, ask, _kept(keep), say)


def in_rounds(
    prompts: Sequence[Prompt],
    settings: AgainstSettings,
    ask: Callable[[Sequence[Prompt], AskedBoth | None], AskedBoth],
    kept: tuple[tuple[Answer, ...], tuple[Answer, ...]] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Rounds:
    """Call ``ask`` with longer and longer schedules of prompts, and the answers before.

    ``kept``: answers of an earlier run, which say how far it had come.
    """
    if settings.repeats is not None:
        schedule = list(prompts) * settings.repeats
    else:
        count = min(len(prompts), TRIED)
        schedule = [prompts[i * len(prompts) // count] for i in range(count)] * TRIES
    while kept is not None and min(map(len, kept)) >= len(schedule):
        size = len(schedule)
        own = AskedBoth(kept[0][:size], kept[1][:size], ())
        longer = _longer(own, schedule, settings, lambda _: None)
        if longer is None:
            break
        schedule = longer
    asked = ask(schedule, None)
    while (longer := _longer(asked, schedule, settings, say)) is not None:
        schedule = longer
        asked = ask(schedule, asked)
    return Rounds(asked, len(schedule))


def _longer(
    asked: AskedBoth,
    schedule: list[Prompt],
    settings: AgainstSettings,
    say: Callable[[str], None],
) -> list[Prompt] | None:
    """Return the schedule with what is asked next behind it; None if nothing is."""
    if settings.repeats is not None:
        return None
    pairs = paired(asked.first, asked.second)
    names = dict(zip((answer.prompt for answer in asked.first), schedule, strict=False))
    largest = max(map(len, pairs.groups))
    if largest <= TRIES:
        shared = {
            prompt: collisions(group)
            for prompt, group in zip(pairs.prompts, pairs.groups, strict=True)
        }
        able = sorted((p for p in shared if shared[p] < _ALIKE), key=lambda p: -shared[p])
        often = [names[prompt] for prompt in able[:OFTEN]]
        if not often:
            return None
        repeats = settings.planned(len(often))
        if repeats <= TRIES:
            return None
        say(f"{len(often)} of {len(shared):,} prompts are asked {repeats:,} times: "
            f"their answers begin in the fewest ways that are several")  # fmt: skip
        return schedule + often * (repeats - TRIES)
    most = most_asked(pairs)
    often = [
        names[prompt]
        for prompt, group in zip(pairs.prompts, pairs.groups, strict=True)
        if 2 * len(group) >= largest
    ]
    found = counted(most).detectable(settings.shares()["counts"])
    wanted = settings.more(largest, found, len(often))
    if wanted is None:
        return None
    say(f"answers begin in more ways than planned, TV {found:.2g} would be found: the "
        f"{len(often)} prompts are asked {wanted:,} times in all")  # fmt: skip
    return schedule + often * (wanted - largest)


def _kept(keep: Path | None) -> tuple[tuple[Answer, ...], tuple[Answer, ...]] | None:
    """Return what lies in the files of an earlier run, as far as it can be read.

    What cannot be is told where the files are gone on with.
    """
    if keep is None or not (keep.is_file() and beside(keep).is_file()):
        return None
    sides = []
    for path in (keep, beside(keep)):
        own: list[Answer] = []
        with suppress(UsageError, OSError):
            whole = path.read_bytes().rfind(b"\n") + 1
            for at, value in read_objects(path, "keep", whole):
                own.append(answer_iv(value, at))
        sides.append(tuple(own))
    return sides[0], sides[1]
