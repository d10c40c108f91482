"""Random programs over draws: the symbolic law of each against real runs of it.

``python benchmarks/differential.py --programs 10000`` prints every program that differs, how many
were the same, and what was refused, by name. ``--seed`` chooses the programs; ``--torch`` makes
them over tensors, ``--wide`` over integers of all values of a type, which wrap around. Each is run
a thousand times on the real generators, and a hundred thousand times where that looks suspect; a
difference is told at 1e-9. Every path is also run at the ends of its intervals of uniforms.
"""

import argparse
import contextlib
import re
import sys
import time
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.fuzzing.differential import Finding, run_twice
from support.fuzzing.programs import programs


class Enough(BaseException):
    """There are as many programs, or differences, as were asked for: Hypothesis would make more."""


def main() -> None:
    """Run the programs and say what was found."""
    parser = argparse.ArgumentParser(description="The symbolic tier against real runs.")
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--torch", action="store_true", help="programs over tensors")
    parser.add_argument("--wide", action="store_true", help="programs over whole ranges of types")
    parser.add_argument("--stop-after", type=int, default=20, help="differences")
    options = parser.parse_args()
    told: Counter[str] = Counter()
    found: list[Finding] = []
    seen: set[str] = set()
    started = time.time()

    @seed(options.seed)
    @settings(
        max_examples=5 * options.programs, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(programs(torch=options.torch, wide=options.wide))
    def one(text: str) -> None:
        if text in seen:
            return
        seen.add(text)
        told["programs"] += 1
        try:
            result = run_twice(text, seed=options.seed * 1_000_003 + told["programs"])
        except Exception as error:
            result = Finding(text, f"the tool itself raised {error!r}")
        if isinstance(result, Finding):
            found.append(result)
            print(result.program, result.what, sep="", end="\n\n", flush=True)
        else:
            told[re.sub(r"[-\d.e+]{2,}", "#", result)] += 1
        if told["programs"] % 250 == 0:
            print(f"{told['programs']} programs, {len(found)} differ", file=sys.stderr, flush=True)
        if len(found) >= options.stop_after or len(seen) >= options.programs:
            raise Enough

    with contextlib.suppress(Enough):
        one()
    count = told.pop("programs")
    print(f"{count} programs in {time.time() - started:.0f} s: {len(found)} differ, "
          f"{told.pop('same', 0)} are the same; refused:")  # fmt: skip
    for name, times in told.most_common(40):
        print(f"{times:6} {name}")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
