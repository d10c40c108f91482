"""The project's own kernels as an engine: followed path by path, without Triton and a GPU."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from simverify.auditing.comparison import compare_blocks
from simverify.engines import get_engine
from simverify.models.base import compact
from simverify.symbolic import Enumeration


def found(rule):
    with Enumeration(rule, prune=0) as enumeration:
        return compare_blocks(enumeration, rule, compact(), 2)


@pytest.mark.parametrize(("name", "tau"), [("triton-token", 101 / 72), ("triton-block", 211 / 144)])
@pytest.mark.thorough
def test_the_kernels_are_lossless_on_every_path(name, tau):
    verify = get_engine(name).load()
    law = found(verify)
    assert law.max_abs_deviation < 1e-12
    assert law.expected_accepted == pytest.approx(tau, abs=1e-12)
    mixed = found(lambda p, q, x, rng: verify(p, (q + 0.5) / 2.5, x, rng))
    assert mixed.max_abs_deviation > 0.001


def test_what_runs_compiled_on_a_gpu_is_found_without_one():
    """Loaded, not called: a name that is not there would be seen on a GPU alone."""
    from simverify.backends import rules
    from simverify.engines.catalogue.simverify_rules import load_fused_compiled

    rule = load_fused_compiled("token", Path(rules.__file__))
    assert rule.takes_batches
