"""torch's generators and their state, made symbolic.

A state is a tensor of bytes to the code. Those made here hold no bits of a generator but a
number that stands for a place; whatever would read them is refused (:func:`reads_a_state`).
"""

import sys
from collections.abc import Callable, Hashable
from itertools import count
from typing import Any

import torch

from simverify.symbolic.draws.several.winners import decided
from simverify.symbolic.enumeration.source import Source
from simverify.symbolic.generators.sampler import integer_below
from simverify.symbolic.generators.states import hand_out, pickled, seed_of
from simverify.symbolic.streams import Seed, State, Stream

RealGenerator = torch.Generator
DEFAULT = torch.default_generator
_DEFAULT_SEED = 67280421310721
_STATE_BYTES = DEFAULT.get_state().numel()
_MAGIC = 0x51A7E0F51A7E0F51

_CARRY = {
    "clone", "detach", "cpu", "to", "contiguous", "get", "__get__", "size", "dim", "numel",
    "equal", "copy_", "untyped_storage", "storage_offset", "stride", "is_contiguous", "__len__",
    "element_size", "is_floating_point", "is_complex", "requires_grad_", "_is_view", "data_ptr",
    "__deepcopy__", "__reduce_ex__", "type", "pin_memory",
}  # fmt: skip
"""What may be done with a state: it is moved, and compared as a whole."""

_numbers = count(1)


class Streams:
    """The streams of torch's generators: of the defaults, one a device, and of others."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._default: dict[str, Stream] = {}
        self._seed: Seed | None = None
        self._initial: Any = None
        self._places: dict[int, State] = {}
        self._images: dict[tuple[Hashable, int], int] = {}
        source.on_begin.append(self.begin)

    def begin(self) -> None:
        """Forget a path."""
        for known in (self._default, self._places, self._images):
            known.clear()
        self._seed = self._initial = None

    def of(self, generator: Any, device: str = "cpu") -> Stream:
        """Return a generator's stream; that of the default generator for None."""
        if generator is None:
            if device not in self._default:
                self._default[device] = Stream(outside=True)
                if self._seed is not None:
                    self.source.sequences.seed(self._default[device], on_device(device, self._seed))
            return self._default[device]
        if isinstance(generator, SymbolicTorchGenerator):
            return generator.stream
        return self._stream_of_real(generator)

    def _stream_of_real(self, generator: Any) -> Stream:
        """Return the stream of a generator that nothing stands for: one kept in a container.

        Its methods are torch's own, so its state is what says where it stands. Since nothing is
        drawn from it, it is moved on by hand, and never comes to a place twice by itself.
        """
        with torch._C.DisableTorchFunction():
            image = bytes(generator.get_state().numpy().tobytes())
            torch.rand((), generator=generator, device=generator.device)
        stream = Stream()
        seed = Seed(("torch state", image), "a torch generator is set to one and the same state")
        self.source.sequences.seed(stream, seed)
        return stream

    def name(self, seed: Any) -> Seed:
        """Name the draws that follow a seed."""
        return seed_of(self.source, decided(seed), _constant)

    def seed_all(self, seed: Any) -> None:
        """Seed every default generator, as ``torch.manual_seed``."""
        self._seed, self._initial = self.name(seed), seed
        for device, stream in self._default.items():
            self.source.sequences.seed(stream, on_device(device, self._seed))

    def fresh_seed(self) -> tuple[Any, Seed]:
        """Return 64 bits of entropy and the name of what follows them."""
        seed = Seed(self.source.sequences.fresh())
        return hand_out(self.source, integer_below(2**64, self.source.uniform()), seed), seed

    def seed_all_fresh(self) -> Any:
        """Seed every default generator with entropy of the system, and return it."""
        number, _ = self.fresh_seed()
        self.seed_all(number)
        return number

    def initial_seed(self) -> Any:
        """Return what the default generator was seeded with."""
        return DEFAULT.initial_seed() if self._initial is None else self._initial

    def read(self, stream: Stream) -> torch.Tensor:
        """Return the state of a stream: the same bytes at the same place."""
        state = self.source.sequences.state(stream)
        place = (state.key, state.position)
        if place not in self._images:
            self._images[place] = next(_numbers)
            self._places[self._images[place]] = state
        with torch._C.DisableTorchFunction():
            image = torch.zeros(_STATE_BYTES // 8, dtype=torch.int64)
            image[0], image[1] = _MAGIC, self._images[place]
            return image.view(torch.uint8)

    def write(self, stream: Stream, image: Any) -> None:
        """Put a stream where a state says."""
        if not isinstance(image, torch.Tensor) or image.dtype is not torch.uint8:
            raise TypeError("expected a torch.ByteTensor, the state of a generator")
        with torch._C.DisableTorchFunction():
            content = image.detach().cpu().numpy().tobytes()
        magic, number = (int.from_bytes(content[i : i + 8], sys.byteorder) for i in (0, 8))
        if magic != _MAGIC:
            name = ("torch state", content)
            self.source.sequences.seed(
                stream, Seed(name, "a torch generator is set to a constant state")
            )
            return
        state = self._places.get(number)
        if state is None:
            self.source.refuse("a generator's state that an earlier call kept")
        self.source.sequences.put(stream, state)

    @property
    def has_states(self) -> bool:
        """Whether a state has been read, which the code may look into."""
        return bool(self._places)

    def reads_a_state(self, name: str, args: Any) -> bool:
        """Whether a torch function would read the inside of a state."""
        return self.has_states and name not in _CARRY and any(map(_is_state, args))


class SymbolicTorchGenerator(torch.Generator):
    """A ``torch.Generator`` whose draws are symbolic; ``streams`` is set by who intercepts."""

    streams: Streams

    def __init__(self, device: Any = "cpu") -> None:
        # Where torch itself draws from it, unseen, it shall not draw the same in every run.
        RealGenerator.seed(self)
        self.stream = Stream()
        self._initial: Any = _DEFAULT_SEED
        self._seed_with(
            Seed(("torch", _DEFAULT_SEED), "a torch generator is made without a seed of its own")
        )

    @classmethod
    def unseeded(cls) -> "SymbolicTorchGenerator":
        """Return the twin of a generator that was made before the call."""
        twin = cls()
        twin.stream = Stream(outside=True)
        return twin

    def _seed_with(self, seed: Seed) -> None:
        self.streams.source.sequences.seed(self.stream, on_device(self.device.type, seed))

    def manual_seed(self, seed: Any) -> Any:
        """Go to the draws after a seed."""
        self._seed_with(self.streams.name(seed))
        self._initial = seed
        return self

    def seed(self) -> Any:
        """Go to fresh draws, and return what they follow."""
        number, seed = self.streams.fresh_seed()
        self._seed_with(seed)
        self._initial = number
        return number

    def initial_seed(self) -> Any:
        """Return what it was seeded with."""
        return self._initial

    def get_state(self) -> torch.Tensor:
        """Return the state, whose inside cannot be read."""
        return self.streams.read(self.stream)

    def set_state(self, new_state: Any) -> Any:
        """Set the state to one that was read, or to one of plain bytes."""
        self.streams.write(self.stream, new_state)
        return self

    def clone_state(self) -> Any:
        """Return a generator that stands at the same place."""
        twin = type(self)(self.device)
        twin._initial = self._initial
        sequences = self.streams.source.sequences
        sequences.put(twin.stream, sequences.state(self.stream))
        return twin

    def graphsafe_get_state(self) -> Any:
        """Return a generator that shares the state."""
        twin = type(self)(self.device)
        twin._initial, twin.stream = self._initial, self.stream
        return twin

    def graphsafe_set_state(self, state: Any) -> Any:
        """Share the state of another generator."""
        self.stream = state.stream
        return self

    def __copy__(self) -> Any:
        return self.clone_state()

    def __deepcopy__(self, memo: Any) -> Any:
        memo[id(self)] = twin = self.clone_state()
        return twin

    def __reduce__(self) -> Any:
        twin = self.clone_state()
        return pickled(twin.clone_state)


def _refusal(name: str) -> Callable[..., Any]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.streams.source.refuse(f"{name}() of a torch generator")

    return refuse


for _name in dir(torch.Generator):
    if not _name.startswith("_") and _name not in {*vars(SymbolicTorchGenerator), "device"}:
        setattr(SymbolicTorchGenerator, _name, _refusal(_name))


def _constant(seed: Any) -> Seed:
    number = int(seed)
    number += 2**64 if number < 0 else 0
    return Seed(("torch", number), f"a torch generator is seeded with the constant {number}")


def on_device(device: str, seed: Seed) -> Seed:
    """Tell apart what generators of two devices make of one seed."""
    return seed if device == "cpu" or seed.key is None else Seed((device, seed.key), seed.shown)


def _is_state(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.dtype is torch.uint8 and x.numel() == _STATE_BYTES
