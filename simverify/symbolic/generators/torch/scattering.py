"""torch's ``scatter``: elements put at places that an index says."""

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import torch

from simverify.symbolic.draws.in_arrays.arrays import of_objects
from simverify.symbolic.generators.torch.blanks import TorchBlanks


class TorchScattering(TorchBlanks):
    """The handler of ``scatter`` and ``scatter_``."""

    if TYPE_CHECKING:

        def _refuse(self, name: str) -> NoReturn:
            """See TorchOps."""

        def _of_type(self, x: Any, dtype: torch.dtype) -> Any:
            """See TorchOps."""

    def _on_scatter(
        self, tensor: torch.Tensor, dim: int, index: Any, src: Any = None, *, value: Any = None,
        reduce: Any = None,
    ) -> torch.Tensor:  # fmt: skip
        if reduce is not None:
            self._refuse("scatter that adds up")
        index, given = self.shadows.decide(index, draws=True), value if src is None else src
        self._asked(torch.scatter, tensor, dim, index, given)  # for what it raises
        # torch is asked where each element comes from: numbers in the place of elements.
        own = torch.arange(tensor.numel()).reshape(tensor.shape)
        put: Any = tensor.numel()
        if isinstance(given, torch.Tensor):
            times = torch.zeros_like(own).scatter_add(dim, index, torch.ones_like(index))
            if bool((times > 1).any()):
                self._refuse("scatter of several elements to one place")
            put = put + torch.arange(given.numel()).reshape(given.shape)
        whence = torch.scatter(own, dim, index, put).numpy()
        new = np.asarray(self._of_type(self.shadows.numbers(given), tensor.dtype), dtype=object)
        whole = [*self.shadows.numbers(tensor).ravel().tolist(), *new.ravel().tolist()]
        values = of_objects([whole[place] for place in whence.ravel()]).reshape(whence.shape)
        return self.shadows.tensor(values, tensor.dtype, tensor.device)

    def _on_scatter_(
        self, tensor: torch.Tensor, dim: int, index: Any, *args: Any, **kwargs: Any
    ) -> Any:
        index = self.shadows.decide(index, draws=True)
        if not any(map(self.shadows.is_symbolic, (tensor, *args, *kwargs.values()))):
            return tensor.scatter_(dim, index, *args, **kwargs)
        whole = self._on_scatter(tensor, dim, index, *args, **kwargs)
        self.shadows.write(tensor, self.shadows.numbers(whole))
        return tensor
