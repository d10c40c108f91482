"""torch's random functions, made symbolic, and the mode that follows the results.

Every torch call made while the mode is on comes through ``__torch_function__``: random
functions draw from the source, functions of symbolic tensors go to :mod:`.ops`, and
the rest run as they are.
"""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from simverify.symbolic.draws.in_arrays.arrays import draw_array
from simverify.symbolic.draws.scalars import Uniform, on_grid
from simverify.symbolic.draws.several.sites import this_site
from simverify.symbolic.draws.values.forms import IDENTITY
from simverify.symbolic.enumeration.effort import FOLLOWED_CALLS
from simverify.symbolic.enumeration.source import Source
from simverify.symbolic.generators.sampler import integer_below
from simverify.symbolic.generators.torch.grids import COARSE, grid_of
from simverify.symbolic.generators.torch.ops import TorchOps
from simverify.symbolic.generators.torch.shadow import Shadows
from simverify.symbolic.generators.torch.state import Streams
from simverify.symbolic.stand_ins.lift import LIFTED, Lift
from simverify.symbolic.streams import Stream

REFUSED = {
    "gumbel_softmax",
    "normal", "normal_", "randn", "randn_like", "poisson", "cauchy_", "geometric_",
    "log_normal_", "rrelu", "rrelu_", "alpha_dropout", "feature_dropout", "native_dropout",
    "binomial", "randint_like", "_standard_gamma", "_sample_dirichlet",
}  # fmt: skip
_LEAVES_TORCH = {"item", "tolist", "numpy", "__float__", "__array__", "__bool__"}
"""What hands a tensor's numbers to code where no dtype is seen."""


class SymbolicTorch(TorchFunctionMode):
    """Follows torch code; see the module."""

    def __init__(self, source: Source, streams: Streams, lift: Lift | None) -> None:
        super().__init__()
        self.source = source
        self.streams = streams
        self.shadows = Shadows(source)
        self.drawn = 0
        self.closed = False
        self._casts = LIFTED[lift] if lift else ()
        self._coarse = {getattr(torch, x) for x in self._casts if hasattr(torch, x)}
        self.ops = TorchOps(source, self.shadows)
        # Names that need not be looked at again where nothing else is given: most calls are such.
        self._tame: set[str] = set()
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
        if self.closed:
            return func(*args, **kwargs)
        if self._coarse:
            args = tuple(map(self._lifted, args))
            kwargs = {key: self._lifted(x) for key, x in kwargs.items()}
        name = getattr(func, "__name__", "")
        random = self._random.get(name)
        if random is not None:
            self.source.torch_calls += FOLLOWED_CALLS
            return self.drawing(random, args, kwargs)
        if kwargs or self.streams.has_states or name not in self._tame:
            self.must_not_draw(name, args, kwargs)
        if name in self._casts:
            func, name = torch.Tensor.double, "double"
        among = self.shadows.among
        if among(args) or (kwargs and among(kwargs.values())):
            self.source.torch_calls += FOLLOWED_CALLS
            return self.ops.run(func, name, args, kwargs)
        self.source.torch_calls += 1
        if name in _LEAVES_TORCH:
            self.source.meet(args[0].dtype)
        return func(*args, **kwargs)

    def drawing(self, random: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """Call a random function, and count what it draws."""
        before = len(self.source.draws)
        result = random(*args, **kwargs)
        self.drawn += len(self.source.draws) - before
        return result

    def must_not_draw(self, name: str, args: Any, kwargs: dict[str, Any]) -> None:
        """Refuse a function that draws in a way not known here, or reads a state."""
        if (
            name in REFUSED
            or kwargs.get("generator") is not None
            or draws_in_training(name, args, kwargs)
        ):
            self.source.refuse(f"torch.{name}")
        if self.streams.reads_a_state(name, args):
            self.source.refuse("the inside of a torch generator's state (put it back whole)")
        if "dropout" not in name:
            self._tame.add(name)

    def _lifted(self, x: Any) -> Any:
        return torch.float64 if type(x) is torch.dtype and x in self._coarse else x

    # -- the draws --

    def _fill(self, like: torch.Tensor, one: Callable[[], Any]) -> torch.Tensor:
        values = draw_array([one() for _ in range(like.numel())], tuple(like.shape))
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
        if dtype in COARSE:
            self.source.meet(dtype)
        if (grid := grid_of(dtype, low, high)) is not None:
            machine, points = grid
            form = IDENTITY.affine(high - low, low)
            return lambda: on_grid(self.source.uniform(stream, kind), machine, points, form)
        draw = self._uniforms(generator, like)
        return lambda: low + (high - low) * draw()

    def _rand(self, *size: Any, generator: Any = None, **kwargs: Any) -> torch.Tensor:
        kwargs.pop("out", None) is not None and self.source.refuse("torch.rand(out=)")
        empty = torch.empty(*size, **kwargs)
        return self._fill(empty, self._uniforms(generator, empty))

    def _rand_like(self, like: torch.Tensor, generator: Any = None, **kw: Any) -> torch.Tensor:
        empty = torch.empty_like(like, **kw)
        return self._fill(empty, self._uniforms(generator, empty))

    def _in_place(self, tensor: torch.Tensor, values: Any) -> torch.Tensor:
        self.shadows.write(tensor, values)
        return tensor

    def _uniform_(self, tensor: torch.Tensor, *bounds: Any, **kw: Any) -> torch.Tensor:
        low = bounds[0] if bounds else kw.get("from", 0.0)
        high = bounds[1] if len(bounds) > 1 else kw.get("to", 1.0)
        # Bounds that torch refuses it refuses of nothing too.
        torch.empty(0, dtype=tensor.dtype).uniform_(low, high)
        draw = self._uniforms(kw.get("generator"), tensor, float(low), float(high))
        values = [draw() for _ in range(tensor.numel())]
        return self._in_place(tensor, draw_array(values, tuple(tensor.shape)))

    def _exponential_(
        self, tensor: torch.Tensor, lambd: float = 1.0, *, generator: Any = None
    ) -> torch.Tensor:
        stream, kind = self._stream(generator, tensor), _kind("exponential", tensor)
        values = [self.source.exponential(stream, kind) for _ in range(tensor.numel())]
        if lambd != 1:
            values = [e / lambd for e in values]
        return self._in_place(tensor, draw_array(values, tuple(tensor.shape)))

    def _coins(self, probs: torch.Tensor, generator: Any) -> Any:
        if self.shadows.is_symbolic(probs):
            self.source.refuse("torch.bernoulli with symbolic probabilities")
        self.source.meet(probs.dtype)
        stream, kind = self._stream(generator, probs), _kind("bernoulli", probs)
        flat = probs.detach().double().reshape(-1).tolist()
        if not all(0 <= p <= 1 for p in flat):
            raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
        drawn = [self.source.pick((1 - p, p), stream, kind) for p in flat]
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
                # Let torch say what is wrong; what it lets pass is not what it documents. On the
                # CPU: a GPU would not say it but fail from there on.
                torch.multinomial(probs.cpu(), num_samples, replacement)
                self.source.refuse("torch.multinomial with fewer outcomes than samples")
        stream = self._stream(generator, probs)
        self.source.make_room(len(rows) * num_samples)
        kind = (*_kind("multinomial", probs), num_samples, replacement)
        if num_samples == 1:
            site = this_site()
            drawn = [[self.source.pick_later(row, stream, kind, site)] for row in rows]
        else:
            drawn = [self._outcomes(row, num_samples, replacement, stream, kind) for row in rows]
        shape = (*probs.shape[:-1], num_samples)
        values = draw_array([x for outcomes in drawn for x in outcomes], shape)
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
        stream, kind = self._stream(generator, like), (*_kind("randint", like), high - low)
        drawn = [
            low + integer_below(high - low, self.source.uniform(stream, kind, among=high - low))
            for _ in range(like.numel())
        ]
        return draw_array(drawn, tuple(like.shape)) if drawn else np.zeros(tuple(like.shape))

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
            cuts = [i / len(left) for i in range(1, len(left))]
            place = u.locate(cuts) if isinstance(u, Uniform) else sum(u >= c for c in cuts)
            order.append(left.pop(place))
        return torch.tensor(order, **{"dtype": torch.int64, **kwargs})


def _kind(name: str, like: torch.Tensor) -> tuple[Hashable, ...]:
    """Say how numbers are made of words: by whole calls, for all but uniforms."""
    return name, like.dtype, like.numel()


def draws_in_training(name: str, args: Any, kwargs: dict[str, Any]) -> bool:
    """Whether it is a dropout that is in training."""
    if "dropout" not in name or name in ("dropout_", "feature_dropout_"):
        return "dropout" in name
    given = args[2] if len(args) > 2 else True
    return bool(kwargs.get("training", kwargs.get("train", given)))
