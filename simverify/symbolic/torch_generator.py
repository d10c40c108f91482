"""torch's generators and random functions, made symbolic, and the mode that follows the results.

Every torch call made while the mode is on comes through ``__torch_function__``: random
functions draw from the source, functions of symbolic tensors go to
:mod:`~simverify.symbolic.torch_ops`, and the rest run as they are.
"""

# ruff: noqa: D102, D103 - twins are documented in the library that they stand for

__simverify_role__ = "stand-in"


import sys
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from simverify.symbolic import symbolic_tensor
from simverify.symbolic.arrays import make_draw_array, resolve_winners
from simverify.symbolic.forms import IDENTITY_FORM
from simverify.symbolic.promotion import PROMOTED_TYPES, TENSOR_TYPES, Float64Promotion
from simverify.symbolic.provenance import names
from simverify.symbolic.races import current_site
from simverify.symbolic.sampler import (
    CopiedGenerator,
    bind_seed_number,
    draw_integer,
    locate_uniform,
    make_seed,
)
from simverify.symbolic.scalar import uniform_on_grid
from simverify.symbolic.source import SYMBOLIC_CALL_COST, RandomSource, refusing_call
from simverify.symbolic.streams import GeneratorSeed, Stream, StreamState, shared_start
from simverify.symbolic.symbolic_tensor import HALF_PRECISION_GRIDS, SymbolicStorages, uniform_grid
from simverify.symbolic.torch_ops import TorchOps

# Generators and their state.
#
# A state is a tensor of bytes to the code. Those made here hold no bits of a generator but a
# number that stands for a place; whatever would read them is refused (:func:`reads_a_state`).


RealGenerator = torch.Generator
DEFAULT_GENERATOR = torch.default_generator
_DEFAULT_SEED = 67280421310721
_STATE_BYTES = DEFAULT_GENERATOR.get_state().numel()
_STATE_MAGIC = 0x51A7E0F51A7E0F51

_STATE_PRESERVING = names(
    "clone detach cpu to contiguous get __get__ size dim numel equal copy_ untyped_storage "
    "storage_offset stride is_contiguous __len__ element_size is_floating_point is_complex "
    "requires_grad_ _is_view data_ptr __deepcopy__ __reduce_ex__ type pin_memory"
)
"""What may be done with a state: it is moved, and compared as a whole."""

_image_numbers = count(1)


class TorchStreams:
    """The streams of torch's generators: of the defaults, one a device, and of others."""

    def __init__(self, source: RandomSource) -> None:
        self.source = source
        self._default: dict[str, Stream] = {}
        self._seed: GeneratorSeed | None = None
        self._initial: Any = None
        self._places: dict[int, StreamState] = {}
        self._images: dict[tuple[Hashable, int], int] = {}
        source.on_begin.append(self.begin)

    def begin(self) -> None:
        for known in (self._default, self._places, self._images):
            known.clear()
        self._seed = self._initial = None

    def of(self, generator: Any, device: str = "cpu") -> Stream:
        """Return a generator's stream; that of the default generator for None."""
        if generator is None:
            if device not in self._default:
                self._default[device] = Stream(outside=True)
                if device == "cpu" and (start := shared_start(DEFAULT_GENERATOR)) is not None:
                    self.source.sequences.join(self._default[device], start)
                if self._seed is not None:
                    seed = device_seed(device, self._seed)
                    self.source.sequences.seed(self._default[device], seed)
            return self._default[device]
        if isinstance(generator, SymbolicTorchGenerator):
            return generator.stream
        return self._stream_of_real(generator)

    def _stream_of_real(self, generator: Any) -> Stream:
        """Return the stream of a generator kept in a container, named by its state; move it on."""
        with torch._C.DisableTorchFunction():
            image = bytes(generator.get_state().numpy().tobytes())
            torch.rand((), generator=generator, device=generator.device)
        stream, shown = Stream(), "a torch generator is set to one and the same state"
        self.source.sequences.seed(stream, GeneratorSeed(("torch state", image), shown))
        return stream

    def name(self, seed: Any) -> GeneratorSeed:
        """Name the draws that follow a seed."""
        return make_seed(self.source, resolve_winners(seed), _constant_seed)

    def seed_all(self, seed: Any) -> None:
        self._seed, self._initial = self.name(seed), seed
        for device, stream in self._default.items():
            self.source.sequences.seed(stream, device_seed(device, self._seed))

    def fresh_seed(self) -> tuple[Any, GeneratorSeed]:
        """Return 64 bits of entropy and the name of what follows them."""
        seed = GeneratorSeed(self.source.sequences.fresh())
        return bind_seed_number(self.source, draw_integer(2**64, self.source.uniform()), seed), seed

    def seed_all_fresh(self) -> Any:
        number, _ = self.fresh_seed()
        self.seed_all(number)
        return number

    def initial_seed(self) -> Any:
        return DEFAULT_GENERATOR.initial_seed() if self._initial is None else self._initial

    def read(self, stream: Stream) -> torch.Tensor:
        """Return the state of a stream: the same bytes at the same place."""
        state = self.source.sequences.state(stream)
        place = (state.key, state.position)
        if place not in self._images:
            self._images[place] = next(_image_numbers)
            self._places[self._images[place]] = state
        with torch._C.DisableTorchFunction():
            image = torch.zeros(_STATE_BYTES // 8, dtype=torch.int64)
            image[0], image[1] = _STATE_MAGIC, self._images[place]
            return image.view(torch.uint8)

    def write(self, stream: Stream, image: Any) -> None:
        """Put a stream where a state says."""
        if not isinstance(image, torch.Tensor) or image.dtype is not torch.uint8:
            raise TypeError("expected a torch.ByteTensor, the state of a generator")
        with torch._C.DisableTorchFunction():
            content = image.detach().cpu().numpy().tobytes()
        magic, number = (int.from_bytes(content[i : i + 8], sys.byteorder) for i in (0, 8))
        if magic != _STATE_MAGIC:
            shown = "a torch generator is set to a constant state"
            self.source.sequences.seed(stream, GeneratorSeed(("torch state", content), shown))
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
        return (
            self.has_states
            and name not in _STATE_PRESERVING
            and any(
                isinstance(x, torch.Tensor) and x.dtype is torch.uint8 and x.numel() == _STATE_BYTES
                for x in args
            )
        )


class SymbolicTorchGenerator(CopiedGenerator, torch.Generator):
    """A ``torch.Generator`` whose draws are symbolic; ``streams`` is set by who intercepts."""

    streams: TorchStreams

    def __init__(self, device: Any = "cpu") -> None:
        # Where torch itself draws from it, unseen, each run must draw other numbers.
        RealGenerator.seed(self)
        self.stream = Stream()
        self._initial: Any = _DEFAULT_SEED
        unset = "a torch generator is made without a seed of its own"
        self._seed_with(GeneratorSeed(("torch", _DEFAULT_SEED), unset))

    @classmethod
    def unseeded(cls) -> "SymbolicTorchGenerator":
        """Return the twin of a generator that was made before the call."""
        twin = cls()
        twin.stream = Stream(outside=True)
        return twin

    def _seed_with(self, seed: GeneratorSeed) -> None:
        self.streams.source.sequences.seed(self.stream, device_seed(self.device.type, seed))

    def manual_seed(self, seed: Any) -> Any:
        self._seed_with(self.streams.name(seed))
        self._initial = seed
        return self

    def seed(self) -> Any:
        number, seed = self.streams.fresh_seed()
        self._seed_with(seed)
        self._initial = number
        return number

    def initial_seed(self) -> Any:
        return self._initial

    def get_state(self) -> torch.Tensor:
        return self.streams.read(self.stream)

    def set_state(self, new_state: Any) -> Any:
        self.streams.write(self.stream, new_state)
        return self

    def clone_state(self) -> Any:
        twin = type(self)(self.device)
        twin._initial = self._initial
        sequences = self.streams.source.sequences
        sequences.put(twin.stream, sequences.state(self.stream))
        return twin

    def graphsafe_get_state(self) -> Any:
        twin = type(self)(self.device)
        twin._initial, twin.stream = self._initial, self.stream
        return twin

    def graphsafe_set_state(self, state: Any) -> Any:
        self.stream = state.stream
        return self

    def __copy__(self) -> Any:
        return self.clone_state()


def _refusing_method(name: str) -> Callable[..., Any]:
    return lambda self, *args, **kwargs: self.streams.source.refuse(
        f"{name}() of a torch generator"
    )


for _name in dir(torch.Generator):
    if not _name.startswith("_") and _name not in {*vars(SymbolicTorchGenerator), "device"}:
        setattr(SymbolicTorchGenerator, _name, _refusing_method(_name))


def _constant_seed(seed: Any) -> GeneratorSeed:
    number = int(seed)
    number += 2**64 if number < 0 else 0
    shown = f"a torch generator is seeded with the constant {number}"
    return GeneratorSeed(("torch", number), shown)


def device_seed(device: str, seed: GeneratorSeed) -> GeneratorSeed:
    """Tell apart what generators of two devices make of one seed."""
    if device == "cpu" or seed.key is None:
        return seed
    return GeneratorSeed((device, seed.key), seed.shown)


REFUSED_FUNCTIONS = names(
    "gumbel_softmax normal normal_ randn randn_like poisson cauchy_ geometric_ log_normal_ rrelu "
    "rrelu_ alpha_dropout feature_dropout native_dropout binomial randint_like _standard_gamma "
    "_sample_dirichlet"
)
_MADE_FUNCTIONS = names("_rand _randint _randperm")
"""What makes a tensor of the type of ``out``."""

_EXPORT_FUNCTIONS = {"item", "tolist", "numpy", "__float__", "__array__", "__bool__"}
"""What hands a tensor's numbers to code where no dtype is seen."""


class SymbolicTorch(TorchFunctionMode):
    """Follows torch code; see the module."""

    def __init__(
        self, source: RandomSource, streams: TorchStreams, lift: Float64Promotion | None
    ) -> None:
        super().__init__()
        self.source = source
        self.streams = streams
        self.shadows = SymbolicStorages(source)
        self.drawn = 0
        self.closed = False
        self._casts = PROMOTED_TYPES[lift] if lift else ()
        self._coarse = {getattr(torch, x) for x in self._casts if hasattr(torch, x)}
        self._coarse_tensors = {f"torch.{x}" for x in TENSOR_TYPES[lift]} if lift else set()
        self._promoted: list[tuple[weakref.ref[torch.Tensor], torch.Tensor]] = []
        self.ops = TorchOps(source, self.shadows)
        # Names that need not be looked at again where nothing else is given: most calls are such.
        self._tame: set[str] = set()
        self._random: dict[str, Callable[..., Any]] = {
            name: getattr(self, f"_{name}")
            for name in names(
                "rand rand_like uniform_ exponential_ bernoulli bernoulli_ multinomial randint "
                "randperm random_"
            )
        }

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # numpydoc: see torch
        kwargs = kwargs or {}
        if self.closed:
            return func(*args, **kwargs)
        if self._coarse:
            args = tuple(map(self._lifted, args))
            kwargs = {key: self._lifted(x) for key, x in kwargs.items()}
        name = getattr(func, "__name__", "")
        random = self._random.get(name)
        if random is not None:
            self.source.torch_calls += SYMBOLIC_CALL_COST
            return self.drawing(random, args, kwargs)
        if kwargs or self.streams.has_states or name not in self._tame:
            self.must_not_draw(name, args, kwargs)
        if name in self._casts:
            func, name = torch.Tensor.double, "double"
        among = self.shadows.among
        if among(args) or (kwargs and among(kwargs.values())):
            self.source.torch_calls += SYMBOLIC_CALL_COST
            return self.ops.run(func, name, args, kwargs)
        self.source.torch_calls += 1
        if name in _EXPORT_FUNCTIONS:
            self.source.meet(args[0].dtype)
        return func(*args, **kwargs)

    def drawing(self, random: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """Call a random function, and count what it draws."""
        before = len(self.source.draws)
        out = kwargs.get("out")
        if out is not None:
            kwargs = {key: x for key, x in kwargs.items() if key != "out"}
            if random.__name__ in _MADE_FUNCTIONS:
                kwargs.setdefault("dtype", out.dtype)
        result = random(*args, **kwargs)
        self.drawn += len(self.source.draws) - before
        return result if out is None else self.ops.into(result, out)

    def must_not_draw(self, name: str, args: Any, kwargs: dict[str, Any]) -> None:
        """Refuse a function that draws in a way not known here, or reads a state."""
        if (
            name in REFUSED_FUNCTIONS
            or kwargs.get("generator") is not None
            or is_training_dropout(name, args, kwargs)
        ):
            self.source.refuse(f"torch.{name}")
        if self.streams.reads_a_state(name, args):
            self.source.refuse("the inside of a torch generator's state (put it back whole)")
        if "dropout" not in name:
            self._tame.add(name)

    def _lifted(self, x: Any) -> Any:
        if type(x) is torch.dtype:
            return torch.float64 if x in self._coarse else x
        if isinstance(x, str):
            return "torch.DoubleTensor" if x in self._coarse_tensors else x
        for tensor in x if isinstance(x, list | tuple) else (x,):
            if isinstance(tensor, torch.Tensor) and tensor.dtype in self._coarse:
                self._promote(tensor)
        return x

    def _promote(self, tensor: torch.Tensor) -> None:
        """Make doubles of a tensor that the code made elsewhere; of a view its base would not."""
        if tensor._base is None and not self.shadows.among((tensor,)):
            self._promoted.append((weakref.ref(tensor), tensor.data))
            tensor.data = tensor.data.double()

    def put_back(self) -> None:
        """Give the tensors that were promoted their own numbers again."""
        for reference, data in reversed(self._promoted):
            if (tensor := reference()) is not None:
                tensor.data = data
        self._promoted.clear()

    # -- the draws --

    def _fill(self, like: torch.Tensor, generator: Any) -> torch.Tensor:
        draw = self._uniforms(generator, like)
        values = make_draw_array([draw() for _ in range(like.numel())], tuple(like.shape))
        return self.shadows.tensor(values, like.dtype, like.device)

    def _stream(self, generator: Any, like: torch.Tensor) -> Stream:
        self.source.make_room(like.numel())
        return self.streams.of(generator, like.device.type)

    def _uniforms(
        self, generator: Any, like: torch.Tensor, low: float = 0.0, high: float = 1.0
    ) -> Callable[[], Any]:
        """Return what draws: multiples of the precision of the type, between two bounds."""
        stream, dtype = self._stream(generator, like), like.dtype
        kind = ("rand", dtype) if like.device.type == "cpu" else ("rand", dtype, like.numel())
        if dtype in HALF_PRECISION_GRIDS:
            self.source.meet(dtype)
        if (grid := uniform_grid(dtype, low, high)) is not None:
            machine, points = grid
            form = IDENTITY_FORM.affine(high - low, low)
            return lambda: uniform_on_grid(self.source.uniform(stream, kind), machine, points, form)
        draw = self._uniforms(generator, like)
        return lambda: low + (high - low) * draw()

    def _rand(self, *size: Any, generator: Any = None, **kwargs: Any) -> torch.Tensor:
        return self._fill(torch.empty(*size, **kwargs), generator)

    def _rand_like(self, like: torch.Tensor, generator: Any = None, **kw: Any) -> torch.Tensor:
        return self._fill(torch.empty_like(like, **kw), generator)

    def _in_place(self, tensor: torch.Tensor, values: Any) -> torch.Tensor:
        """Write values, a list or an array, into a tensor."""
        if isinstance(values, list):
            values = make_draw_array(values, tuple(tensor.shape))
        self.shadows.write(tensor, values)
        return tensor

    def _uniform_(self, tensor: torch.Tensor, *bounds: Any, **kw: Any) -> torch.Tensor:
        low = bounds[0] if bounds else kw.get("from", 0.0)
        high = bounds[1] if len(bounds) > 1 else kw.get("to", 1.0)
        # Bounds that torch refuses it refuses of nothing too.
        torch.empty(0, dtype=tensor.dtype).uniform_(low, high)
        draw = self._uniforms(kw.get("generator"), tensor, float(low), float(high))
        return self._in_place(tensor, [draw() for _ in range(tensor.numel())])

    def _exponential_(
        self, tensor: torch.Tensor, lambd: float = 1.0, *, generator: Any = None
    ) -> torch.Tensor:
        stream, kind = self._stream(generator, tensor), _draw_kind("exponential", tensor)
        values = [self.source.exponential(stream, kind) for _ in range(tensor.numel())]
        if lambd != 1:
            values = [e / lambd for e in values]
        return self._in_place(tensor, values)

    def _coins(self, probs: torch.Tensor, generator: Any) -> Any:
        if self.shadows.is_symbolic(probs):
            self.source.refuse("torch.bernoulli with symbolic probabilities")
        self.source.meet(probs.dtype)
        stream, kind = self._stream(generator, probs), _draw_kind("bernoulli", probs)
        flat = probs.detach().double().reshape(-1).tolist()
        if not all(0 <= p <= 1 for p in flat):
            raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
        drawn = [self.source.pick((1 - p, p), stream, kind) for p in flat]
        return torch.tensor(drawn, dtype=torch.float64).reshape(probs.shape)

    def _bernoulli(
        self, probs: torch.Tensor, p: Any = None, *, generator: Any = None
    ) -> torch.Tensor:
        rates = probs if p is None else torch.full_like(probs, p, dtype=torch.float64)
        return self._coins(rates, generator).to(probs.dtype)  # type: ignore[no-any-return]

    def _bernoulli_(
        self, tensor: torch.Tensor, p: Any = 0.5, *, generator: Any = None
    ) -> torch.Tensor:
        rates = torch.as_tensor(p, dtype=torch.float64).expand(tensor.shape)
        return self._in_place(tensor, self._coins(rates, generator).numpy())

    def _multinomial(
        self,
        probs: torch.Tensor,
        num_samples: int,
        replacement: bool = False,
        *,
        generator: Any = None,
    ) -> torch.Tensor:
        if self.shadows.is_symbolic(probs):
            self.source.refuse("torch.multinomial of symbolic probabilities")
        self.source.meet(probs.dtype)
        rows = probs.detach().double().reshape(-1, probs.shape[-1]).tolist()
        for row in rows:
            positive = sum(w > 0 for w in row)
            enough = positive >= (1 if replacement else num_samples)
            if not (enough and min(row) >= 0 and np.isfinite(sum(row))):
                # Let torch say what is wrong; what it lets pass is not what it documents. On the
                # CPU: a GPU would not say it but fail from there on.
                torch.multinomial(probs.cpu(), num_samples, replacement)
                self.source.refuse("torch.multinomial with fewer outcomes than samples")
        stream = self._stream(generator, probs)
        self.source.make_room(len(rows) * num_samples)
        kind = (*_draw_kind("multinomial", probs), num_samples, replacement)
        if num_samples == 1:
            site = current_site()
            drawn = [[self.source.pick_later(row, stream, kind, site)] for row in rows]
        else:
            drawn = [self._outcomes(row, num_samples, replacement, stream, kind) for row in rows]
        shape = (*probs.shape[:-1], num_samples)
        values = make_draw_array([x for outcomes in drawn for x in outcomes], shape)
        return self.shadows.tensor(values, torch.int64, probs.device)

    def _outcomes(
        self, row: list[float], count: int, replacement: bool, stream: Stream, kind: Hashable
    ) -> list[int]:
        row, drawn = list(row), []
        for _ in range(count):
            drawn.append(self.source.pick(row, stream, kind))
            if not replacement:
                row[drawn[-1]] = 0.0
        return drawn

    def _integers(self, low: int, high: int, like: torch.Tensor, generator: Any) -> Any:
        stream, kind = self._stream(generator, like), (*_draw_kind("randint", like), high - low)
        drawn = [
            low + draw_integer(high - low, self.source.uniform(stream, kind, among=high - low))
            for _ in range(like.numel())
        ]
        return make_draw_array(drawn, tuple(like.shape)) if drawn else np.zeros(tuple(like.shape))

    def _randint(self, *args: Any, generator: Any = None, **kwargs: Any) -> torch.Tensor:
        *bounds, size = args if "size" not in kwargs else (*args, kwargs.pop("size"))
        low = kwargs.pop("low", 0) if len(bounds) < 2 else bounds[0]
        high = kwargs.pop("high") if "high" in kwargs else bounds[-1]
        empty = torch.empty(size, **{"dtype": torch.int64, **kwargs})
        drawn = self._integers(int(low), int(high), empty, generator)
        return self.shadows.tensor(drawn, empty.dtype, empty.device)

    def _random_(self, tensor: torch.Tensor, *bounds: Any, generator: Any = None) -> torch.Tensor:
        if not bounds:
            self.source.refuse("Tensor.random_() without bounds")
        low, high = (0, bounds[0]) if len(bounds) == 1 else bounds
        return self._in_place(tensor, self._integers(int(low), int(high), tensor, generator))

    def _randperm(self, n: int, *, generator: Any = None, **kwargs: Any) -> torch.Tensor:
        empty = torch.empty(n, **{"dtype": torch.int64, **kwargs})
        stream, left = self._stream(generator, empty), list(range(n))
        order = []
        while left:
            u = self.source.uniform(stream, ("randperm", n, len(left)), among=len(left))
            order.append(left.pop(locate_uniform(u, [i / len(left) for i in range(1, len(left))])))
        return torch.tensor(order, **{"dtype": torch.int64, **kwargs})


def _draw_kind(name: str, like: torch.Tensor) -> tuple[Hashable, ...]:
    """Say how numbers are made of words: by whole calls, for all but uniforms."""
    return name, like.dtype, like.numel()


def is_training_dropout(name: str, args: Any, kwargs: dict[str, Any]) -> bool:
    if "dropout" not in name or name in ("dropout_", "feature_dropout_"):
        return "dropout" in name
    given = args[2] if len(args) > 2 else True
    return bool(kwargs.get("training", kwargs.get("train", given)))


# The interception: torch's functions, its generators, and the mode that follows calls.
#
# The generators include the default ones, one a device, and the functions that seed and keep them.


class DefaultGenerator(SymbolicTorchGenerator):
    """What stands for the default generator of a device.

    It does not touch the device: a GPU would be begun to be used, for half a second and hundreds
    of megabytes, and cannot be in a process forked from one that uses it.
    """

    def __new__(cls, device: Any = "cpu") -> Any:
        """Return torch's own generator of the CPU, whatever device this one stands for."""
        return super().__new__(cls)

    def __init__(self, device: Any = "cpu") -> None:
        """Nothing is seeded by it."""
        self._stands_on = torch.device(device)

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return self._stands_on

    @property
    def stream(self) -> Stream:  # type: ignore[override]
        """The stream that functions without a generator draw from."""
        return self.streams.of(None, self.device.type)

    def manual_seed(self, seed: Any) -> Any:
        self._seed_with(self.streams.name(seed))
        self.streams._initial = seed
        return self

    def seed(self) -> Any:
        number, _ = self.streams.fresh_seed()
        self.manual_seed(number)
        return number

    def initial_seed(self) -> Any:
        return self.streams.initial_seed()

    def clone_state(self) -> Any:
        """Return a generator that stands where this one does; it is no default one."""
        kind = type("Generator", (SymbolicTorchGenerator,), {"streams": self.streams})
        twin: Any = kind(self.device)
        twin._initial = self.initial_seed()
        sequences = self.streams.source.sequences
        sequences.put(twin.stream, sequences.state(self.stream))
        return twin

    def graphsafe_get_state(self) -> Any:
        return self.streams.source.refuse("graphsafe_get_state() of torch's default generator")

    def graphsafe_set_state(self, state: Any) -> Any:
        return self.streams.source.refuse("graphsafe_set_state() of torch's default generator")


def seeding_functions(source: RandomSource, streams: TorchStreams) -> list[tuple[Any, str, Any]]:
    """Return ``(module, name, new)`` of what seeds and keeps states; new names are refused."""
    ours = _default_generator_functions(_default_generator(streams, "cpu"), streams)
    written_in_python = {"fork_rng"}
    patches = [
        (torch.random, name, ours.get(name, refusing_call(source, f"torch.{name}")))
        for name, value in list(vars(torch.random).items())
        # Torch 2.11 and older have no __all__ there.
        if isinstance(value, FunctionType) and value.__module__ == torch.random.__name__
        if not name.startswith("_") and name not in written_in_python
    ]
    patches += [(torch, name, new) for name, new in ours.items()]
    patches.append((torch.random, "default_generator", ours["default_generator"]))
    for device in ("cuda", "mps", "xpu"):
        module = getattr(torch, device, None)
        if module is None or not module.is_available():
            continue
        known = _default_generator_functions(_default_generator(streams, device), streams)
        for name in dir(module):
            if name.endswith(("seed", "seed_all", "rng_state", "rng_state_all")):
                new = known.get(name.removesuffix("_all") if "seed" in name else name)
                new = new or refusing_call(source, f"torch.{device}.{name}")
                patches.append((module, name, new))
    return patches


def _default_generator_functions(
    default: DefaultGenerator, streams: TorchStreams
) -> dict[str, Any]:
    """Return the functions of a module that work on the default generator of a device."""

    def manual_seed(seed: Any) -> Any:
        streams.seed_all(seed)
        return default

    def set_rng_state(new_state: Any, device: Any = None) -> None:
        default.set_state(new_state)

    on_cpu = default.device.type == "cpu"
    return {
        "manual_seed": manual_seed if on_cpu else default.manual_seed,
        "seed": streams.seed_all_fresh if on_cpu else default.seed,
        "initial_seed": default.initial_seed,
        "get_rng_state": lambda device=None: default.get_state(),
        "set_rng_state": set_rng_state,
        **({"default_generator": default} if on_cpu else {}),
    }


def _default_generator(streams: TorchStreams, device: str) -> DefaultGenerator:
    kind = type("Generator", (DefaultGenerator,), {"streams": streams})
    default: DefaultGenerator = kind(device)
    return default


class PlainTorch(SymbolicTorch):
    """Chooses the values of random functions; their tensors are torch's own.

    torch itself says dtype, device and shape, and what it refuses; the twin says the values. All
    other functions are torch's: nothing is followed here.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.closed:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        random = self._random.get(name)
        if random is None:
            self.must_not_draw(name, args, kwargs)
            return func(*args, **kwargs)
        shown = func(*args, **kwargs)
        value = self.drawing(random, args, kwargs)
        if name.endswith("_"):
            return shown  # in place: it holds the values by now
        if value.shape != shown.shape:
            self.source.refuse(f"torch.{name}, which torch gives the shape {tuple(shown.shape)}")
        return shown.copy_(value)


@contextmanager
def intercept_torch(
    source: RandomSource,
    swap: Callable[[Any, str, Any], None],
    lift: Float64Promotion | None,
    *,
    plain: bool = False,
) -> Iterator[Callable[[Any], Any]]:
    """Follow torch until left, on one thread; yields what stands for a kept generator.

    ``swap(owner, name, new)`` replaces a name for the duration; ``lift``: types that count as
    float64; ``plain``: draws are numbers, and nothing has to be followed.
    """
    streams = TorchStreams(source)
    twin: Any = type("Generator", (SymbolicTorchGenerator,), {"streams": streams})
    for owner, name, new in seeding_functions(source, streams):
        swap(owner, name, new)
    swap(torch, "Generator", twin)

    mode = (PlainTorch if plain else SymbolicTorch)(source, streams, lift)
    for name in () if plain else ("from_numpy", "as_tensor", "asarray", "tensor"):
        swap(torch, name, mode.ops.converter(name, getattr(torch, name)))
    by_rows = symbolic_tensor.vmap_by_rows(source, lambda: mode.drawn)
    swap(symbolic_tensor.VMAP_MODULE, "vmap_impl", by_rows)
    source.on_begin.append(mode.shadows.clear)
    source.tensors = mode.shadows
    twins: dict[int, tuple[Any, Any]] = {}

    def twin_of(value: Any) -> Any:
        if type(value) is not RealGenerator:
            return None
        if id(value) not in twins:
            made = twin.unseeded()
            if (start := shared_start(value)) is not None:
                source.sequences.join(made.stream, start)
                source.on_begin.append(partial(source.sequences.join, made.stream, start))
            twins[id(value)] = (value, made)
        return twins[id(value)][1]

    with ExitStack() as stack:
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        torch.set_num_threads(1)
        if lift == "single":
            stack.callback(torch.set_default_dtype, torch.get_default_dtype())
            torch.set_default_dtype(torch.float64)
        if "torch._dynamo" in sys.modules:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        swap(threading.Thread, "_bootstrap_inner", _enter_in_threads(mode))
        stack.callback(mode.put_back)
        stack.callback(setattr, mode, "closed", True)
        stack.callback(mode.shadows.close)
        stack.enter_context(mode)
        yield twin_of


def _enter_in_threads(mode: SymbolicTorch) -> Callable[[Any], None]:
    """Return what threads run: torch keeps its modes by thread."""
    original: Any = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    def run(thread: Any) -> None:
        with mode:
            original(thread)

    return run
