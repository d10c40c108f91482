"""What torch itself says of a call: its types and shapes, and what it refuses.

Draws lie beside the tensors, which hold blanks. So torch is asked: the same function is called with
copies that hold ones in the place of draws, and share their memory as the tensors do.
"""

from collections import Counter
from typing import Any

import torch

from simverify.symbolic.draws.scalars import Draw
from simverify.symbolic.generators.torch.shadow import Shadows


class TorchBlanks:
    """Copies of arguments on which torch may be asked."""

    shadows: Shadows

    def _asked(self, func: Any, *args: Any, **kwargs: Any) -> Any:
        """Return what torch gives of ones in the place of draws; raises what it raises."""
        tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, torch.Tensor)]
        places = Counter(x.untyped_storage().data_ptr() for x in tensors)
        wholes: dict[int, torch.Tensor] = {}

        def copied(x: Any) -> Any:
            place = x.untyped_storage().data_ptr() if isinstance(x, torch.Tensor) else None
            if place is None or places[place] == 1:
                return self._blank_copy(x)
            if place not in wholes:
                # What shares its elements does so in the copies.
                wholes[place] = self._blank_copy(_whole(x))
            return wholes[place].as_strided(x.shape, x.stride(), x.storage_offset())

        return func(*map(copied, args), **{key: copied(x) for key, x in kwargs.items()})

    def _blank_copy(self, x: Any) -> Any:
        if isinstance(x, Draw):
            return x.as_python().machine.sample
        if not isinstance(x, torch.Tensor):
            return x
        if 0 in x.stride() and x.layout is torch.strided:
            # Several elements are one number: torch does not write into such a tensor.
            whole = self._blank_copy(_whole(x))
            return whole.as_strided(x.shape, x.stride(), x.storage_offset())
        # A copy of each: some functions change their argument, and it may hold numbers.
        copy = x.detach().clone()
        return copy.fill_(1) if self.shadows.is_symbolic(x) else copy


def _whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return all of the memory that a tensor shows a part of, as a tensor of one dimension."""
    whole = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
    return whole.set_(tensor.detach().untyped_storage())
