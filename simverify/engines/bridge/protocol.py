"""What stands on the lines between an audit and a program: version 1, one JSON object a line.

The program says hello once, unasked. Then it answers each line with one line, in order.
"""

import functools
import json
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from simverify.checks import clean
from simverify.errors import SimverifyError

VERSION = 1

PRECISIONS = {"float64": (53, 1e-9), "float32": (24, 1e-6)}
"""What a program may compute in: the widest coins that it can hold, and what rounding explains."""

LONGEST_ANSWER = 1 << 20
"""Bytes of an answer: what has no end of line by then is no answer."""

HELLO = '{"simverify": 1, "bits": 53, "dtype": "float64"}'
"""The first line of a program, as an example."""

ANSWER = '{"call": 0, "tokens": [2, 0], "coins": 3}'

ON_THE_LINE = "on the line "
"""Comes before a request where it is told what was asked."""

_NAMED = 160


class Unreadable(Exception):
    """A line that is not the one that is due; the message says what it is."""


class Hello(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a program begins.

    ``simverify``: the version of the protocol. ``bits``: its coins are multiples of 2^-bits.
    ``dtype``: what it computes in, "float64" or "float32".
    """

    simverify: int
    bits: int
    dtype: str


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a program answers: the number of the call, the tokens, how many coins it read."""

    call: int
    tokens: list[int]
    coins: int


@dataclass(frozen=True)
class Request:
    """One call: the arrays of the contract, float64 and int64, and the coins, float64 (n,)."""

    target_probs: Any
    draft_probs: Any
    draft_tokens: Any
    coins: Any

    def line(self, number: int) -> bytes:
        """Return the line that asks for the call of that number, with its end.

        Numbers are the shortest decimals that give the same float64 again.
        """
        p, q, x = self.target_probs, self.draft_probs, self.draft_tokens
        block = _block(p.shape, p.tobytes(), q.tobytes(), x.tobytes())
        coins = msgspec.json.encode(self.coins.tolist())
        return b'{"call":%d,%s"coins":%s}\n' % (number, block, coins)

    def text(self) -> str:
        """Return the line of a first call, as it is shown."""
        return self.line(0).decode().strip()


@functools.lru_cache(maxsize=4096)
def _block(shape: tuple[int, int], target: bytes, draft: bytes, tokens: bytes) -> bytes:
    """Return what stands before the coins: an audit asks for few blocks, and often."""
    rows, vocab = shape
    whole = {
        "gamma": rows - 1,
        "vocab": vocab,
        "target_probs": np.frombuffer(target).reshape(shape).tolist(),
        "draft_probs": np.frombuffer(draft).reshape(rows - 1, vocab).tolist(),
        "draft_tokens": np.frombuffer(tokens, dtype=np.int64).tolist(),
    }
    return msgspec.json.encode(whole)[1:-1] + b","


def request_of(line: str) -> Request:
    """Return the call that a line asks for."""
    given = json.loads(line)
    return Request(
        np.array(given["target_probs"], dtype=np.float64),
        np.array(given["draft_probs"], dtype=np.float64),
        np.array(given["draft_tokens"], dtype=np.int64),
        np.array(given["coins"], dtype=np.float64),
    )


def read_hello(line: bytes, program: str) -> Hello:
    """Read a program's first line; raises ``SimverifyError`` if it is no hello of this version."""
    try:
        hello = msgspec.json.decode(line, type=Hello)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SimverifyError(
            f"{program} began with {shown(line)} ({_why(error)}): expected one line such as {HELLO}"
        ) from None
    if hello.simverify != VERSION:
        raise SimverifyError(
            f"{program} speaks version {hello.simverify} of the protocol: expected {VERSION}"
        )
    if hello.dtype not in PRECISIONS:
        raise SimverifyError(
            f"{program} computes in {hello.dtype!r}: expected float64 or float32, in which "
            "rounding can be told from faults"
        )
    most, _ = PRECISIONS[hello.dtype]
    if not 1 <= hello.bits <= most:
        raise SimverifyError(
            f"{program} has coins of {hello.bits} bits in {hello.dtype}: expected 1 to {most}"
        )
    return hello


def read_answer(line: bytes, number: int) -> Answer:
    """Read the answer to the call of that number; raises :class:`Unreadable`."""
    try:
        answer = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreadable(
            f"answered {shown(line)} ({_why(error)}), expected one line such as {ANSWER}"
        ) from None
    if answer.call != number:
        raise Unreadable(
            f"answered call {answer.call} where call {number} was due: one line is due for each "
            "line, in their order, and no other"
        )
    if answer.coins < 0:
        raise Unreadable(f"says that it read {answer.coins} coins: 0 or more are expected")
    return answer


_decode = msgspec.json.Decoder(Answer).decode


def shown(text: bytes) -> str:
    """Return what a program wrote, in quotes and short."""
    return repr(clean(text[: 4 * _NAMED].decode(errors="replace"), _NAMED)) if text else "nothing"


def _why(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    first = str(error).partition("\n")[0]
    return first[:1].lower() + first[1:] if isinstance(error, msgspec.ValidationError) else (
        f"not JSON: {first}"
    )  # fmt: skip
