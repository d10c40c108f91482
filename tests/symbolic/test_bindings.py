"""Names are rebound wherever they stand, and one that is bound anew later is seen."""

import functools
import sys
from contextlib import ExitStack
from types import ModuleType, SimpleNamespace

import pytest

from simverify.symbolic import bindings

# An object's attributes: as a global of this module, which is looked at too, it would be rebound.
THE = SimpleNamespace(source=object(), other=object(), twin=object())

MODULE = """
import functools

name = {name}

class Kept:
    item = {item}
    def method(self, x={argument}, *, y={keyword}):
        return x, y

def closing(value):
    def inside():
        return value
    def change(other):
        nonlocal value
        value = other
    return inside, change

inside, change = closing({cell})
bound = functools.partial(closing({part})[0])
"""

PLACES = ("name", "item", "argument", "keyword", "cell", "part")


def values(module):
    """What the code would see in each place."""
    return {
        "name": module.name,
        "item": module.Kept.item,
        "argument": module.Kept().method()[0],
        "keyword": module.Kept().method()[1],
        "cell": module.inside(),
        "part": module.bound(),
    }


@pytest.fixture
def module(monkeypatch):
    """A module of the user's, with ``other`` in every place."""
    made = ModuleType("users_module_of_bindings")
    made.__file__ = "/home/user/users_module_of_bindings.py"
    made.given = THE.other
    exec(MODULE.format(**dict.fromkeys(PLACES, "given")), vars(made))
    del made.given
    monkeypatch.setitem(sys.modules, made.__name__, made)
    return made


def twin_of(value):
    return THE.twin if value is THE.source else None


def seen(module):
    """What stands in each place while names are replaced, and afterwards."""
    with ExitStack() as stack:
        bindings.rebind_names(len, twin_of, stack, like="twin of source")
        inside = values(module)
    return inside, values(module)


def bind(module, place):
    if place == "name":
        module.name = THE.source
    elif place == "item":
        module.Kept.item = THE.source
    elif place == "argument":
        module.Kept.method.__defaults__ = (THE.source,)
    elif place == "keyword":
        module.Kept.method.__kwdefaults__["y"] = THE.source
    elif place == "cell":
        module.change(THE.source)
    else:
        module.bound.func.__closure__[0].cell_contents = THE.source


@pytest.mark.parametrize("place", PLACES)
def test_a_name_that_is_bound_after_a_look_is_seen(module, place):
    assert set(seen(module)[0].values()) == {THE.other}
    bind(module, place)
    for _ in range(2):  # the second from what the first remembers
        inside, after = seen(module)
        assert inside == dict.fromkeys(PLACES, THE.other) | {place: THE.twin}
        assert after == dict.fromkeys(PLACES, THE.other) | {place: THE.source}


def test_a_new_name_and_one_that_is_gone(module):
    seen(module)
    module.more = functools.partial(module.inside)
    module.change(THE.source)
    del module.name
    with ExitStack() as stack:
        bindings.rebind_names(len, twin_of, stack, like="twin of source")
        assert module.more() is THE.twin
    assert module.more() is THE.source


def test_a_module_in_the_place_of_another_is_seen(module, monkeypatch):
    """As many modules are loaded as before, by the same names."""
    seen(module)
    other = ModuleType(module.__name__)
    other.__file__ = module.__file__
    other.name = THE.source
    monkeypatch.setitem(sys.modules, module.__name__, other)
    with ExitStack() as stack:
        bindings.rebind_names(len, twin_of, stack, like="twin of source")
        assert other.name is THE.twin
    assert other.name is THE.source


def test_another_replacement_looks_for_itself(module):
    module.name = THE.source
    assert seen(module)[0]["name"] is THE.twin
    with ExitStack() as stack:
        bindings.rebind_names(
            len, lambda value: THE.twin if value is THE.other else None, stack, like="twin of other"
        )
        assert module.name is THE.source
        assert module.Kept.item is THE.twin


def test_what_holds_is_not_looked_at_again(module, monkeypatch):
    seen(module)
    looked = []
    monkeypatch.setattr(
        bindings._BindingSearch, "at_module", lambda self, names: looked.append(names["__name__"])
    )
    seen(module)
    assert module.__name__ not in looked
    module.name = None
    seen(module)
    assert module.__name__ in looked
