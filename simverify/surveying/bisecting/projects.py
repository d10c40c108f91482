"""What a commit of a project asks for, in an environment."""

import hashlib
import tomllib
from pathlib import Path

from simverify.checks import clean
from simverify.surveying.bisecting.environments import (
    PROJECT,
    Environment,
    NotLaidOut,
    environment,
)


def wanted(top: Path, below: Path, version: str) -> Environment | None:
    """Return an environment with what a checked-out commit asks for; None if it asks for nothing.

    The nearest ``pyproject.toml``, ``setup.py`` or ``requirements.txt`` from ``below`` up to
    ``top`` says it. Requirements that it lists are installed by themselves, and commits with the
    same ones share an environment; where they are computed, pip builds the project.
    """
    folder = _project(top, below)
    if folder is None:
        return None
    listed = _listed(folder)
    if listed is not None:
        return environment([listed], top.name) if listed else None
    file = folder / "requirements.txt"
    if file.is_file():
        digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
        steps = [["--requirement", f"{PROJECT}/{file.name}"]]
        return environment(steps, f"{top.name}-{digest}", folder)
    return environment([[PROJECT]], f"{top.name}-{version}", folder)


def _project(top: Path, below: Path) -> Path | None:
    start = below if below.is_dir() else below.parent
    for folder in (start, *start.parents):
        if any((folder / name).is_file() for name in ("setup.py", "requirements.txt")):
            return folder
        if any(key in _read(folder) for key in ("project", "build-system")):
            return folder
        if folder == top:
            return None
    return None


def _listed(folder: Path) -> list[str] | None:
    """Return the requirements that ``pyproject.toml`` lists; None where it lists none."""
    project = _read(folder).get("project")
    if not isinstance(project, dict) or "dependencies" in project.get("dynamic", []):
        return None
    return [str(one) for one in project.get("dependencies", [])]


def _read(folder: Path) -> dict[str, object]:
    file = folder / "pyproject.toml"
    try:
        return tomllib.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise NotLaidOut(f"pyproject.toml: {clean(str(error))}") from error
