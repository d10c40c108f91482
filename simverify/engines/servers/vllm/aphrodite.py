"""Aphrodite: ``rejection_sample`` of its V1 runner, a fork of vLLM's, without a GPU.

As :mod:`.v1`, with kernels that are launched without a decorator.
"""

from pathlib import Path

from simverify.engines.adapting.adapt import Verify
from simverify.engines.base import BLOCK, Engine
from simverify.engines.servers.vllm.v1 import FUNCTION, PARAMETERS, sampled_by
from simverify.engines.tiles import ON_CPU, load_tiles


def load(path: Path) -> Verify:
    """Return the function with its kernels, which run as :mod:`simverify.engines.tiles` says."""
    return sampled_by(load_tiles(path, [FUNCTION]).rejection_sample)


ENGINES = (
    Engine(
        name="aphrodite",
        package="aphrodite",
        source="v1/sample/rejection_sampler.py",
        function=FUNCTION,
        **BLOCK,
        loader=load,
        distribution="aphrodite-engine",
        versions=">=0.24,<0.25",
        parameters=PARAMETERS,
        note=ON_CPU,
    ),
)
