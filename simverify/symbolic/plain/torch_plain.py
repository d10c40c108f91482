"""torch's random functions, whose values the source chooses and whose tensors are torch's own.

torch itself says dtype, device and shape, and what it refuses; the twin says the values. All
other functions are torch's: nothing is followed here.
"""

from typing import Any

from simverify.symbolic.generators.torch.rng import SymbolicTorch


class PlainTorch(SymbolicTorch):
    """Gives random functions their values; passes the rest on."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one torch call."""
        kwargs = kwargs or {}
        if self.closed:
            return func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        random = self._random.get(name)
        if random is None:
            self.must_not_draw(name, args, kwargs)
        shown = func(*args, **kwargs)
        if random is None:
            return shown
        value = self.drawing(random, args, kwargs)
        if name.endswith("_"):
            return shown  # in place: it holds the values by now
        if value.shape != shown.shape:
            self.source.refuse(f"torch.{name}, which torch gives the shape {tuple(shown.shape)}")
        return shown.copy_(value)
