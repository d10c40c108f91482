"""How often few long answers tell two engines apart, right ones and one with a planted fault.

Both engines are simulated on a chain of 64 tokens; what is off in the second has a known mean
one-token TV. Each run draws all answers anew: 16 prompts, 22 answers of 64 tokens to each. What
servers are asked by default is another design: ``against_texts.py``.

    python benchmarks/against_alarms.py                # 200 runs of each, some 20 minutes
    python benchmarks/against_alarms.py --runs 20 --alpha 1e-6
    python benchmarks/against_alarms.py --only same --alpha .05
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.two_engines import Chain, asked

from simverify import stats
from simverify.served.answers import AgainstSettings
from simverify.served.two_sample import AnswerSources, audit_against

HERE = AnswerSources("first", "second", "python benchmarks/against_alarms.py")
PROMPTS, LENGTH, TOKEN = 16, 64, 5


def main() -> None:
    """Compare, count and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--alpha", type=float, default=1e-6)
    parser.add_argument("--detect", type=float, default=AgainstSettings.detect)
    parser.add_argument("--repeats", type=int, default=22)
    parser.add_argument("--only")
    given = parser.parse_args()
    chain = Chain()
    engines = {
        "same": chain.p,
        "one token's rate, +.04": chain.biased(TOKEN, 0.04),
        "lenient verifier, .7": chain.lenient(0.7),
        "temperature .95": chain.tempered(0.95),
    }
    settings = AgainstSettings(given.repeats, given.alpha, given.detect)
    print(settings.plan(PROMPTS, LENGTH))
    for name, rows in engines.items():
        if given.only not in (None, name):
            continue
        verdicts: Counter[str] = Counter()
        by: Counter[str] = Counter()
        detectable = 0.0
        for seed in range(given.runs):
            pairs = asked(
                chain.p,
                rows,
                prompts=PROMPTS,
                repeats=given.repeats,
                length=LENGTH,
                seed=1000 + seed,
            )
            run = audit_against(pairs, HERE, settings)
            verdicts[run.verdict] += 1
            by.update(test.name for test in run.tests if test.rejected)
            detectable = max(detectable, run.detectable)
        failed = verdicts["FAIL"]
        (low,), (high,) = stats.rate_interval([failed], given.runs, error=0.05)
        print(f"{name}: TV {chain.distance(rows):.3f}; of {given.runs} runs {failed} FAIL "
              f"(rate {low:.3f} to {high:.3f} at 95%), {verdicts['PASS']} PASS, "
              f"{verdicts['INCONCLUSIVE']} INCONCLUSIVE; TV {detectable:.3f} promised")  # fmt: skip
        for test, count in by.most_common():
            print(f"  {count} by {test}")


if __name__ == "__main__":
    main()
