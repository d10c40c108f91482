"""The process around a sampled run: its warnings, its own generators, torch's threads."""

import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


@contextmanager
def quiet() -> Iterator[None]:
    """Say nothing of warnings and floating-point errors inside."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@contextmanager
def global_generators(seed: int) -> Iterator[None]:
    """Seed the process's own generators once, and put them back; torch runs on one thread.

    Never again within a run: a generator that is seeded per call hides what calls share.
    """
    legacy, python = np.random.get_state(), random.getstate()  # noqa: NPY002
    words = np.random.SeedSequence(seed).generate_state(2)
    np.random.seed(words[0])  # noqa: NPY002
    random.seed(int(words[1]))
    torch = sys.modules.get("torch")
    kept = (torch.get_rng_state(), torch.get_num_threads()) if torch else None
    try:
        if torch:
            torch.manual_seed(int(words[1]))
            torch.set_num_threads(1)
        yield
    finally:
        np.random.set_state(legacy)  # noqa: NPY002
        random.setstate(python)
        if torch and kept:
            torch.set_rng_state(kept[0])
            torch.set_num_threads(kept[1])
