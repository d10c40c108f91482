"""The monitor behind a watch: bets on tokens that never end, the log that it follows, its state."""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any, Self

import numpy as np

from simverify import stats
from simverify.arrays import Floats
from simverify.errors import UsageError
from simverify.folders import Lock
from simverify.models.rounding import WEIGHT_FORMATS
from simverify.models.transformer import TransformerPair
from simverify.results.reading import write_whole
from simverify.served.answer_faults import describe_faults
from simverify.served.evidence import format_ratios, order_keys, order_names, pit_draws
from simverify.served.judge import MIN_TOLERANCE, ROUNDING_TOKENS, measure_rounding
from simverify.served.requests import check_settings
from simverify.served.rescore import (
    LOGIT_MARGIN,
    ScoredRequest,
    dtype_name,
    rounded_weight_logits,
    tv_distances,
)

# Bets that the server's weights were rounded to few bits: on some requests, all the time.
#
# Rounded weights move a row up in one context and down in the next, which no order of the tokens
# shows. So one request in so many is scored with each format as well, and its tokens are bet on by
# the ratios of the two distributions.


MIX_STRENGTHS = (0.3, 0.9)  # of the rounded weights' distribution in a mixture with the target's
MAX_RATIO = 8.0  # larger ratios count as this, so that an error of the rows has a bounded price


def log_factors(ratios: Floats) -> Floats:
    """Return logarithms of the factors of a format's bets, float64 (2, n), by its ratios (n,)."""
    won = np.minimum(ratios, MAX_RATIO) - 1.0
    return np.stack([np.log1p(share * won) for share in MIX_STRENGTHS])


def _wealth_json(bets: stats.LastingBets) -> list[float | None]:
    return [float(x) if math.isfinite(x) else None for x in bets.log_wealth]


def _read_bets(value: Mapping[str, Any], most: float, like: stats.LastingBets) -> Any:
    """Return bets as ``like``, over ``most`` tokens at most; ``ValueError`` for others."""
    values = np.array([-np.inf if x is None else float(x) for x in value["log_wealth"]])
    tokens = value["tokens"]
    if values.shape != like.log_wealth.shape or np.isnan(values).any():
        raise ValueError(f"{len(values)} bets")
    if type(tokens) is not int or not 0 <= tokens <= most:
        raise ValueError(f"{tokens} tokens")
    return stats.LastingBets(log_wealth=values, n=tokens)


class FormatBets:
    """Bets on one request in ``every``, for the life of a watch."""

    def __init__(self, every: int) -> None:
        self.every = every
        self.bets = tuple((name, share) for name in WEIGHT_FORMATS for share in MIX_STRENGTHS)
        self.lasting = stats.LastingBets.begin(len(self.bets))

    def wanted(self, number: int) -> bool:
        """Whether the request of this number is bet on, which is known before it is read."""
        return number % self.every == 0

    def factors(self, chosen: Sequence[ScoredRequest], pair: TransformerPair) -> list[Floats]:
        """Return logarithms of the factors of requests, float64 (B, n) each.

        They are scored together: rounding the weights takes longer than computing with them. The
        factor is 1 if weights so rounded overflow, and for a token that the target cuts off.
        """
        factors: list[list[Floats]] = [[] for _ in chosen]
        requests = [one.request for one in chosen]
        for name, rounding in WEIGHT_FORMATS.items():
            logits = rounded_weight_logits(pair, requests, {name: rounding})[name]
            for parts, one, x in zip(factors, chosen, logits, strict=True):
                ratios = np.ones(len(x))
                if np.isfinite(x).all():
                    ratios = format_ratios(one, x, pair)[2][0]
                parts.append(log_factors(np.where(np.isfinite(ratios), ratios, 1.0)))
        return [np.concatenate(parts) for parts in factors]

    def add(self, log_factors: Floats, ball: float) -> Floats:
        """Bet, rows being off by TV ``ball`` on average; return the log mean after each token."""
        price = np.log1p(ball * MAX_RATIO * np.array([share for _, share in self.bets]))
        return self.lasting.add(log_factors - price[:, None])

    def leading(self) -> str:
        """Return the format that is worth most: a diagnosis, without an error rate."""
        return self.bets[int(self.lasting.log_wealth.argmax())][0]

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as JSON has it."""
        names, wealth = [name for name, _ in self.bets], _wealth_json(self.lasting)
        return {"formats": names, "log_wealth": wealth, "tokens": self.lasting.n}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any], every: int, most: int) -> "FormatBets":
        """Return what ``asdict`` gave; ``KeyError`` or ``ValueError`` if it is none."""
        bets = cls(every)
        if value["formats"] != [name for name, _ in bets.bets]:
            raise ValueError("bets on other formats than this version's")
        bets.lasting = _read_bets(value, most, bets.lasting)
        return bets


# The rounding error: measured on the first tokens, and kept for the rest.


_REQUEST_KINDS = ("greedy", "sampled")


@dataclass
class RoundingError:
    """How far rounding moved rows, on the first ``ROUNDING_TOKENS`` tokens of each kind.

    Greedy requests are a kind of their own: their rows move only where two logits are level. A log
    may begin with one kind alone, and its first line may be short. ``tokens``: how many were
    measured, by kind; ``sums``: by kind and order, how far the rows' CDFs moved in it. ``shift``:
    by how much a token's log probability moved at most, in all the life of the watch.
    """

    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_REQUEST_KINDS, 0))
    sums: dict[str, dict[str, float]] = field(
        default_factory=lambda: {k: {} for k in _REQUEST_KINDS}
    )
    shift: float = 0.0

    def balls(self, names: Sequence[str], kind: str | None = None) -> dict[str, float]:
        """Return the ball of each order for a kind of requests; None: sampled ones, if any."""
        kind = kind or ("sampled" if self.tokens["sampled"] else "greedy")
        seen = max(self.tokens[kind], 1)
        return {name: max(self.sums[kind].get(name, 0.0) / seen, MIN_TOLERANCE) for name in names}

    @property
    def margin(self) -> float:
        """How far two logits may be off from each other: twice the rounding seen, or more."""
        return max(LOGIT_MARGIN, 2.0 * self.shift)

    def measure(self, scored: Sequence[ScoredRequest], pair: TransformerPair, proxy: bool) -> bool:
        """Measure on requests of a kind that has too few tokens yet; return whether there are any.

        In float32 it is the difference of the two scorings, else what that precision moves.
        """
        measured = False
        for kind in _REQUEST_KINDS:
            group = [one for one in scored if request_kind(one) == kind]
            if not group or self.tokens[kind] >= ROUNDING_TOKENS:
                continue
            measured = True
            reach: Mapping[str, float] = {}
            if dtype_name(pair) != "float32":
                rounding = measure_rounding([one.request for one in group], pair, proxy)
                reach, self.shift = rounding.reach, max(self.shift, rounding.shift)
            off = np.concatenate([tv_distances(one.p, one.p_again) for one in group])
            self.tokens[kind] += len(off)
            for name in order_names(proxy):
                mean = max(reach.get(f"PIT in {name} order", 0.0), float(off.mean()))
                self.sums[kind][name] = self.sums[kind].get(name, 0.0) + mean * len(off)
        return measured

    @classmethod
    def from_dict(cls, value: Mapping[str, Any], names: Sequence[str]) -> "RoundingError":
        """Return what :meth:`as_dict` gave; raises ``KeyError`` or ``ValueError`` if it is none."""
        result = cls(shift=float(value["shift"]))
        for kind in _REQUEST_KINDS:
            n, sums = value["tokens"][kind], value["sums"][kind]
            if type(n) is not int or n < 0:
                raise ValueError(f"{n} tokens")
            result.tokens[kind] = n
            result.sums[kind] = {name: float(sums[name]) for name in names if n}
        return result


def request_kind(scored: ScoredRequest) -> str:
    """Return whether a request is greedy: each of its rows has one token alone."""
    return "greedy" if (scored.p.max(axis=1) == 1.0).all() else "sampled"


# The evidence of a watch: bets on PITs, which last for its whole monitoring period.


PIT_BETS = stats.StepBets.grid(
    (1 / 16, 1 / 8, 1 / 4, 1 / 2, 3 / 4, 7 / 8, 15 / 16), (0.015, 0.03, 0.06, 0.12, 0.25)
)
"""Bets on the PITs of an order: that one lies below a cut with another chance."""

POWER = 0.9
MAX_WEIGHTS_INTERVAL = 1_000_000


@dataclass(frozen=True)
class WatchSettings:
    """How a life is judged: ``alpha`` for all of it, and the deviation whose delay is reported.

    ``weights``: of so many requests one is bet on by rounded weights, too; 0 for none.
    """

    alpha: float = 1e-6
    detect: float = 0.05
    seed: int = 0
    weights: int = 0

    def __post_init__(self) -> None:
        words = ": one request in so many, 0 for none"
        check_settings(self, weights=(0, MAX_WEIGHTS_INTERVAL, words))

    @property
    def hurdle(self) -> float:
        """Logarithm of the e-value at which the alarm is raised."""
        return -math.log(self.alpha)

    def delay(self, after: int, proxy: bool, balls: Mapping[str, float]) -> float:
        """Return the tokens from a change to an alarm, at most, with probability ``POWER``."""
        alpha = self.alpha / 2.0 if self.weights else self.alpha  # weights have half of the stake
        return stats.lasting_delay(
            self.detect,
            PIT_BETS,
            alpha=alpha,
            groups=len(order_names(proxy)),
            after=after,
            # The change may show in the order with the largest ball alone.
            ball=max(balls.values(), default=MIN_TOLERANCE),
            power=POWER,
        )

    def plan(self, proxy: bool) -> str:
        """Say before anything is scored what raises an alarm, and when."""
        first, later = (self.delay(n, proxy, {}) for n in (0, 1_000_000))
        formats = (
            f"; one request in {self.weights:,} is scored with weights in few bits too, which "
            f"promises no delay"
        )
        return (
            f"plan: a false alarm has probability {self.alpha:g} at most, for all time; a TV of "
            f"{self.detect:g} from the start raises an alarm within {first:,.0f} tokens with "
            f"probability {POWER:g}, one after a million tokens within {later:,.0f}; the rounding "
            f"of the rows adds to that{formats if self.weights else ''}"
        )


class MonitorEvidence:
    """Evidence over a life: requests in order. ``moved``: rounding; ``alarm``: why, or None."""

    def __init__(
        self, settings: WatchSettings, proxy: bool, moved: RoundingError | None = None
    ) -> None:
        self.settings, self.proxy = settings, proxy
        self.moved = RoundingError() if moved is None else moved
        self.lasting = stats.LastingBets.begin(len(PIT_BETS.cuts) * len(order_names(proxy)))
        self.formats = FormatBets(settings.weights) if settings.weights else None
        self.highest = 0.0
        self.highest_at = self.requests = self.near = self.unsupported = 0
        self.alarm: str | None = None
        self.alarm_at: int | None = None

    @property
    def tokens(self) -> int:
        """Tokens so far."""
        return self.lasting.n

    @property
    def balls(self) -> dict[str, float]:
        """How far the CDF of a sampled row may be off on average, by the name of the order."""
        return self.moved.balls(order_names(self.proxy))

    @property
    def log_evalue(self) -> float:
        """Logarithm of the e-value now: of the bets on PITs, or the mean with those on formats."""
        if self.formats is None:
            return self.lasting.log_evalue
        return float(_log_mean(self.lasting.log_evalue, self.formats.lasting.log_evalue))

    def add(self, scored: ScoredRequest, formats: Floats | None = None) -> None:
        """Bet on the next request; ``formats``: log factors of bets on formats, if it has any."""
        tokens = np.array(scored.request.tokens)
        first, names = self.tokens, order_names(self.proxy)
        balls = self.moved.balls(names, request_kind(scored))
        self.moved.shift = max(self.moved.shift, float(scored.shift.max()))
        margin = self.moved.margin
        beyond = np.flatnonzero(scored.gap > margin)
        self.near += int(((scored.gap > 0.0) & (scored.gap <= margin)).sum())
        self.unsupported += len(beyond)
        v = pit_draws(self.settings.seed, 3, self.requests, len(tokens))
        factors = []
        for name, order in order_keys(scored.p_again, scored.q).items():
            low, high = stats.pit_bounds(scored.p, order, tokens)
            u = np.minimum(low + v * (high - low), 1.0)
            price = np.log1p(balls[name] * PIT_BETS.spans)
            factors.append(PIT_BETS.log_factors(u) - price[:, None])
        means = self.lasting.add(np.concatenate(factors))
        if self.formats is not None:
            theirs = np.full(len(tokens), self.formats.lasting.log_evalue)
            if formats is not None:
                theirs = self.formats.add(formats, max(balls.values()))
            means = _log_mean(means, theirs)
        top = int(means.argmax())
        if means[top] > self.highest:
            self.highest, self.highest_at = float(means[top]), first + top + 1
        self.requests += 1
        alarms = []
        contradictions, _ = describe_faults([scored.request.faults])
        if contradictions:
            alarms.append((first + len(tokens), contradictions[0]))
        if len(beyond):
            why = f"a token was emitted that is cut off, by more than a logit of {margin:.2g}"
            alarms.append((first + int(beyond[0]) + 1, why))
        if len(over := np.flatnonzero(means >= self.settings.hurdle)):
            evidence = means[over[0]] / math.log(10.0)
            why = f"the tokens stray from the target, e-value 1e{evidence:.1f}; {self.leading()}"
            alarms.append((first + int(over[0]) + 1, why))
        if alarms and self.alarm is None:
            self.alarm_at, self.alarm = min(alarms)

    def leading(self) -> str:
        """Say which bet is worth most: a diagnosis, without an error rate."""
        if self.formats is not None and self.formats.lasting.log_evalue > self.lasting.log_evalue:
            return f"they fit weights rounded to {self.formats.leading()}"
        order, bet = divmod(int(self.lasting.log_wealth.argmax()), len(PIT_BETS.cuts))
        cut, share = PIT_BETS.cuts[bet], PIT_BETS.shares[bet]
        side = "more" if share > cut else "fewer"
        return (
            f"most in the order {order_names(self.proxy)[order]}: {side} than {cut:.3g} of the "
            f"tokens lie in the first {cut:.3g} of their row"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as JSON has it."""
        value = {"log_wealth": _wealth_json(self.lasting), "moved": asdict(self.moved)}
        value |= {name: getattr(self, name) for name in self._FIELDS}
        return value if self.formats is None else value | {"formats": self.formats.as_dict()}

    _COUNTS = ("requests", "near", "unsupported")
    _FIELDS = ("tokens", "highest", "highest_at", "alarm", "alarm_at", *_COUNTS)

    @classmethod
    def from_dict(
        cls, value: Mapping[str, Any], settings: WatchSettings, proxy: bool
    ) -> "MonitorEvidence":
        """Return what :meth:`as_dict` gave; raises ``KeyError`` or ``ValueError`` if it is none."""
        names = order_names(proxy)
        canary = cls(settings, proxy, RoundingError.from_dict(value["moved"], names))
        counts = {name: value[name] for name in cls._COUNTS}
        if not all(type(n) is int and n >= 0 for n in counts.values()):
            raise ValueError(f"counts {counts}")
        vars(canary).update(counts)
        canary.lasting = _read_bets(value, math.inf, canary.lasting)
        canary.highest, canary.highest_at = float(value["highest"]), int(value["highest_at"])
        if settings.weights:
            canary.formats = FormatBets.from_dict(value["formats"], settings.weights, canary.tokens)
        canary.alarm, canary.alarm_at = value["alarm"], value["alarm_at"]
        return canary


def _log_mean(first: Any, second: Any) -> Any:
    return np.logaddexp(first, second) - math.log(2.0)


# A growing log: its new lines, each once, even if it is rotated, cut or replaced.


_HEAD_BYTES = 4096
_READ_BYTES = 1 << 16
_MAX_LINE_BYTES = 1 << 26  # no line of a log is longer


@dataclass
class FilePosition:
    """How far a log was read: ``offset`` bytes of the file ``device``, ``inode``.

    ``head``: hash of its first ``head_size`` bytes, which identifies a file under another name or
    place. ``lines``: read in all, over all files; ``restarts``: times that another began.
    """

    offset: int = 0
    device: int = 0
    inode: int = 0
    head: str = ""
    head_size: int = 0
    lines: int = 0
    restarts: int = 0


class LogTail:
    """Reads what was added to ``path`` since ``place``; ``say`` reports what is lost or odd."""

    def __init__(self, path: Path, place: FilePosition, say: Callable[[str], None]) -> None:
        self._path, self.place, self._say = path, place, say
        self._file: FileIO | None = None
        self._missing = False

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def lines(self, most: int) -> Iterator[bytes]:
        """Yield new whole lines, ``most`` at most; ``place`` is behind each that was yielded."""
        if self._file is not None and self._rewritten(self._file):
            self.close()
        count = 0
        while count < most and (self._file is not None or self._open()):
            assert self._file is not None
            line = self._line(self._file)
            if line is not None:
                yield line
                count += 1
            elif self._replaced(self._file):
                self.close()
            else:
                return

    def _line(self, file: FileIO) -> bytes | None:
        """Return the next whole line or None, unbuffered: the file may be written again."""
        size = _READ_BYTES
        while True:
            content = os.pread(file.fileno(), size, self.place.offset)
            end = content.find(b"\n") + 1
            if end or size >= _MAX_LINE_BYTES:
                break
            if len(content) < size:
                return None
            size *= 8
        line = content[: end or size]
        self.place.offset += len(line)
        self.place.lines += 1
        head_size = min(self.place.offset, _HEAD_BYTES)
        if head_size != self.place.head_size:
            self.place.head, self.place.head_size = _file_head(file, head_size), head_size
        return line

    def _replaced(self, file: FileIO) -> bool:
        """Whether there is another file under this name, now that this one is read to its end."""
        try:
            named, current = os.stat(self._path), os.fstat(file.fileno())
        except OSError:
            return False  # moved away without a successor: lines are still added here
        if os.path.samestat(named, current):
            return False
        self._begin_anew("was rotated: continuing with the new file", current.st_size)
        return True

    def _rewritten(self, file: FileIO) -> bool:
        size = os.fstat(file.fileno()).st_size
        if size < self.place.offset:
            why = f"was cut from {self.place.offset:,} bytes or more to {size:,}"
            self._begin_anew(f"{why}: read from its start; lines not read by then are lost", 0)
            return True
        if _file_head(file, self.place.head_size) != self.place.head and self.place.head_size:
            self._begin_anew("was rewritten: read from its start", 0)
            return True
        return False

    def _begin_anew(self, why: str, size: int) -> None:
        left, place = size - self.place.offset, self.place
        more = f"; {left:,} bytes of a half line at its end were not read" if left > 0 else ""
        self._say(f"{self._path} {why}{more}")
        place.offset = place.head_size = place.device = place.inode = 0
        place.head, place.restarts = "", place.restarts + 1

    def _open(self) -> bool:
        """Open the file that was being read, under whatever name, or else the named one."""
        try:
            file = self._path.open("rb", buffering=0)
        except OSError as error:
            if not self._missing:
                self._say(f"{self._path} cannot be read: {error.strerror}; waiting for it")
            self._missing = True
            return False
        if self._missing:
            self._say(f"{self._path} is there")
            self._missing = False
        place = self.place
        stat = os.fstat(file.fileno())
        if place.offset and (stat.st_dev, stat.st_ino) != (place.device, place.inode):
            file = self._find_renamed(file)
            stat = os.fstat(file.fileno())
        if place.offset and not self._is_same(file):
            self._begin_anew(
                f"is not the file of which {place.offset:,} bytes were read: read from its start", 0
            )
        place.device, place.inode = stat.st_dev, stat.st_ino
        self._file = file
        return True

    def _is_same(self, file: FileIO) -> bool:
        long_enough = os.fstat(file.fileno()).st_size >= self.place.offset
        return long_enough and _file_head(file, self.place.head_size) == self.place.head

    def _find_renamed(self, file: FileIO) -> FileIO:
        """Return the file that was being read, if it lies beside the named one; else ``file``."""
        if self._is_same(file):
            return file  # copied here from elsewhere
        for other in sorted(self._path.parent.glob(f"{self._path.name}*")):
            with suppress(OSError):
                status = other.stat()
                if (status.st_dev, status.st_ino) == (self.place.device, self.place.inode):
                    old = other.open("rb", buffering=0)
                    file.close()
                    return old
        return file


def _file_head(file: FileIO, size: int) -> str:
    return hashlib.sha256(os.pread(file.fileno(), size, 0)).hexdigest()


# The state of a watch on disk: written whole or not at all, by one process at a time.


_STATE_VERSION = 2


class WatchState:
    """A folder with what a watch knows.

    ``key``: what the state belongs to; another watch is refused. ``canary``: None before the first
    tokens; ``place``: how far the log was read; ``unread``, ``text_alone``: lines that could not be
    judged. Evidence and place are one file, so that each token is counted exactly once.
    ``UsageError`` if the folder cannot be made, another process watches there, or the state is
    damaged or of another watch.
    """

    def __init__(
        self, folder: Path, key: Mapping[str, Any], settings: WatchSettings, proxy: bool
    ) -> None:
        self._file, self._key = folder / "state.json", dict(key)
        self._lock: Lock | None = None
        self.canary: MonitorEvidence | None = None
        self.place = FilePosition()
        self.unread = self.text_alone = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = Lock(folder / "lock")
            if not self._lock.take():
                raise UsageError(f"state: another process watches in {folder}: name another")
            if self._file.exists():
                self._read(settings, proxy)
        except OSError as error:
            self.__exit__()
            raise UsageError(f"state: {folder} cannot be used: {error.strerror}") from None
        except UsageError:
            self.__exit__()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.release()

    def save(self) -> None:
        """Write everything, whole or not at all."""
        value = {
            "version": _STATE_VERSION,
            "key": self._key,
            "place": asdict(self.place),
            "unread": self.unread,
            "text_alone": self.text_alone,
            "canary": None if self.canary is None else self.canary.as_dict(),
        }
        write_whole(self._file, json.dumps(value, indent=1) + "\n")

    def _read(self, settings: WatchSettings, proxy: bool) -> None:
        where = f"state: {self._file}"
        try:
            value = json.loads(self._file.read_text(encoding="utf-8"))
            if value["version"] != _STATE_VERSION:
                raise ValueError(f"version {value['version']}")
            for name in sorted(value["key"].keys() | self._key.keys()):
                was, now = value["key"].get(name), self._key.get(name)
                if was != now:
                    raise UsageError(
                        f"{where} is of a watch with {name} {json.dumps(was)[:80]}, now it is "
                        f"{json.dumps(now)[:80]}: name another folder, or watch as before"
                    )
            self.place = FilePosition(**value["place"])
            self.unread, self.text_alone = value["unread"], value["text_alone"]
            numbers = [x for x in vars(self.place).values() if not isinstance(x, str)]
            numbers += [self.unread, self.text_alone]
            if not all(type(n) is int and n >= 0 for n in numbers):
                raise ValueError("a count is no whole number")
            if value["canary"] is not None:
                self.canary = MonitorEvidence.from_dict(value["canary"], settings, proxy)
        except OSError as error:
            raise UsageError(f"{where} cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"{where} is damaged ({type(error).__name__}: {str(error)[:80]}): start again in "
                f"another folder"
            ) from None
