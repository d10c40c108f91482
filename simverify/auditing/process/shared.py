"""The modules that code under audit shares with the audit, and what it replaced in them.

``np.array = None`` inside the code would break the audit, and a quieter replacement would
change what the audit itself computes. Names that are added, or set while the code is loaded,
are nobody's harm.
"""

import sys
from types import ModuleType

_SHARED = (
    "builtins", "math", "random", "itertools", "functools", "operator", "time",
    "numpy", "numpy.random", "numpy.linalg", "torch", "torch.nn.functional",
)  # fmt: skip


class Shared:
    """The public functions, classes and modules in the shared modules, as they are now."""

    def __init__(self) -> None:
        modules = [(name, sys.modules[name]) for name in _SHARED if name in sys.modules]
        self._kept = [
            (vars(module), f"{name}.{key}", key, value)
            for name, module in modules
            for key, value in vars(module).items()
            if not key.startswith("_") and (callable(value) or isinstance(value, ModuleType))
        ]
        self._kept += [(sys.modules, f"sys.modules[{name!r}]", name, m) for name, m in modules]

    def restore(self) -> str:
        """Put everything back; a finding in words that names the first replaced, or ""."""
        # Not one builtin is called before they are all back: one of them may be what is gone.
        first, others = "", 0
        for space, name, key, value in self._kept:
            if space.get(key) is not value:
                space[key] = value
                first, others = first or name, others + 1
        if not first:
            return ""
        more = f" and {others - 1} more" if others > 1 else ""
        return f"shared-modules: replaces {first}{more} for the whole process"
