"""Rules of a comparison that are no built-in ones: loaded and called as an audit does it."""

from collections.abc import Callable
from typing import Any

from simverify.auditing.process.child import Died, in_child
from simverify.auditing.subject import Subject
from simverify.auditing.worth.asked import Asked, contract_of
from simverify.auditing.worth.calls import call_on
from simverify.comparing.own import OwnRule
from simverify.errors import OptionError, SimverifyError
from simverify.models import Model
from simverify.simulators.decoding.called import Called
from simverify.trees import Drafting


def own_rule(
    spec: str,
    load: Callable[[], Subject],
    *,
    gamma: int,
    seed: int,
    drafting: Drafting | None = None,
) -> OwnRule:
    """Return the rule called ``spec``, to be called in a child process, which it may take down.

    ``load`` is called once to see that it can be. ``drafting``: how trees are drafted for a rule
    that judges them.
    """

    def child(work: Callable[[], Any], where: str) -> Any:
        found = in_child(lambda _told: work(), lambda _line: None)
        if isinstance(found, Died):
            raise SimverifyError(f"{spec} ends the process {where}: {found.how}")
        return found

    contract = child(lambda: contract_of(load()), "when it is loaded")
    if contract == "tree" and drafting is None:
        raise OptionError(
            f"{spec} judges draft trees: say which, with {{tree}} or {{drafts}}, and {{scheme}}"
        )

    def on(model: Model, calls: int, tokens: int) -> Called:
        def work() -> Called:
            return call_on(load(), contract, Asked(model, gamma, calls, tokens, seed, drafting))

        found: Called = child(work, f"on {model.name}")
        return found

    return OwnRule(spec, contract, on)
