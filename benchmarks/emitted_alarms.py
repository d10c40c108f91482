"""How often a right engine fails an audit of emitted tokens, and one that is off passes.

Each run draws its tokens anew from the bundled target, in the declared precision and with other
requests beside it, and is audited at alpha .05. The negative controls are engines with one fault.

    python benchmarks/emitted_alarms.py            # 200 right runs, some minutes
    python benchmarks/emitted_alarms.py --dtype bfloat16 --runs 50
    python benchmarks/emitted_alarms.py --weights '4 bits (Q4_0)' --runs 1 --tokens 5000
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.emitted_tokens import emitted

from simverify import stats
from simverify.models.rounding import WEIGHT_FORMATS, WeightFormat, use_weight_format
from simverify.models.transformer import TransformerPair, load_pair
from simverify.results import OutputRun
from simverify.served import OutputSettings, RequestSource, audit_outputs, check_request
from simverify.verifiers import VERIFIERS

HERE = RequestSource("simulated", "python benchmarks/emitted_alarms.py")


def int4_fitted(weight: torch.Tensor) -> torch.Tensor:
    """Groups of 32, the range shrunk to where the squared error is least: as fitted formats do."""
    short = -weight.shape[-1] % 32
    x = torch.nn.functional.pad(weight.float(), (0, short)).reshape(-1, 32)
    best, error = x, torch.full((len(x), 1), torch.inf)
    for share in (1.0, 0.95, 0.9, 0.85, 0.8, 0.75):
        low, high = x.amin(1, keepdim=True) * share, x.amax(1, keepdim=True) * share
        scale = ((high - low) / 15.0).clamp(min=1e-12)
        found = torch.clamp(torch.round((x - low) / scale), 0, 15) * scale + low
        off = ((found - x) ** 2).sum(1, keepdim=True)
        best, error = torch.where(off < error, found, best), torch.minimum(off, error)
    rows = best.reshape(*weight.shape[:-1], -1)
    return rows[..., : weight.shape[-1]].to(weight.dtype)


WEIGHTS = WEIGHT_FORMATS | {
    "layers in 4 bits, grid fitted": WeightFormat(int4_fitted),
    "all in 4 bits, grid fitted": WeightFormat(int4_fitted, whole=True),
}
"""Those that are bet on, and others of as few bits that round otherwise."""


def audited(pair: TransformerPair, tokens: int, seed: int, alpha: float, engine: Any) -> OutputRun:
    """Draw ``tokens`` while ``engine`` is entered, and judge them by the pair as it is."""
    with engine:
        objects = emitted(pair, VERIFIERS["token"], tokens, lanes=24, length=48, seed=seed)
    requests = tuple(check_request(value, "simulated", pair) for value in objects)
    settings = OutputSettings(tokens=tokens, alpha=alpha, detect=0.9, seed=seed)
    return audit_outputs(requests, pair, HERE, settings)


@contextmanager
def timed(seconds: float) -> Iterator[Callable[[], bool]]:
    """Yield what says whether there is time left."""
    end = time.monotonic() + seconds
    yield lambda: time.monotonic() < end


def main() -> None:
    """Audit, count and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--tokens", type=int, default=600)
    parser.add_argument("--alpha", type=float, default=0.05)
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float16"), default="float32")
    parser.add_argument("--weights", choices=tuple(WEIGHTS))
    parser.add_argument("--seconds", type=float, default=3600.0, help="no run begins after that")
    parser.add_argument("--first-seed", type=int, default=1000)
    given = parser.parse_args()
    torch.set_num_threads(1)
    pair = load_pair("tiny-llama", "tiny-llama", dtype=given.dtype)
    failed: Counter[str] = Counter()
    alarms = runs = 0
    with timed(given.seconds) as left:
        while runs < given.runs and left():
            engine = (
                nullcontext() if given.weights is None
                else use_weight_format(pair.target_model, WEIGHTS[given.weights])
            )  # fmt: skip
            run = audited(pair, given.tokens, given.first_seed + runs, given.alpha, engine)
            runs, alarms = runs + 1, alarms + (run.verdict == "FAIL")
            failed.update(test.name for test in run.tests if test.rejected)
    high = stats.rate_interval([alarms], runs, error=0.05)[1][0]
    print(f"{runs} runs of {given.tokens:,} tokens in {given.dtype}, weights {given.weights}: "
          f"{alarms} FAIL at alpha {given.alpha:g} (rate at most {high:.3f} at 97.5%)")  # fmt: skip
    for name, count in failed.most_common():
        print(f"  {count} by {name}")


if __name__ == "__main__":
    main()
