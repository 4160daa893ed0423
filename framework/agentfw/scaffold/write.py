"""Writes a new plugin from the templates to a folder.

The folder is renamed into place when it is complete, so it is never half written.

    paths = scaffold("agentfw-tea", "memory", Path("."))
"""

from __future__ import annotations

import shutil
import tempfile
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, NamedTuple

from ..component import KINDS
from ..errors import UnknownNameError, UsageError
from .names import Names, check_name

if TYPE_CHECKING:
    from ..host import Host

__all__ = ["scaffold"]

_SUFFIX = ".tmpl"  # not .py: a template isn't valid Python yet, and installers compile every .py


class _Part(NamedTuple):
    """The parts of a plugin that depend on its kind."""

    module: str
    """The component's module, and its template."""
    factory: str
    summary: str
    command: str
    """Command that shows it at work."""


_PARTS = {
    "environment": _Part("kettle", "Kettle", "Tea for guests, each of whom likes it differently", "agentfw run {}"),
    "policy": _Part(
        "keywords", "KeywordPolicy", "Does what the words of the moment suggest", "agentfw run --policy {}"
    ),
    "tool": _Part("units", "Units", "Converts units of measure", "agentfw run --tool {}"),
    "memory": _Part("notes", "LastNotes", "The last notes on each user, in SQLite", "agentfw run --memory {}"),
    "reward": _Part("brevity", "Brevity", "Answers that come to the point", "agentfw run --reward {}"),
    "optimizer": _Part(
        "leave_one_out", "LeaveOneOut", "Each sample against the mean of the others", "agentfw train --optimizer {}"
    ),
    "learner": _Part("token_bias", "TokenBias", "A bias for each token, without a GPU", "agentfw train --learner {}"),
    "tracker": _Part("csv_file", "CsvFile", "All figures of a run in one CSV file", "agentfw run --tracker {}"),
}


def scaffold(name: str, kind: str, folder: Path, *, host: Host | None = None) -> list[Path]:
    """Write a plugin with one component of `kind` into a new folder below `folder`. Returns the written paths.

    The names of the components of `host` are taken. Default: all that is installed.
    """
    if kind not in _PARTS:
        raise UnknownNameError("kind", kind, _PARTS)
    if host is None:
        from ..host import Host, HostOptions

        host = Host.load(HostOptions())
    names = check_name(name, kind, host)
    target = folder / names.distribution
    if target.exists():
        raise UsageError(f"{target} already exists", fix="choose another name, or move the existing folder")
    written = _files(names, kind)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{names.distribution}-", dir=folder))
        try:
            for path, text in written.items():
                (temporary / path).parent.mkdir(parents=True, exist_ok=True)
                (temporary / path).write_text(text, encoding="utf-8", newline="\n")
            temporary.chmod(0o755)  # mkdtemp restricts it to the owner
            temporary.rename(target)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
    except OSError as error:
        raise UsageError(
            f"can't write {target}: {error.strerror or error}", fix="choose another folder, or free disk space"
        ) from error
    return [target / path for path in written]


def _files(names: Names, kind: str) -> dict[str, str]:
    """Every file of the package with its text, by its path below the package's folder."""
    from .. import __version__

    part = _PARTS[kind]
    values = {
        **names._asdict(),
        "kind": kind,
        "title": KINDS[kind].title,
        "hook": KINDS[kind].hook,
        "module": part.module,
        "factory": part.factory,
        "summary": part.summary,
        "run": part.command.format(names.component),
        "agentfw": ".".join(__version__.split(".")[:2]),
    }
    templates = files(__package__) / "templates"
    shared, own = templates / "shared", templates / kind
    package = names.package
    return {
        "pyproject.toml": _filled(shared, "pyproject.toml", values),
        "README.md": _filled(shared, "README.md", values),
        ".gitignore": _filled(shared, "gitignore", values),
        f"{package}/__init__.py": _filled(shared, "init.py", values),
        f"{package}/py.typed": "",
        f"{package}/plugin.py": _filled(shared, "plugin.py", values),
        f"{package}/{part.module}.py": _filled(own, f"{part.module}.py", values),
        "tests/test_contract.py": _filled(shared, "test_contract.py", values),
        f"tests/test_{part.module}.py": _filled(own, f"test_{part.module}.py", values),
    }


def _filled(folder: Traversable, name: str, values: dict[str, str]) -> str:
    return Template((folder / f"{name}{_SUFFIX}").read_text(encoding="utf-8")).substitute(values)
