"""The monitor behind a watch: bets on tokens that never end, the log that it follows, its state."""

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from simverify import stats
from simverify.arrays import Floats
from simverify.checks import MIN_ALPHA, MIN_DETECT, check_ranges
from simverify.errors import UsageError
from simverify.locks import Lock
from simverify.models.rounding import WEIGHT_FORMATS
from simverify.models.transformer import TransformerPair
from simverify.results.reading import write_whole
from simverify.served.evidence import format_ratios, order_keys
from simverify.served.judge import ROUNDING_TOKENS, measure_rounding
from simverify.served.rescore import (
    LOGIT_MARGIN,
    ScoredRequest,
    rounded_weight_logits,
    tv_distances,
)
from simverify.simulators.kernels.philox import PIT

# Bets that the server's weights were rounded to few bits: on some requests, all the time.
#
# Rounded weights move a row up in one context and down in the next, which no order of the tokens
# shows. So one request in so many is scored with each format as well, and its tokens are bet on by
# the ratios of the two laws.


MIX_STRENGTHS = (0.3, 0.9)
"""How strongly the laws of rounded weights are mixed with the target's own."""

MAX_RATIO = 8.0
"""Ratios above it count as this much: so that what rows may be off by has a bounded price."""


def _format_ratios(
    one: ScoredRequest, logits: NDArray[np.float32], pair: TransformerPair
) -> Floats:
    """Return how much likelier the tokens are by a format, float64 (n,); 1 where nothing is said.

    That is where weights so rounded overflow, and of a token that the target's law cuts off.
    """
    if not np.isfinite(logits).all():
        return np.ones(len(one.request.tokens))
    seen = format_ratios(one, logits, pair)[0]
    return np.where(np.isfinite(seen), seen, 1.0)


def log_factors(ratios: Floats) -> Floats:
    """Return logarithms of the factors of a format's bets, float64 (2, n), by its ratios (n,)."""
    won = np.minimum(ratios, MAX_RATIO) - 1.0
    return np.stack([np.log1p(share * won) for share in MIX_STRENGTHS])


class FormatBets:
    """Bets on one request of each ``every``, for the life of a watch."""

    def __init__(self, every: int) -> None:
        self.every = every
        self.bets = tuple((name, share) for name in WEIGHT_FORMATS for share in MIX_STRENGTHS)
        self.lasting = stats.LastingBets.begin(len(self.bets))

    def wanted(self, number: int) -> bool:
        """Whether the request of this number is bet on: known before it is read."""
        return number % self.every == 0

    def factors(self, chosen: Sequence[ScoredRequest], pair: TransformerPair) -> list[Floats]:
        """Return logarithms of the factors of requests, float64 (B, n) each.

        They are scored together: to round the weights takes longer than to compute with them.
        """
        found: list[list[Floats]] = [[] for _ in chosen]
        requests = [one.request for one in chosen]
        for name, rounding in WEIGHT_FORMATS.items():
            logits = rounded_weight_logits(pair, requests, {name: rounding})[name]
            for parts, one, x in zip(found, chosen, logits, strict=True):
                parts.append(log_factors(_format_ratios(one, x, pair)))
        return [np.concatenate(own) for own in found]

    def add(self, log_factors: Floats, ball: float) -> Floats:
        """Bet, rows being off by TV ``ball`` on average; return the log mean after each token."""
        price = np.log1p(ball * MAX_RATIO * np.array([share for _, share in self.bets]))
        return self.lasting.add(log_factors - price[:, None])

    def leading(self) -> str:
        """Return the format that is worth most: a diagnosis, without an error rate."""
        return self.bets[int(self.lasting.log_wealth.argmax())][0]

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as JSON has it; -inf as null."""
        wealth = [float(x) if math.isfinite(x) else None for x in self.lasting.log_wealth]
        return {
            "formats": [name for name, _ in self.bets],
            "log_wealth": wealth,
            "tokens": self.lasting.n,
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any], every: int, most: int) -> "FormatBets":
        """Return what :meth:`as_dict` gave, of ``most`` tokens at most.

        Raises ``KeyError`` or ``ValueError`` if it is none.
        """
        bets = cls(every)
        if value["formats"] != [name for name, _ in bets.bets]:
            raise ValueError("bets on other formats than this version's")
        wealth = np.array([-np.inf if x is None else float(x) for x in value["log_wealth"]])
        if wealth.shape != bets.lasting.log_wealth.shape or np.isnan(wealth).any():
            raise ValueError(f"{len(wealth)} bets on formats")
        if type(value["tokens"]) is not int or not 0 <= value["tokens"] <= most:
            raise ValueError(f"{value['tokens']} tokens")
        bets.lasting = stats.LastingBets(log_wealth=wealth, n=value["tokens"])
        return bets


# The rounding error: measured on the first tokens, and kept for the rest.


MIN_TOLERANCE = 1e-6  # A ball below which nobody's float32 logits stay
_REQUEST_KINDS = ("greedy", "sampled")


@dataclass
class RoundingError:
    """How far rounding moved rows, on the first ``ROUNDING_TOKENS`` tokens of each kind.

    Greedy requests, whose rows move where two logits are level and nowhere else, and others: a log
    may begin with one kind alone, and its first line may be short. ``tokens``: how many were looked
    at, by kind; ``sums``: by kind and name of an order, of how far the rows' CDFs moved in it.
    ``shift``: by how much a token's log-probability moved at most, of all tokens of a life.
    """

    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_REQUEST_KINDS, 0))
    sums: dict[str, dict[str, float]] = field(
        default_factory=lambda: {k: {} for k in _REQUEST_KINDS}
    )
    shift: float = 0.0

    def balls(self, names: Sequence[str], kind: str | None = None) -> dict[str, float]:
        """Return the ball of each order for requests of a kind; None: of sampled ones, if any."""
        kind = kind or ("sampled" if self.tokens["sampled"] else "greedy")
        seen = max(self.tokens[kind], 1)
        return {name: max(self.sums[kind].get(name, 0.0) / seen, MIN_TOLERANCE) for name in names}

    @property
    def margin(self) -> float:
        """How far two logits may be off from each other: twice the rounding seen, or more."""
        return max(LOGIT_MARGIN, 2.0 * self.shift)

    def see(self, scored: ScoredRequest) -> None:
        """Note how far the two scorings of a request lie apart."""
        self.shift = max(self.shift, float(scored.shift.max()))

    def measure(
        self,
        scored: Sequence[ScoredRequest],
        pair: TransformerPair,
        names: Sequence[str],
        proxy: bool,
    ) -> bool:
        """Measure on requests of a kind of which too few tokens were looked at; say if any was.

        In float32 it is what the two scorings differ by, in a coarser precision what that moves.
        """
        coarse = str(pair.target_model.dtype) != "torch.float32"
        measured = False
        for kind in _REQUEST_KINDS:
            group = [one for one in scored if request_kind(one) == kind]
            if not group or self.tokens[kind] >= ROUNDING_TOKENS:
                continue
            measured = True
            reach: Mapping[str, float] = {}
            if coarse:
                rounding = measure_rounding([one.request for one in group], pair, proxy)
                reach, self.shift = rounding.reach, max(self.shift, rounding.shift)
            off = np.concatenate([tv_distances(one.p, one.p_again) for one in group])
            self.tokens[kind] += len(off)
            for name in names:
                mean = max(reach.get(f"PIT in {name} order", 0.0), float(off.mean()))
                self.sums[kind][name] = self.sums[kind].get(name, 0.0) + mean * len(off)
        return measured

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {"tokens": self.tokens, "sums": self.sums, "shift": self.shift}

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

MAX_WEIGHTS_INTERVAL = 1_000_000  # Requests of which one is bet on by rounded weights, at most


@dataclass(frozen=True)
class WatchSettings:
    """How a life is judged: ``alpha`` for all of it, and the deviation whose delay is told.

    ``weights``: of so many requests one is bet on by rounded weights, too; 0 for none.
    """

    alpha: float = 1e-6
    detect: float = 0.05
    seed: int = 0
    weights: int = 0

    def __post_init__(self) -> None:
        check_ranges(
            (
                (
                    "alpha",
                    self.alpha,
                    MIN_ALPHA <= self.alpha < 1,
                    f"{MIN_ALPHA:g} or more, below 1",
                ),
                (
                    "detect",
                    self.detect,
                    MIN_DETECT <= self.detect < 1,
                    f"{MIN_DETECT:g} or more, below 1",
                ),
                ("seed", self.seed, 0 <= self.seed < 2**64, "0 to 2^64 - 1"),
                (
                    "weights",
                    self.weights,
                    0 <= self.weights <= MAX_WEIGHTS_INTERVAL,
                    f"0 to {MAX_WEIGHTS_INTERVAL:,}: one request in so many, 0 for none",
                ),
            )
        )

    @property
    def hurdle(self) -> float:
        """Logarithm of the e-value at which the alarm is raised."""
        return -math.log(self.alpha)

    def delay(self, after: int, proxy: bool, balls: Mapping[str, float]) -> float:
        """Tokens after a change until an alarm, at most, with probability ``POWER``.

        It takes the order of the largest ball: the change may show in no other.
        """
        alpha = self.alpha / 2.0 if self.weights else self.alpha  # as half of the stake is theirs
        return stats.lasting_delay(
            self.detect,
            PIT_BETS,
            alpha=alpha,
            groups=len(order_names(proxy)),
            after=after,
            ball=max(balls.values(), default=MIN_TOLERANCE),
            power=POWER,
        )

    def plan(self, proxy: bool) -> str:
        """Say before anything is scored what will be told, and when."""
        first, later = (self.delay(n, proxy, {}) for n in (0, 1_000_000))
        formats = (
            f"; one request in {self.weights:,} is scored with weights in few bits too, for which "
            f"no delay is promised"
        )
        return (
            f"plan: alarm with probability {self.alpha:g} at most, ever, where nothing is wrong; a "
            f"deviation of TV {self.detect:g} from the start is told within {first:,.0f} tokens "
            f"with probability {POWER:g}, one after a million tokens within {later:,.0f}; what "
            f"rounding of the rows may come to is added{formats if self.weights else ''}"
        )


def order_names(proxy: bool) -> tuple[str, ...]:
    """Names of the orders that PITs are made in."""
    return ("token", "descending P", "q/p")[: 3 if proxy else 2]


class MonitorEvidence:
    """Evidence over a life; ``add`` each request with its rows, in order.

    ``moved``: what rounding may come to. ``alarm``: why, None for none.
    """

    def __init__(
        self, settings: WatchSettings, proxy: bool, moved: RoundingError | None = None
    ) -> None:
        self.settings, self.proxy = settings, proxy
        self.moved = RoundingError() if moved is None else moved
        self.lasting = stats.LastingBets.begin(len(PIT_BETS.cuts) * len(order_names(proxy)))
        self.formats = FormatBets(settings.weights) if settings.weights else None
        self.highest, self.highest_at = 0.0, 0
        self.requests = self.near = self.unsupported = 0
        self.alarm: str | None = None
        self.alarm_at: int | None = None

    @property
    def tokens(self) -> int:
        """Tokens so far."""
        return self.lasting.n

    @property
    def balls(self) -> dict[str, float]:
        """By the name of an order, how far the CDF of a sampled row may be off, on average."""
        return self.moved.balls(order_names(self.proxy))

    @property
    def log_evalue(self) -> float:
        """Logarithm of the e-value now: of the bets on PITs, or the mean with those on formats."""
        if self.formats is None:
            return self.lasting.log_evalue
        return float(_log_mean(self.lasting.log_evalue, self.formats.lasting.log_evalue))

    def add(self, scored: ScoredRequest, formats: Floats | None = None) -> None:
        """Bet on the tokens of the next request, whose number is ``requests``.

        ``formats``: logarithms of the factors of bets on formats, if the request is one of theirs.
        """
        tokens = np.array(scored.request.tokens)
        first, names = self.tokens, order_names(self.proxy)
        balls = self.moved.balls(names, request_kind(scored))
        self.moved.see(scored)
        margin = self.moved.margin
        beyond = np.flatnonzero(scored.gap > margin)
        self.near += int(((scored.gap > 0.0) & (scored.gap <= margin)).sum())
        self.unsupported += len(beyond)
        key = np.array([self.settings.seed, PIT], np.uint64)
        draws = np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 3, self.requests]))
        v = draws.random(len(tokens))
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
        if len(beyond):
            alarms.append(
                (
                    first + int(beyond[0]) + 1,
                    f"a token was emitted that is cut off, by more than a logit of {margin:.2g}",
                )
            )
        over = np.flatnonzero(means >= self.settings.hurdle)
        if len(over):
            evidence = means[over[0]] / math.log(10.0)
            alarms.append(
                (
                    first + int(over[0]) + 1,
                    f"the tokens stray from the target, e-value 1e{evidence:.1f}; {self.leading()}",
                )
            )
        if alarms and self.alarm is None:
            self.alarm_at, self.alarm = min(alarms)

    def leading(self) -> str:
        """Say which bet is worth most: a diagnosis, without an error rate."""
        if self.formats is not None and self.formats.lasting.log_evalue > self.lasting.log_evalue:
            return f"they fit weights rounded to {self.formats.leading()}"
        best = int(self.lasting.log_wealth.argmax())
        order, bet = divmod(best, len(PIT_BETS.cuts))
        cut, share = PIT_BETS.cuts[bet], PIT_BETS.shares[bet]
        side = "more" if share > cut else "fewer"
        return (
            f"most in the order {order_names(self.proxy)[order]}: {side} than {cut:.3g} of the "
            f"tokens lie in the first {cut:.3g} of their row"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as JSON has it; -inf as null."""
        wealth = [float(x) if math.isfinite(x) else None for x in self.lasting.log_wealth]
        return {
            "log_wealth": wealth,
            "tokens": self.lasting.n,
            "highest": self.highest,
            "highest_at": self.highest_at,
            "requests": self.requests,
            "near": self.near,
            "unsupported": self.unsupported,
            "alarm": self.alarm,
            "alarm_at": self.alarm_at,
            "moved": self.moved.as_dict(),
            **({} if self.formats is None else {"formats": self.formats.as_dict()}),
        }

    @classmethod
    def from_dict(
        cls, value: Mapping[str, Any], settings: WatchSettings, proxy: bool
    ) -> "MonitorEvidence":
        """Return what :meth:`as_dict` gave; raises ``KeyError`` or ``ValueError`` if it is none."""
        names = order_names(proxy)
        canary = cls(settings, proxy, RoundingError.from_dict(value["moved"], names))
        wealth = np.array([-np.inf if x is None else float(x) for x in value["log_wealth"]])
        counts = {name: value[name] for name in ("tokens", "requests", "near", "unsupported")}
        if wealth.shape != canary.lasting.log_wealth.shape or np.isnan(wealth).any():
            raise ValueError(f"{len(wealth)} bets")
        if not all(type(n) is int and n >= 0 for n in counts.values()):
            raise ValueError(f"counts {counts}")
        canary.lasting = stats.LastingBets(log_wealth=wealth, n=counts["tokens"])
        canary.highest, canary.highest_at = float(value["highest"]), int(value["highest_at"])
        if settings.weights:
            canary.formats = FormatBets.from_dict(value["formats"], settings.weights, canary.tokens)
        canary.requests, canary.near = counts["requests"], counts["near"]
        canary.unsupported = counts["unsupported"]
        canary.alarm, canary.alarm_at = value["alarm"], value["alarm_at"]
        return canary


def _log_mean(first: Any, second: Any) -> Any:
    """Return the logarithm of the mean of two e-values, of their logarithms."""
    return np.logaddexp(first, second) - math.log(2.0)


# A growing log: its new lines, each once, also when it is rotated, cut or replaced.


_HEAD_BYTES = 4096
_READ_BYTES = 1 << 16
_MAX_LINE_BYTES = 1 << 26  # Bytes of a line at most: what is longer is none of a log


@dataclass
class FilePosition:
    """How far a log was read: ``offset`` bytes of the file ``device``, ``inode``.

    ``head``: hash of its first ``head_size`` bytes, by which a file of another name or place is
    known again. ``lines``: read in all, over all files; ``restarts``: times that another began.
    """

    offset: int = 0
    device: int = 0
    inode: int = 0
    head: str = ""
    head_size: int = 0
    lines: int = 0
    restarts: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return asdict(self)


class LogTail:
    """Reads what was added to ``path`` since ``place``; ``say`` is told of what is lost or odd."""

    def __init__(self, path: Path, place: FilePosition, say: Callable[[str], None]) -> None:
        self._path, self.place, self._say = path, place, say
        self._file: FileIO | None = None
        self._missing = False

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def lines(self, most: int) -> Iterator[bytes]:
        """Yield new whole lines, ``most`` at most; ``place`` is behind each that was yielded."""
        if self._file is not None and self._rewritten(self._file):
            self.close()
        for _ in range(most):
            line = self._next()
            if line is None:
                return
            yield line

    def _next(self) -> bytes | None:
        while True:
            if self._file is None and not self._open():
                return None
            assert self._file is not None
            line = self._line(self._file)
            if line is not None:
                return line
            if not self._replaced(self._file):
                return None
            self.close()

    def _line(self, file: FileIO) -> bytes | None:
        """Return the next whole line, or None where there is none yet.

        Read past all buffers, which may hold what a file was before it was written anew.
        """
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
        self._remember(file)
        return line

    def _remember(self, file: FileIO) -> None:
        size = min(self.place.offset, _HEAD_BYTES)
        if size != self.place.head_size:
            self.place.head, self.place.head_size = _file_head(file, size), size

    def _replaced(self, file: FileIO) -> bool:
        """Whether the name has another file now that this one is read to its end."""
        try:
            named = os.stat(self._path)
        except OSError:
            return False  # moved away, and nothing in its place yet: what is added still comes here
        current = os.fstat(file.fileno())
        if (named.st_dev, named.st_ino) == (current.st_dev, current.st_ino):
            return False
        self._begin_anew("was rotated: going on with the new file", current.st_size)
        return True

    def _rewritten(self, file: FileIO) -> bool:
        """Whether this very file was cut or written anew."""
        size = os.fstat(file.fileno()).st_size
        if size < self.place.offset:
            why = f"was cut from {self.place.offset:,} bytes or more to {size:,}"
            self._begin_anew(f"{why}: read from its start; lines not read by then are lost", 0)
            return True
        if _file_head(file, self.place.head_size) != self.place.head and self.place.head_size:
            self._begin_anew("was written anew: read from its start", 0)
            return True
        return False

    def _begin_anew(self, why: str, size: int) -> None:
        left = size - self.place.offset
        more = f"; {left:,} bytes of a half line at its end were not read" if left > 0 else ""
        self._say(f"{self._path} {why}{more}")
        self.place.offset = self.place.head_size = 0
        self.place.head = ""
        self.place.restarts += 1
        self.place.device = self.place.inode = 0

    def _open(self) -> bool:
        """Open the file that was being read, by whatever name, or the one of the name."""
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
            file = self._known(file)
            stat = os.fstat(file.fileno())
        if place.offset and self._is(file):
            place.device, place.inode = stat.st_dev, stat.st_ino
        elif place.offset:
            self._begin_anew(
                f"is not the file of which {place.offset:,} bytes were read: read from its start", 0
            )
        place.device, place.inode = stat.st_dev, stat.st_ino
        self._file = file
        return True

    def _is(self, file: FileIO) -> bool:
        """Whether a file begins as what was read."""
        long_enough = os.fstat(file.fileno()).st_size >= self.place.offset
        return long_enough and _file_head(file, self.place.head_size) == self.place.head

    def _known(self, file: FileIO) -> FileIO:
        """Return the file that was being read, if it lies beside the name; else ``file``."""
        if self._is(file):
            return file  # copied here from elsewhere
        for other in sorted(self._path.parent.glob(f"{self._path.name}*")):
            try:
                status = other.stat()
                if (status.st_dev, status.st_ino) == (self.place.device, self.place.inode):
                    old = other.open("rb", buffering=0)
                    file.close()
                    return old
            except OSError:
                continue
        return file


def _file_head(file: FileIO, size: int) -> str:
    return hashlib.sha256(os.pread(file.fileno(), size, 0)).hexdigest()


# The state of a watch on disk: written whole or not at all, by one process at a time.


_STATE_VERSION = 2


class WatchState:
    """A folder with what a watch knows.

    ``key``: what the state is of, by which another watch is refused. ``canary``: None before the
    first tokens; ``place``: how far the log was read; ``unread``, ``text_alone``: lines that could
    not be judged. Evidence and place are one file, so that no token is counted twice, or not at
    all.

    Raises
    ------
    UsageError
        If the folder cannot be made, another process watches there, or the state is damaged or of
        another watch.
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
            self._release()
            raise UsageError(f"state: {folder} cannot be used: {error.strerror}") from None
        except UsageError:
            self._release()
            raise

    def __enter__(self) -> "WatchState":
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        self._release()

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def save(self) -> None:
        """Write everything, whole or not at all."""
        value = {
            "version": _STATE_VERSION,
            "key": self._key,
            "place": self.place.as_dict(),
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
            numbers = [x for x in vars(self.place).values() if not isinstance(x, str)]
            self.unread, self.text_alone = value["unread"], value["text_alone"]
            numbers += [self.unread, self.text_alone]
            if not all(type(n) is int and n >= 0 for n in numbers):
                raise ValueError("a count is no whole number")
            if value["canary"] is not None:
                self.canary = MonitorEvidence.from_dict(value["canary"], settings, proxy)
        except OSError as error:
            raise UsageError(f"{where} cannot be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UsageError(
                f"{where} is damaged ({type(error).__name__}: {str(error)[:80]}): begin a new life "
                f"in another folder"
            ) from None
