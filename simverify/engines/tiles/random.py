"""Counter-based random numbers: Triton's Philox, and draws that stand for such numbers.

Where code just runs, ``tl.rand(seed, offset)`` is what Triton gives, to the last bit. In the
exact tier it is a draw: one for each address (seed, offset), so a kernel that comes to an address
again gets the same draw again, as it would on a GPU. Kernels that hash by themselves are given
:func:`addressed`.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from simverify.engines.tiles.blocks import Block, block_of, elementwise
from simverify.engines.tiles.refusals import refuse
from simverify.engines.tiles.rests import Rest
from simverify.engines.tiles.types import Dtype, float32, int32, int64, uint32, uint64
from simverify.symbolic.addressed import draw_at, followed
from simverify.symbolic.draws.in_arrays.arrays import draw_array, is_symbolic
from simverify.symbolic.draws.scalars import Draw, on_grid
from simverify.symbolic.draws.values.forms import IDENTITY, Form
from simverify.symbolic.draws.values.machine import Machine

_ROUND_A, _ROUND_B = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_A, _KEY_B = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
_LOW, _WORD = np.uint64(0xFFFFFFFF), np.uint64(32)
_SHORT = 256
"""Lanes of a row that is written out at once; of a longer one few lanes are asked for."""

SCALE = 4.6566127342e-10
"""What Triton multiplies 31 bits by: a little less than 2^-31, so that no product is 1."""


def philox(
    seed: Any, c0: Any, c1: Any, c2: Any, c3: Any, n_rounds: int = 10
) -> tuple[Block, Block, Block, Block]:
    """Return the four words of Philox 4x32: ``tl.philox``."""
    w0, w1, w2, w3 = _blocks(seed, (c0, c1, c2, c3), int(n_rounds), 4)
    return w0, w1, w2, w3


def _blocks(seed: Any, values: tuple[Any, ...], rounds: int, count: int) -> list[Block]:
    """Return the first ``count`` words: each is a block of its own, of which few are asked for."""
    if followed() is not None:
        refuse("tl.philox in the exact tier, which follows tl.rand and tl.randint")
    key = block_of(seed).to(int64).to(uint64)
    counters = [block_of(c) for c in values]
    if any(c.dtype.is_floating() or c.dtype.bits != uint32.bits for c in counters):
        refuse("tl.philox of counters that are not of 32 bits")
    words = [c.to(uint32, bitcast=True) for c in counters]
    sides = {x.count for x in (key, *words) if x.rest is not None}
    if not sides or max(sides) <= _SHORT:
        # The four words come out of one cipher, which is not run again for each of them.
        made = ciphered(*(x.whole() for x in (key, *words)), rounds=rounds)
        return [Block(word, uint32) for word in made[:count]]
    return [
        elementwise(lambda *x, i=i: ciphered(*x, rounds=rounds)[i], uint32, key, *words)
        for i in range(count)
    ]


def ciphered(key: Any, c0: Any, c1: Any, c2: Any, c3: Any, *, rounds: int) -> tuple[Any, ...]:
    """Return the four words of Philox 4x32 of arrays or scalars of numpy's."""
    # Words of 32 bits in 64: their products fit.
    c0, c1, c2, c3 = (c.astype(np.uint64) for c in (c0, c1, c2, c3))
    k0, k1 = key & _LOW, key >> _WORD
    for _ in range(rounds):
        b, a = c2 * _ROUND_B, c0 * _ROUND_A
        c0, c1 = (b >> _WORD) ^ c1 ^ k0, b & _LOW
        c2, c3 = (a >> _WORD) ^ c3 ^ k1, a & _LOW
        k0, k1 = (k0 + _KEY_A) & _LOW, (k1 + _KEY_B) & _LOW
    return tuple(c.astype(np.uint32) for c in (c0, c1, c2, c3))


@dataclass(frozen=True)
class Family:
    """Numbers that are addressed alike: ``count`` equally likely ones, the i-th ``number(i)``.

    They rise with i. ``form``: what the number is of a uniform. ``shares_words``: numbers of
    another family are made of the same words, so that one of each is no two draws.
    """

    name: str
    count: int
    number: Callable[[int], Any]
    form: Form = IDENTITY
    shares_words: bool = False

    def draw(self, address: tuple[Hashable, ...]) -> Any:
        """Return the draw at an address on the path that is followed."""
        source = followed()
        assert source is not None
        if self.shares_words and source.addressed.setdefault(address, self.name) != self.name:
            refuse("tl.rand and tl.randint at one seed and offset, which give one word twice")
        machine = Machine(None, self.number, self.number(self.count * 4 // 7), 0.0)
        return draw_at(
            source,
            (self.name, *address),
            lambda: on_grid(source.uniform(), machine, self.count, self.form),
        )


def _uniform32(k: int) -> Any:
    return float32.kind(float32.kind(k) * float32.kind(SCALE))


def _murmured(k: int) -> Any:
    return float32.kind(min((k + 0.5) * 2.0**-32, 1 - 2.0**-24))


UNIFORM = Family("tl.rand", 2**31, _uniform32, shares_words=True)
INTEGER = Family(
    "tl.randint", 2**32, lambda k: np.int32(k - 2**31), IDENTITY.affine(2.0**32, -(2.0**31)), True
)
HASHED = Family("hash", 2**32, _murmured)
"""Uniforms of 32 bits, rounded to float32, in (0, 1): what rounds to 1 is the number below it."""


def _address(x: Any) -> Hashable:
    if isinstance(x, Draw):
        return id(x.atom), x.form
    return int(x)


def drawn(family: Family, kind: Dtype, *parts: Any) -> Block:
    """Return the draws at the addresses that ``parts``, scalars and blocks, spell together."""

    def at(*columns: Any) -> Any:
        arrays = [np.asanyarray(x) if not isinstance(x, Draw) else x[None] for x in columns]
        shape = np.broadcast_shapes(*(np.shape(x) for x in arrays))
        spread = [np.broadcast_to(x, shape).ravel().tolist() for x in arrays]
        made = [family.draw(tuple(map(_address, row))) for row in zip(*spread, strict=True)]
        return draw_array(made, shape)

    blocks = [block_of(x) for x in parts]
    if all(x.is_scalar for x in blocks):
        return Block(family.draw(tuple(_address(x.data) for x in blocks)), kind)
    rows = [x for x in blocks if x.rest is not None]
    if not rows:
        return Block(at(*(x.data for x in blocks)), kind)
    # Of a row none is drawn until something asks for it.
    count = rows[0].count

    def made(first: int, end: int) -> Any:
        return at(*(x.data if x.is_scalar else x.first(end)[first:end] for x in blocks))

    return Block(np.zeros(0, kind.kind), kind, Rest(made), count)


def _counters(seed: Any, offset: Any) -> tuple[Block, Block]:
    """Return a seed and offsets as the words that Philox takes: -1 of 32 bits is 2^32 - 1."""
    place = block_of(offset)
    wide: Dtype = uint64 if place.dtype.bits > uint32.bits else uint32
    if is_symbolic(place.data):
        wide = place.dtype
    return block_of(seed), place.to(wide)


def randint4x(seed: Any, offset: Any, n_rounds: int = 10) -> tuple[Block, ...]:
    """Return four blocks of random int32 for each offset: ``tl.randint4x``."""
    if followed() is not None:
        return tuple(drawn(INTEGER, int32, *_counters(seed, offset), word) for word in range(4))
    return tuple(word.to(int32, bitcast=True) for word in _words(seed, offset, n_rounds, 4))


def randint(seed: Any, offset: Any, n_rounds: int = 10) -> Block:
    """Return random int32 for each offset: ``tl.randint``."""
    if followed() is not None:
        return drawn(INTEGER, int32, *_counters(seed, offset), 0)
    return _words(seed, offset, n_rounds, 1)[0].to(int32, bitcast=True)


def rand4x(seed: Any, offset: Any, n_rounds: int = 10) -> tuple[Block, ...]:
    """Return four blocks of uniforms, float32 in [0, 1), for each offset: ``tl.rand4x``."""
    if followed() is not None:
        return tuple(drawn(UNIFORM, float32, *_counters(seed, offset), word) for word in range(4))
    return tuple(elementwise(unit, float32, word) for word in _words(seed, offset, n_rounds, 4))


def rand(seed: Any, offset: Any, n_rounds: int = 10) -> Block:
    """Return uniforms, float32 in [0, 1), for each offset: ``tl.rand``."""
    if followed() is not None:
        return drawn(UNIFORM, float32, *_counters(seed, offset), 0)
    return elementwise(unit, float32, _words(seed, offset, n_rounds, 1)[0])


def _words(seed: Any, offset: Any, n_rounds: int, count: int) -> list[Block]:
    place = block_of(offset)
    low = place.to(uint32)
    zero: Block = low * 0
    high = (place >> 32).to(uint32) if place.dtype.bits > uint32.bits else zero
    return _blocks(seed, (low, high, zero, zero), int(n_rounds), count)


def unit(word: Any) -> Any:
    """Return a uniform of each word, float32 in [0, 1)."""
    bits = word.view(np.int32)
    return float32.kind(SCALE) * np.where(bits < 0, ~bits, bits).astype(float32.kind)


def addressed(function: Callable[..., Any], family: Family = HASHED) -> Callable[..., Any]:
    """Return a kernel's own counter-based generator, whose numbers are draws in the exact tier.

    ``function(seed, ...)`` returns uniforms for its arguments, which are their address; a number
    that it draws twice for one address is one draw. Elsewhere it is run itself.
    """
    name = getattr(function, "__name__", "hash")
    own = Family(name, family.count, family.number, family.form)

    def counted(*parts: Any) -> Any:
        return function(*parts) if followed() is None else drawn(own, float32, *parts)

    return counted


def followed_as(function: Callable[..., Any], stand_in: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of a kernel's, for which ``stand_in`` stands in the exact tier.

    For one that computes a known function by a series: of a draw the exact tier follows the
    function, and not the series.
    """

    def choose(*parts: Any) -> Any:
        return (function if followed() is None else stand_in)(*parts)

    return choose
