"""torch's random functions, made symbolic, and the mode that follows the results.

Every torch call made while the mode is on comes through ``__torch_function__``: random
functions draw from the source, functions of symbolic tensors go to :mod:`.torch_ops`, and
the rest run as they are.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from simverify.symbolic.draws.arrays import draw_array
from simverify.symbolic.draws.integers import FEW_CELLS, MAX_CELLS
from simverify.symbolic.draws.operators import MANY
from simverify.symbolic.draws.scalars import Draw
from simverify.symbolic.draws.uniforms import Uniform
from simverify.symbolic.generators.sampler import wide_integer
from simverify.symbolic.generators.torch_ops import TorchOps
from simverify.symbolic.generators.torch_shadow import Shadows
from simverify.symbolic.source import Source, Stream
from simverify.symbolic.stand_ins.lift import LIFTED, Lift

REFUSED = {
    "gumbel_softmax",
    "normal", "normal_", "randn", "randn_like", "poisson", "cauchy_", "geometric_",
    "log_normal_", "rrelu", "rrelu_", "alpha_dropout", "feature_dropout", "native_dropout",
    "binomial", "randint_like", "standard_gamma", "_standard_gamma", "_sample_dirichlet",
}  # fmt: skip
_LEAVES_TORCH = {"item", "tolist", "numpy", "__float__", "__array__", "__bool__"}
"""What hands a tensor's numbers to code where no dtype is seen."""

RealGenerator = torch.Generator


class Streams:
    """The stream of each torch generator; ``None`` is the global one."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._streams: dict[int, tuple[Any, Stream]] = {}

    def of(self, generator: Any) -> Stream:
        """Return the generator's stream, unseeded at the start of a path."""
        if id(generator) not in self._streams:
            self._streams[id(generator)] = (generator, Stream())
        stream = self._streams[id(generator)][1]
        if stream.epoch != self._source.epoch:
            stream.key, stream.position, stream.epoch = None, 0, self._source.epoch
        return stream

    def seed(self, generator: Any, seed: Any) -> None:
        """Go to the draws after a seed."""
        key: Any = ("torch", repr(seed), ()) if not isinstance(seed, Draw) else None
        if isinstance(seed, Draw):
            key = ("drawn", id(seed.atom), seed.form)
        self._source.seed(self.of(generator), None if seed is None else key)


class SymbolicTorch(TorchFunctionMode):
    """Follows torch code; see the module."""

    def __init__(self, source: Source, streams: Streams, lift: Lift | None) -> None:
        super().__init__()
        self.source = source
        self.streams = streams
        self.shadows = Shadows(source)
        self._casts = LIFTED[lift] if lift else ()
        self._coarse = {getattr(torch, x) for x in self._casts if hasattr(torch, x)}
        self.ops = TorchOps(source, self.shadows)
        self._random: dict[str, Callable[..., Any]] = {
            "rand": self._rand,
            "rand_like": self._rand_like,
            "uniform_": self._uniform_,
            "exponential_": self._exponential_,
            "bernoulli": self._bernoulli,
            "bernoulli_": self._bernoulli_,
            "multinomial": self._multinomial,
            "randint": self._randint,
            "randperm": self._randperm,
            "random_": self._random_,
        }

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:  # numpydoc: see torch
        """Run one torch call."""
        kwargs = kwargs or {}
        if self._coarse:
            args = tuple(map(self._lifted, args))
            kwargs = {key: self._lifted(x) for key, x in kwargs.items()}
        name = getattr(func, "__name__", "")
        random = self._random.get(name)
        if random is not None:
            return random(*args, **kwargs)
        if name in REFUSED or (name == "dropout" and kwargs.get("training", True)):
            self.source.refuse(f"torch.{name}")
        if name in self._casts:
            func, name = torch.Tensor.double, "double"
        symbolic = self.shadows.is_symbolic
        if any(map(symbolic, args)) or (kwargs and any(map(symbolic, kwargs.values()))):
            return self.ops.run(func, name, args, kwargs)
        if name in _LEAVES_TORCH:
            self.source.meet(args[0].dtype)
        return func(*args, **kwargs)

    def _lifted(self, x: Any) -> Any:
        return torch.float64 if type(x) is torch.dtype and x in self._coarse else x

    # -- the draws --

    def _fill(self, like: torch.Tensor, one: Callable[[], Any]) -> torch.Tensor:
        values = draw_array([one() for _ in range(like.numel())], tuple(like.shape))
        return self.shadows.tensor(values, like.dtype, like.device)

    def _uniforms(self, generator: Any, dtype: torch.dtype) -> Callable[[], Any]:
        """Return what draws; torch fills 16-bit floats with multiples of their precision."""
        stream = self.streams.of(generator)
        if dtype not in (torch.float16, torch.bfloat16):
            return lambda: self.source.uniform(stream)
        steps = 2.0 / torch.finfo(dtype).eps

        def stepped() -> Any:
            u = self.source.uniform(stream)
            return (u * steps).floor() / steps if isinstance(u, Draw) else u // (1 / steps) / steps

        return stepped

    def _rand(self, *size: Any, generator: Any = None, **kwargs: Any) -> torch.Tensor:
        kwargs.pop("out", None) is not None and self.source.refuse("torch.rand(out=)")
        empty = torch.empty(*size, **kwargs)
        return self._fill(empty, self._uniforms(generator, empty.dtype))

    def _rand_like(self, like: torch.Tensor, generator: Any = None, **kw: Any) -> torch.Tensor:
        empty = torch.empty_like(like, **kw)
        return self._fill(empty, self._uniforms(generator, empty.dtype))

    def _in_place(self, tensor: torch.Tensor, values: Any) -> torch.Tensor:
        self.shadows.write(tensor, values)
        return tensor

    def _uniform_(self, tensor: torch.Tensor, *bounds: Any, **kw: Any) -> torch.Tensor:
        low = bounds[0] if bounds else kw.get("from", 0.0)
        high = bounds[1] if len(bounds) > 1 else kw.get("to", 1.0)
        draw = self._uniforms(kw.get("generator"), tensor.dtype)
        values = [low + (high - low) * draw() for _ in range(tensor.numel())]
        return self._in_place(tensor, draw_array(values, tuple(tensor.shape)))

    def _exponential_(
        self, tensor: torch.Tensor, lambd: float = 1.0, *, generator: Any = None
    ) -> torch.Tensor:
        stream = self.streams.of(generator)
        values = [self.source.exponential(stream) / lambd for _ in range(tensor.numel())]
        return self._in_place(tensor, draw_array(values, tuple(tensor.shape)))

    def _coins(self, probs: torch.Tensor, generator: Any) -> Any:
        if self.shadows.is_symbolic(probs):
            self.source.refuse("torch.bernoulli with symbolic probabilities")
        self.source.meet(probs.dtype)
        stream = self.streams.of(generator)
        flat = probs.detach().double().reshape(-1).tolist()
        if not all(0 <= p <= 1 for p in flat):
            raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
        drawn = [self.source.pick((1 - p, p), stream) for p in flat]
        return torch.tensor(drawn, dtype=torch.float64).reshape(probs.shape)

    def _bernoulli(
        self, probs: torch.Tensor, p: Any = None, *, generator: Any = None, out: Any = None
    ) -> torch.Tensor:
        out is not None and self.source.refuse("torch.bernoulli(out=)")
        rates = probs if p is None else torch.full_like(probs, p, dtype=torch.float64)
        return self._coins(rates, generator).to(probs.dtype)  # type: ignore[no-any-return]

    def _bernoulli_(
        self, tensor: torch.Tensor, p: Any = 0.5, *, generator: Any = None
    ) -> torch.Tensor:
        rates = torch.as_tensor(p, dtype=torch.float64).expand(tensor.shape)
        return self._in_place(tensor, self._coins(rates, generator).numpy())

    def _multinomial(
        self, probs: torch.Tensor, num_samples: int, replacement: bool = False,
        *, generator: Any = None, out: Any = None,
    ) -> torch.Tensor:  # fmt: skip
        if out is not None or self.shadows.is_symbolic(probs):
            self.source.refuse("torch.multinomial of symbolic probabilities or with out=")
        self.source.meet(probs.dtype)
        rows = probs.detach().double().reshape(-1, probs.shape[-1]).tolist()
        for row in rows:
            positive = sum(w > 0 for w in row)
            enough = positive >= (1 if replacement else num_samples)
            if not (enough and min(row) >= 0 and np.isfinite(sum(row))):
                # Let torch say what is wrong; what it lets pass is not what it documents.
                torch.multinomial(probs, num_samples, replacement)
                self.source.refuse("torch.multinomial with fewer outcomes than samples")
        stream = self.streams.of(generator)
        drawn = [self._outcomes(row, num_samples, replacement, stream) for row in rows]
        result = torch.tensor(drawn, dtype=torch.int64, device=probs.device)
        return result.reshape(*probs.shape[:-1], num_samples)

    def _outcomes(
        self, row: list[float], count: int, replacement: bool, stream: Stream
    ) -> list[int]:
        row, drawn = list(row), []
        for _ in range(count):
            drawn.append(self.source.pick(row, stream))
            if not replacement:
                row[drawn[-1]] = 0.0
        return drawn

    def _integers(self, low: int, high: int, like: torch.Tensor, generator: Any) -> Any:
        n = high - low
        if n > MAX_CELLS:
            hint = " (a seed? pass it as a number)" if n >= MANY else ""
            self.source.refuse(f"a random integer out of {n}{hint}")
        stream = self.streams.of(generator)
        drawn = [low + self._below(n, stream) for _ in range(like.numel())]
        return draw_array(drawn, tuple(like.shape)) if drawn else np.zeros(tuple(like.shape))

    def _below(self, n: int, stream: Stream) -> Any:
        u = self.source.uniform(stream)
        if n > FEW_CELLS:
            return wide_integer(n, u)
        cuts = [i / n for i in range(1, n)]
        return u.locate(cuts) if isinstance(u, Uniform) else sum(u >= c for c in cuts)

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
        stream, left = self.streams.of(generator), list(range(n))
        order = [left.pop(self._below(len(left), stream)) for _ in range(n)]
        return torch.tensor(order, **{"dtype": torch.int64, **kwargs})


@contextmanager
def torch_intercepted(
    source: Source,
    swap: Callable[[Any, str, Any], None],
    lift: Lift | None,
    *,
    plain: bool = False,
) -> Iterator[Callable[[Any], Any]]:
    """Follow torch until left, on one thread; yields what stands for a kept generator.

    ``swap(owner, name, new)`` replaces a name for the duration; ``lift``: types that count as
    float64; ``plain``: draws are numbers, and nothing has to be followed.
    """
    streams = Streams(source)

    class Generator(torch.Generator):
        """A ``torch.Generator`` whose draws are symbolic."""

        def manual_seed(self, seed: Any) -> Any:
            """Go to the draws after a seed."""
            streams.seed(self, seed)
            return self

        def seed(self) -> int:
            """Go to fresh draws."""
            streams.seed(self, None)
            return 0

    def manual_seed(seed: Any) -> Any:
        streams.seed(None, seed)
        return torch.default_generator

    def refusal(name: str) -> Callable[..., Any]:
        return lambda *args, **kwargs: source.refuse(f"torch.{name}")

    for owner in (torch, torch.random):
        swap(owner, "manual_seed", manual_seed)
        swap(owner, "seed", lambda: streams.seed(None, None))
        for name in ("get_rng_state", "set_rng_state"):
            swap(owner, name, refusal(name))
    swap(torch, "Generator", Generator)

    if plain:
        from simverify.symbolic.plain.torch_plain import PlainTorch

        mode: SymbolicTorch = PlainTorch(source, streams, lift)
    else:
        mode = SymbolicTorch(source, streams, lift)
        for name in ("from_numpy", "as_tensor", "asarray", "tensor"):
            swap(torch, name, mode.ops.converter(name, getattr(torch, name)))
    source.on_begin.append(mode.shadows.clear)
    threads = torch.get_num_threads()

    def kept(value: Any) -> Any:
        return Generator() if type(value) is RealGenerator else None

    with ExitStack() as stack:
        stack.callback(torch.set_num_threads, threads)
        torch.set_num_threads(1)
        if lift == "single":
            stack.callback(torch.set_default_dtype, torch.get_default_dtype())
            torch.set_default_dtype(torch.float64)
        if "torch._dynamo" in sys.modules:
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(mode)
        yield kept
