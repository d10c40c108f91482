"""The lines of the table: each fault on its instance, its best single test and the battery."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import battery
import calls
import numpy as np
from battery import LinearTest, Setting
from instances import DISTINCT, LARGE, SMALL, Rows, Tables
from power import Needed, needed
from trials import Calls, Slots, Source, Trials, simulate

from simverify.faults.base import Fault
from simverify.faults.catalogue import get_fault
from simverify.stats import STRENGTHS
from simverify.verifiers import VERIFIERS

NAMED = (
    "residual-row-zero",
    "wrong-bonus-row",
    "one-hot-residual",
    "target-residual",
    "unnormalised-residual",
    "inverted-ratio",
    "double-chance",
    "scaled-acceptance(1.1)",
    "previous-row",
    "target-temperature(0.9)",
    "naive-block-stealth",
    "reused-uniform",
    "one-uniform",
    "draft-temperature(0.9)",
    "draft-leak(1)",
)
"""The battery's 15 named laws, at 5 strengths each: 75 cells, chosen before any run."""

WITHIN = 1.4
"""Tests that need this many times the best's samples are left out of the simulated battery."""

PILOT_GRID = 1.5 ** np.arange(-2, 4)
"""Sizes of the pilot, relative to what the normal approximation says of the best test."""

POINTS = 9

KEEP = 1.12
"""Tests that need this many times the battery's best in the pilot are left out thereafter."""


@dataclass(frozen=True)
class Line:
    """A fault on an instance; ``limit`` on battery over best single test."""

    instance: str
    label: str
    fault: str
    limit: float = 1.5


SMALL_LINES = (
    Line(SMALL, "residual replaced by p", "target-residual"),
    Line(SMALL, "ratio inverted", "inverted-ratio"),
    Line(SMALL, "bonus from the wrong row", "wrong-bonus-row"),
    Line(SMALL, "same uniform for accept and residual", "reused-uniform"),
    Line(SMALL, "acceptance x 1.10", "scaled-acceptance(1.1)"),
    Line(SMALL, "acceptance x 1.01", "scaled-acceptance(1.01)"),
    Line(SMALL, "draft sampled at T = .9, declared T = 1", "draft-temperature(0.9)"),
    Line(SMALL, "one uniform for all slots", "one-uniform"),
    Line(SMALL, "Gumbel noise shared by draft and recovery", "shared-noise", 2.0),
)
LARGE_LINES = (
    Line(LARGE, "residual replaced by p", "target-residual"),
    Line(LARGE, "same uniform for accept and residual", "reused-uniform"),
    Line(LARGE, "acceptance x 1.10", "scaled-acceptance(1.1)"),
    Line(LARGE, "draft leak of 1%", "draft-leak(0.01)"),
    Line(LARGE, "acceptance x 1.01", "scaled-acceptance(1.01)"),
    Line(DISTINCT, "residual replaced by p", "target-residual"),
    Line(DISTINCT, "ratio inverted", "inverted-ratio"),
)


@dataclass(frozen=True)
class Found:
    """Samples, in emitted tokens, for power .9 at alpha 1e-6."""

    line: Line
    best_test: str
    best: Needed
    battery: Needed
    runs: int
    tried: tuple[str, ...]

    @property
    def ratio(self) -> float:
        return self.battery.n / self.best.n


def call_law(tables: Tables, fault: str | None) -> calls.CallLaw:
    """Exact law of a call with ``fault``, or of the token rule."""
    if fault is None:
        return calls.enumerated(tables, VERIFIERS["token"].rule)
    if fault == "shared-noise":
        return calls.shared_noise(tables)
    if fault.startswith("draft-temperature"):
        warm = calls.tempered_rows(tables.draft, float(fault.partition("(")[2][:-1]))
        return calls.enumerated(tables, VERIFIERS["token"].rule, warm)
    return calls.enumerated(tables, get_fault(fault).rule)


def small_setting(tables: Tables, law: calls.CallLaw) -> Setting:
    """Every context of whole calls, and what the law emits in each."""
    mean = law.counts(law.probabilities)
    rows = mean.sum(axis=1)
    vocab = tables.vocab_size
    return Setting(
        tables.target, tables.draft, mean / rows[:, None], rows / rows.sum(),
        np.repeat(np.arange(tables.gamma + 1), vocab ** np.arange(tables.gamma + 1)),
        tables.gamma, True,
    )  # fmt: skip


def measure_small(line: Line, tables: Tables, runs: int) -> Found:
    """Measure a line of the small instance: whole calls, every context counted."""
    law, fault = call_law(tables, line.fault), get_fault(line.fault)
    setting = small_setting(tables, law)
    return _measure(line, setting, Calls(law), lambda f: small_law(tables, f), fault, runs)


def measure_large(line: Line, rows: tuple[Rows, Rows], runs: int) -> tuple[Found, Rows]:
    """Measure a line of a large instance: judged slots, from the fault's closed-form law.

    Returns that law (contexts, V), too.
    """
    target, draft = rows
    fault = get_fault(line.fault)
    emitted = slot_law(rows, fault)
    contexts = len(target)
    setting = Setting(
        target, draft, emitted, np.full(contexts, 1 / contexts), np.zeros(contexts, int), 1, False
    )
    found = _measure(line, setting, Slots(emitted), lambda f: slot_law(rows, f), fault, runs)
    return found, emitted


def small_law(tables: Tables, fault: Fault) -> Rows:
    """Closed-form law (contexts, V) of a fault in every slot of a call."""
    assert fault.law is not None
    found = np.empty_like(tables.target)
    for depth in range(tables.gamma + 1):
        for prefix in np.ndindex(*([tables.vocab_size] * depth)):
            block = (*prefix, *[0] * (tables.gamma - depth))
            found[tables.index(prefix)] = fault.law(*tables.along(block), prefix)
    return found


def slot_law(rows: tuple[Rows, Rows], fault: Fault) -> Rows:
    """Closed-form law (contexts, V) of a fault in the first slot of a call."""
    assert fault.law is not None
    found = np.empty_like(rows[0])
    for c, (p, q) in enumerate(zip(*rows, strict=True)):
        found[c] = fault.law(np.stack([p, p]), q[None], ())
    return found


def _measure(
    line: Line,
    setting: Setting,
    source: Source,
    law: Callable[[Fault], Rows],
    fault: Fault,
    runs: int,
) -> Found:
    linear, orders, g2 = candidates(setting, law, fault)
    guess = min(
        [_at_full(setting, test) for test in linear]
        + [battery.ks_samples(setting, order, battery.ALPHA) for order in orders]
        + ([] if g2 is None else [battery.g2_samples(setting, battery.ALPHA)])
    )
    seed = list(f"{line.instance} {line.label}".encode())

    def trials(sizes: Any, count: int, stage: int) -> Trials:
        units = sorted({max(round(n / source.per_unit), 1) for n in sizes})
        return simulate(setting, source, linear, orders, g2, units, count, [stage, *seed])

    # A pilot finds where to look and which tests matter; its runs are not used again.
    pilot = trials(guess * PILOT_GRID, max(runs // 10, 16), 0)
    needs = {
        name: needed(pilot.sizes, logs < math.log(pilot.levels[name])).n
        for name, logs in pilot.log_pvalues.items()
        if pilot.levels[name] > 0.0
    }
    kept = {name for name, n in needs.items() if n <= KEEP * min(needs.values())}
    linear = [test for test in linear if test.name in kept or test.kind == "oracle"]
    orders = {order: level for order, level in orders.items() if f"PIT-KS, {order}" in kept}
    g2 = g2 if "G2" in kept else None
    _, best, whole = summary(pilot)
    # Few runs place power .9 badly, and need more room on both sides.
    room = 1.0 + 7.0 / math.sqrt(runs)
    for stage in (1, 2, 3):
        sizes = np.geomspace(best.n / room**stage, whole.n * room**stage, POINTS)
        main = trials(sizes, runs, stage)
        name, at_best, at_whole = summary(main)
        if main.sizes[0] < at_best.low and math.isfinite(at_whole.high):
            return Found(line, name, at_best, at_whole, runs, tuple(sorted(kept)))
    raise RuntimeError(f"{line.label}: power .9 lies outside {sizes[0]:.4g}..{sizes[-1]:.4g}")


def candidates(
    setting: Setting, law: Callable[[Fault], Rows], fault: Fault
) -> tuple[list[LinearTest], dict[str, float], float | None]:
    """Tests worth simulating: the fault's own law, and the battery's that need few samples."""
    level = battery.levels(setting.gamma)
    ratios, rows = [], {}
    few = slice(None) if len(setting.target) < 200 else slice(0, 100)
    for name in NAMED:
        rows[name] = law(get_fault(name))
        part = _part(setting, few)
        ratios += [
            battery.ratio_candidate(part, name, rows[name][few], strength, level["ratio"])
            for strength in STRENGTHS
        ]
        if len(setting.target) > 1 and few != slice(None):
            del rows[name]
    scores = battery.score_candidates(_part(setting, few), level["score"])
    first = battery.best(ratios, 1)[0].name.rpartition(" at ")[0]
    family = [test for test in ratios if test.name.startswith(f"{first} at ")]
    others = [test for test in ratios if test not in family]
    kept = family + battery.best(others, 1) + battery.best(scores, 2)
    order_samples = {o: battery.ks_samples(setting, o, level["rest"]) for o in battery.ORDERS}
    least = min([test.samples for test in kept] + list(order_samples.values()))
    g2 = None
    if setting.counted:
        least = min(least, g2_samples := battery.g2_samples(setting, level["rest"]))
        g2 = level["rest"] if g2_samples <= WITHIN * least else None
    chosen = [
        _whole(setting, test, law, level)
        for test in kept
        if test in family or test.samples <= WITHIN * least
    ]
    if fault.law is not None:
        chosen.append(battery.oracle(setting))
    orders = {o: level["rest"] for o, n in order_samples.items() if n <= WITHIN * least}
    return chosen, orders, g2


def _whole(
    setting: Setting, test: LinearTest, law: Callable[[Fault], Rows], level: dict[str, float]
) -> LinearTest:
    """Return a test that was sized on some of the contexts, on all of them."""
    if len(test.values) == len(setting.target):
        return test
    if test.kind == "score":
        every = battery.score_candidates(setting, level["score"])
        return next(other for other in every if other.name == test.name)
    name, _, strength = test.name.rpartition(" at ")
    rows = law(get_fault(name))
    return battery.ratio_candidate(setting, name, rows, float(strength), level["ratio"])


def _part(setting: Setting, few: slice) -> Setting:
    weights = setting.weights[few]
    return Setting(
        setting.target[few], setting.draft[few], setting.emitted[few], weights / weights.sum(),
        setting.slots[few], setting.gamma, setting.counted,
    )  # fmt: skip


def _at_full(setting: Setting, test: LinearTest) -> float:
    tail = battery.ALPHA / (2.0 if test.kind == "score" else 1.0)
    return battery.linear_samples(setting, test.values, tail)


def summary(trials: Trials) -> tuple[str, Needed, Needed]:
    """Best single test at full alpha with its N, and the battery's at its split alpha."""
    alone = {
        name: needed(trials.sizes, logs < math.log(battery.ALPHA))
        for name, logs in trials.log_pvalues.items()
    }
    name = min(alone, key=lambda test: alone[test].n)
    any_of = np.zeros(next(iter(trials.log_pvalues.values())).shape, dtype=bool)
    for test, logs in trials.log_pvalues.items():
        if trials.levels[test] > 0.0:
            any_of |= logs < math.log(trials.levels[test])
    return name, alone[name], needed(trials.sizes, any_of)
