"""``--library``: a function of a shared library with the C ABI, called in this process.

``int verify(const double *p, const double *q, const int *x, int gamma, int V,
const double *coins, int *out)``: rows (gamma+1, V), (gamma, V) one after the other, the drafted
tokens, the coins; it writes the tokens to ``out`` (gamma+1) and returns how many, or a negative
number that is an error of its own.
"""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np

from simverify.engines.bridge.protocol import ON_THE_LINE, Request
from simverify.engines.bridge.repeats import Repeats
from simverify.errors import SimverifyError, UsageError
from simverify.symbolic.enumeration.endings import BadTokens
from simverify.symbolic.guards.watchdog import Expired, calling, deadline

SIGNATURE = (
    "int verify(const double *p, const double *q, const int *x, int gamma, int V, "
    "const double *coins, int *out)"
)

CALL_SECONDS = 20.0
"""A call that takes longer hangs."""

LOAD_SECONDS = 30.0
"""So long may a library take to load: it may run code of its own then."""

_BITS = 53
_BEYOND = 64
"""Numbers behind the coins and behind ``out``: what reads or writes them shows."""

_THESE = (np.arange(_BEYOND) * 0.618 + 0.3) % 1.0
_OTHERS = 1.0 - _THESE

_UNWRITTEN = -2_000_000_011
"""What stands in ``out`` before a call."""


class LibraryVerify:
    """The function as ``f(target_probs, draft_probs, draft_tokens, coins) -> tokens``.

    ``library``: ``path:symbol``. ``bits``: its coins are multiples of 2^-53. Raises
    ``UsageError`` for a file or symbol that is not there, ``SimverifyError`` for a file that
    does not load; of a call, ``CallBroken`` where it is no function of its arguments, and
    ``BadTokens`` for what it returns.
    """

    bits = _BITS
    tolerance = 1e-9
    used = None

    def __init__(self, library: str, *, seconds: float = CALL_SECONDS) -> None:
        self._function = _symbol(library)
        self.seconds = seconds
        self._again = Repeats(
            self._ask,
            lambda request, _: self._ask(request, _OTHERS),
            "reads beyond the {coins} coins that it is given, and they change its tokens from "
            "{tokens} to {again}: name --coins, the most that it reads in a call",
        )

    def __call__(self, target_probs: Any, draft_probs: Any, draft_tokens: Any, coins: Any) -> Any:
        """Call the function. Raises as the class says."""
        request = Request(target_probs, draft_probs, draft_tokens, coins)
        with calling(self.seconds, lambda: ON_THE_LINE + request.text()):
            tokens = self._ask(request)
            self._again.after(request, tokens, len(coins))
        return tokens

    def close(self) -> None:
        """Nothing is kept."""

    def _ask(self, request: Request, beyond: Any = _THESE) -> list[int]:
        gamma, vocab = request.draft_probs.shape
        drafted = request.draft_tokens.astype(np.intc)
        out = np.full(gamma + 1 + _BEYOND, _UNWRITTEN, dtype=np.intc)
        coins = np.concatenate([request.coins, beyond])
        given = request.target_probs, request.draft_probs, drafted, coins
        images = [x.tobytes() for x in given]
        count = self._function(
            request.target_probs.ctypes.data, request.draft_probs.ctypes.data, drafted.ctypes.data,
            gamma, vocab, coins.ctypes.data, out.ctypes.data,
        )  # fmt: skip
        if [x.tobytes() for x in given] != images:
            raise BadTokens("inputs-modified", "changes its arguments in place")
        if count < 0:
            raise BadTokens("raises", f"returned {count}, an error code of its own")
        if count > gamma + 1:
            raise BadTokens("too-many", f"returned {count}, gamma + 1 = {gamma + 1}")
        if (out[gamma + 1 :] != _UNWRITTEN).any():
            raise BadTokens("too-many", f"writes beyond the gamma + 1 = {gamma + 1} ints of out")
        tokens: list[int] = out[:count].tolist()
        if _UNWRITTEN in tokens:
            raise BadTokens("out-of-range", f"returned {count} and wrote fewer tokens to out")
        return tokens


def _symbol(library: str) -> Any:
    place, colon, symbol = library.rpartition(":")
    if not colon or not place or not symbol:
        raise UsageError(f"--library {library!r}: expected path.so:symbol, a {SIGNATURE}")
    path = Path(place)
    if not path.is_file():
        raise UsageError(f"--library {library!r}: no file {place}")
    try:
        with deadline(LOAD_SECONDS):
            loaded = ctypes.CDLL(str(path.resolve()))
    except Expired:
        raise SimverifyError(
            f"--library {library!r} does not load: not done within {LOAD_SECONDS:g} s"
        ) from None
    except OSError as error:
        raise SimverifyError(f"--library {library!r} does not load: {error}") from None
    try:
        function = loaded[symbol]
    except AttributeError:
        raise UsageError(
            f'--library {library!r}: {place} has no symbol {symbol!r}; in C++ declare it extern "C"'
        ) from None
    pointer = ctypes.c_void_p
    function.argtypes = [pointer, pointer, pointer, ctypes.c_int, ctypes.c_int, pointer, pointer]
    function.restype = ctypes.c_int
    return function
