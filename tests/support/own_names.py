"""An audit sees the test file that its code is in, and none of the hundreds beside it.

It looks through every module that is loaded from outside the library folders, since any of them
may be the code's; in a session of all tests that would be a third of its time.
"""

from simverify.symbolic import provenance

_tests: frozenset[str] = frozenset()
_running = ""


def collected(items):
    """Know the modules of all tests, from now on and in forks of this process."""
    global _tests
    _tests = frozenset(item.module.__name__ for item in items)
    looked_at = provenance._LoadedModules.belonging_to
    if looked_at.__name__ == "without_other_tests":
        return

    def without_other_tests(self, home, package):
        left_out = _tests - {home, _running}
        found = looked_at(self, home, package)
        return [space for space in found if space.get("__name__") not in left_out]

    provenance._LoadedModules.belonging_to = without_other_tests


def running(item):
    """Note whose test runs."""
    global _running
    _running = item.module.__name__
