"""How often the sampled tier does not say of a right verifier what its own plan had promised.

    python benchmarks/plans_room.py [--audits 200] [--detect 0.05]

Audits of the token rule and the block rule in turn, with other seeds, by samples alone: the pilot
sizes the run for a deviation, and the run itself then sways. INCONCLUSIVE is what is counted.
"""

import argparse
import sys
import time
from collections import Counter

from simverify.auditing.sampled_runs import default_sampled_instances
from simverify.auditing.sampled_tier import sample_callable
from simverify.verifiers import VERIFIERS

RULES = ("token", "block")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audits", type=int, default=200)
    parser.add_argument("--detect", type=float, default=0.05)
    options = parser.parse_args()
    told: Counter[str] = Counter()
    calls, started = 0, time.process_time()
    for i in range(options.audits):
        run = sample_callable(
            VERIFIERS[RULES[i % 2]].rule, "verify", instances=default_sampled_instances(4, 12),
            seed=1000 + i, detect=options.detect, seconds=3600.0,
        )  # fmt: skip
        told[run.verdict] += 1
        calls += run.tier.samples
        if run.verdict != "PASS":
            print(f"seed {1000 + i}, {RULES[i % 2]}: {run.verdict}: {run.reason}", flush=True)
        if (i + 1) % 20 == 0:
            print(f"{i + 1} audits: {dict(told)}", file=sys.stderr, flush=True)
    took = time.process_time() - started
    print(f"{options.audits} audits for a TV of {options.detect}, {calls:,} calls, {took:.0f} s: "
          f"{dict(told)}")  # fmt: skip


if __name__ == "__main__":
    main()
