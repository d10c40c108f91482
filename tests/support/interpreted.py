"""Triton in its interpreter, whoever imports it first: without a GPU it cannot be chosen later.

torch's compiler imports Triton to see whether it is there, and Transformers loads that compiler: so
it was up to the order of test modules whether those of kernels were run or skipped.
"""

import importlib
import sys
from importlib.machinery import PathFinder, SourceFileLoader

from simverify.backends.batch import interpreter


class _Loader(SourceFileLoader):
    def exec_module(self, module):
        if importlib.import_module("torch").cuda.is_available():
            super().exec_module(module)
            return
        with interpreter():
            super().exec_module(module)
            importlib.import_module("triton.language")


class _Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        spec = PathFinder.find_spec(name, path) if name == "triton" else None
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(name, spec.origin)
        return spec


def choose_interpreter():
    """Have Triton's first import choose its interpreter; nothing is imported for it."""
    sys.meta_path.insert(0, _Finder)
