"""Options from the environment and pyproject.toml; a name that nothing reads is an error."""

import os
from collections.abc import Iterable
from typing import Any

from cyclopts import CycloptsError, config

from simverify.errors import UsageError
from simverify.names import pick

_PREFIX = "SIMVERIFY_"


def sources(commands: Iterable[str]) -> list[Any]:
    """Sources of options after the command line, strongest first, for an app of ``commands``.

    ``SIMVERIFY_COMMAND_OPTION`` in the environment, then ``[tool.simverify.COMMAND]`` in the
    nearest pyproject.toml. Both raise ``UsageError`` on an unknown name, with the nearest one.
    """
    pyproject = config.Toml("pyproject.toml", root_keys=["tool", "simverify"], search_parents=True)
    tables = [*commands, "pytest"]

    def check(_app: object, command: tuple[str, ...], arguments: Iterable[Any]) -> None:
        names = [argument.name for argument in arguments]
        options = [name.removeprefix("--") for name in names if name.startswith("--")]
        if not command:
            return
        prefix = f"{_PREFIX}{command[0].upper()}_"
        variables = [prefix + option.upper().replace("-", "_") for option in options]
        for variable in os.environ:
            if variable.startswith(prefix):
                pick(variable, variables, "environment variable")
        try:
            table: Any = pyproject.config
        except CycloptsError as error:
            raise UsageError(f"{pyproject.source}: {error}") from None
        for key, known in (("tool", None), ("simverify", tables), (command[0], options)):
            table = table.get(key, {})
            if not isinstance(table, dict):
                return  # cyclopts says what is wrong with it
            for name in table if known is not None else ():
                where = "[tool.simverify]" if known is tables else f"[tool.simverify.{key}]"
                pick(name.replace("_", "-"), known or (), f"name in {where}")

    return [check, config.Env(_PREFIX), pyproject]
