"""Rules that a test writes as text, and what the exact tier says of them on the core instances."""

import sys
import types

from support.styles import CORE, MOST_PATHS

from simverify.auditing.exact_tier import run_exact_tier
from simverify.auditing.instances import instances_for
from simverify.auditing.subject import Subject
from simverify.auditing.verdict import is_complete
from simverify.symbolic.engine import Budget
from simverify.symbolic.watchdog import contain_process


def outcome(source, name="verify", contract="verify"):
    """What the exact tier says of code: followed, caught, or why it refuses."""
    module = types.ModuleType("written_arrays")
    module.__file__ = "/nowhere/written_arrays.py"
    sys.modules[module.__name__] = module
    try:
        exec(compile(source, module.__file__, "exec"), vars(module))
        with contain_process():
            tier = run_exact_tier(
                Subject(name, vars(module)[name], contract),
                contract,
                [model for model in instances_for(contract, 2, 3, 0) if model.name in CORE],
                tolerance=None,
                budget=Budget(MOST_PATHS, 20.0),
                searching=False,
            )
    finally:
        del sys.modules[module.__name__]
    if tier.failure is not None:
        return "caught" if tier.failure.deviates else str(tier.failure.comparison.findings)
    if is_complete(tier):
        return "followed"
    return str(tier.not_enumerable or tier.aborted or tier.skipped)
