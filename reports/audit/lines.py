"""The lines of code that a failure may come from, in words."""

from collections.abc import Iterable, Iterator, Sequence

from simverify.reports.words import listed
from simverify.results import Finding, Localisation

MOST = 12
"""Lines that an audit names behind the one that decides, or that raised."""

_FEW = 3
"""Lines that there is room for in a title or a cell."""

_FIRST = "likeliest mistake first"


def decided_words(place: Localisation | None) -> str:
    """Return the lines where the deviating token is decided, and those its numbers come from.

    "" where none is known.
    """
    if place is None or not place.lines:
        return ""
    that = "That token" if place.alone else "No line decides that token alone; the output up to it"
    places = listed(map(_name, place.lines))
    return " ".join(filter(None, [f"{that} is decided at {places}.", source_words(place)]))


def source_words(place: Localisation) -> str:
    """Return the lines that what decides a token gets its numbers from; "" where none is known."""
    if not place.sources:
        return ""
    return f"Its numbers come from, {_FIRST}, {_compact(place.sources, MOST)}."


def finding_words(found: Finding) -> str:
    """Return what failed, and of code that raised the lines behind the one that did."""
    behind = raised_words(found)
    return f"{found.text}. {behind}" if behind else found.text


def raised_words(found: Finding) -> str:
    """Return the lines that what the code raised on comes from; "" where none is known."""
    if not found.sources:
        return ""
    return f"What it raised on comes from, {_FIRST}, {_compact(found.sources, MOST)}."


def briefly(findings: Sequence[Finding], place: Localisation | None) -> str:
    """Return where a failure is decided, or where the code raised, and the best guesses behind it.

    The lines of a constant seed come first, by which draws are decided already. "" where no line is
    known.
    """
    seeds = [found.line for found in findings if found.broke == "constant-seed" and found.line]
    words = [f"seeds at {_compact(dict.fromkeys(seeds), _FEW)}"] if seeds else []
    if place is not None and place.lines:
        words.append(f"decided at {_compact(place.lines, _FEW)}")
        if place.sources:
            words.append(f"its numbers come from {_compact(place.sources, _FEW)}")
    elif not seeds and (found := _raised(findings)) is not None and found.line:
        calls = f", called at {_compact(found.callers, _FEW)}" if found.callers else ""
        how = "raised" if "raised" in found.text else "found"
        words.append(f"{how} at {_compact([found.line], 1)}{calls}")
        if found.sources:
            words.append(f"what it raised on comes from {_compact(found.sources, _FEW)}")
    return "; ".join(words)


def likeliest(findings: Sequence[Finding], place: Localisation | None) -> Iterator[str]:
    """Yield the lines of :func:`briefly` and all behind them, the likeliest first."""
    yield from (found.line for found in findings if found.broke == "constant-seed" and found.line)
    if place is not None:
        yield from place.lines
        yield from place.sources or ()
    if (found := _raised(findings)) is not None and found.line:
        yield found.line
        yield from found.callers or ()
        yield from found.sources or ()


def _raised(findings: Sequence[Finding]) -> Finding | None:
    """Return the finding with a line of which most is known."""
    lines = [found for found in findings if found.line]
    return max(lines, key=lambda x: (bool(x.sources), bool(x.callers)), default=None)


def _compact(lines: Iterable[str], most: int) -> str:
    """Return the first lines, of lines of one file in a row its name once."""
    words: list[str] = []
    last = ""
    for line in lines:
        file, _, number = _name(line).rpartition(":")
        words.append(number if file == last else f"{file}:{number}")
        last = file
    return listed(words, most)


def _name(line: str) -> str:
    return line.rpartition("/")[2]
