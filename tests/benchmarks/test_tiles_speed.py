import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

HERE = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    import tiles_speed

    return tiles_speed


def test_every_case_gives_tokens_and_a_difference_is_seen(bench):
    tiles = bench.load_tiles(bench.KERNELS, ["token", "noise"])
    for name, ours, _, given in bench.cases(tiles, tiles):
        first, again = ours(*given), ours(*given)
        assert bench.same(first, again), name
        tokens = first[0] if isinstance(first, tuple) else first
        assert (tokens >= -1).all()
        other = tokens + 1
        assert not bench.same(first, (other, *first[1:]) if isinstance(first, tuple) else other)


@pytest.mark.slow
def test_it_runs():
    pytest.importorskip("triton")
    command = [sys.executable, str(HERE / "tiles_speed.py"), "--quick"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "least" in done.stdout
