"""Writes a new plugin from agentfw's own templates to a folder.

The folder is renamed into place when it is complete, so it is never half written.

    paths = scaffold("agentfw-tea", "memory", Path("."))
"""

from __future__ import annotations

import keyword
import re
import shutil
import tempfile
from collections.abc import Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, NamedTuple

from ..component import KINDS
from ..errors import UnknownNameError, UsageError
from ..host.from_functions import kinds_in
from ..host.one_file import import_file
from .names import Names, check_name

if TYPE_CHECKING:
    from ..host import Host

__all__ = ["SUFFIX", "scaffold", "scaffold_file", "values_for", "write"]

SUFFIX = ".tmpl"  # not .py: a template isn't valid Python yet, and installers compile every .py


_NAMES = {".gitignore": "gitignore", "__init__.py": "init.py"}
"""Templates that can't have the name of the file that is made of them."""


_USUAL = (
    ("shared", "pyproject.toml"),
    ("shared", "README.md"),
    ("shared", ".gitignore"),
    ("shared", "{package}/__init__.py"),
)
"""Templates of every plugin, each with the file that is made of it."""
_CONTRACT = ("shared", "tests/test_contract.py")


class _Part(NamedTuple):
    """The parts of a plugin that depend on its kind."""

    module: str
    """The component's module, and its template."""
    factory: str
    summary: str
    command: str
    """Command that shows it at work."""
    files: tuple[tuple[str, str], ...] = ()
    """Templates that take the place of the usual ones or are added to them: the folder of the template, and the file
    that is made of it. `{package}` stands for the folder of the package."""


_PARTS = {
    "environment": _Part("kettle", "Kettle", "Tea for guests, each of whom likes it differently", "agentfw run {}"),
    "policy": _Part(
        "keywords", "KeywordPolicy", "Does what the words of the moment suggest", "agentfw run --policy {}"
    ),
    "tool": _Part("units", "Units", "Converts units of measure", "agentfw run --tool {}"),
    "memory": _Part("notes", "LastNotes", "The last notes on each user, in SQLite", "agentfw run --memory {}"),
    "reward": _Part("brevity", "Brevity", "Answers that come to the point", "agentfw run --reward {}"),
    "optimizer": _Part(
        "leave_one_out",
        "LeaveOneOut",
        "Each sample against the mean of the others",
        "agentfw train calendar --optimizer {}",
    ),
    "learner": _Part(
        "token_bias",
        "TokenBias",
        "A bias for each token, without a GPU",
        "agentfw train ENVIRONMENT --policy POLICY --learner {}",
    ),
    "tracker": _Part("csv_file", "CsvFile", "All figures of a run in one CSV file", "agentfw run --tracker {}"),
    "world": _Part(
        "kettle",
        "Kettle",
        "Tea for guests, with a policy and a reward of its own",
        "agentfw run {0} --policy {0}-host --reward {0}-promptness",
        (
            ("world", "{package}/plugin.py"),
            ("environment", "{package}/kettle.py"),
            ("world", "{package}/host.py"),
            ("world", "{package}/promptness.py"),
            ("world", "tests/test_contract.py"),
            ("environment", "tests/test_kettle.py"),
            ("world", "tests/test_host.py"),
            ("world", "tests/test_promptness.py"),
        ),
    ),
    "hook": _Part(
        "plugin",
        "",
        "A diary of each run",
        "agentfw run inbox",
        (("hook", "README.md"), ("hook", "{package}/plugin.py"), ("hook", "tests/test_plugin.py")),
    ),
}
"""The kinds of components; `world`, an environment with a policy and a reward; and `hook`, which has no component."""


def scaffold(name: str, kind: str, folder: Path, *, host: Host | None = None) -> list[Path]:
    """Write a plugin of a kind into a new folder below `folder`. Returns the written paths.

    The names of the components of `host` are taken. Default: all that is installed.
    """
    if kind not in _PARTS:
        raise UnknownNameError("kind", kind, _PARTS)
    if host is None:
        from ..host import Host, HostOptions

        host = Host.load(HostOptions())
    names = check_name(name, {"world": "environment", "hook": ""}.get(kind, kind), host)
    return write(_files(names, kind, _PARTS[kind]), folder / names.distribution)


def scaffold_file(file: Path, name: str, folder: Path, *, host: Host) -> list[Path]:
    """Write a plugin that is made of a single file, as `--tool ./FILE.py` takes it. Returns the written paths."""
    module = import_file(file.absolute())
    kinds = kinds_in(module)
    if len(kinds) != 1:
        found = f"has several kinds of components: {', '.join(kinds)}" if kinds else "has no component"
        raise UsageError(f"{file} {found}", fix="a file that becomes a plugin has components of one kind")
    (kind,) = kinds
    names = check_name(name, kind, host)
    own = re.sub(r"\W", "_", file.stem)
    taken = own == "plugin" or not own.isidentifier() or keyword.iskeyword(own)
    own = kind if taken else own
    summary = next(iter((module.__doc__ or "").strip().splitlines()), "").rstrip(".") or f"The {kind} of {file.name}"
    command = _PARTS[kind].command
    part = _Part(own, "", summary.replace('"', "'"), command, (("from_file", "{package}/plugin.py"), _CONTRACT))
    written = _files(names, kind, part)
    return write({**written, f"{names.package}/{own}.py": file.read_text("utf-8")}, folder / names.distribution)


def write(texts: Mapping[str, str], target: Path) -> list[Path]:
    """Write all of a new folder, or nothing. The keys are paths in the folder. Returns the written paths."""
    if target.exists():
        raise UsageError(f"{target} already exists", fix="choose another name, or move the existing folder")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            for path, text in texts.items():
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
    return [target / path for path in texts]


def values_for(names: Names) -> dict[str, str]:
    """What every template can use: the names, and the version of agentfw."""
    from .. import __version__

    return {**names._asdict(), "agentfw": ".".join(__version__.split(".")[:2])}


def _files(names: Names, kind: str, part: _Part) -> dict[str, str]:
    """Every file of the package with its text, by its path below the package's folder."""
    kind_of = KINDS["environment" if kind == "world" else kind] if kind != "hook" else None
    title = kind_of.title if kind_of else kind
    values = {
        **values_for(names),
        "kind": kind,
        "title": title,
        "a_title": f"{'an' if title[0] in 'aeiou' else 'a'} {title}",
        "hook": kind_of.hook if kind_of else "",
        "module": part.module,
        "factory": part.factory,
        "summary": part.summary,
        "run": part.command.format(names.component),
        "own_tests": "" if part.files else f", and\nwhat this one does besides is in `tests/test_{part.module}.py`",
        "with_settings": "" if part.files else " and its settings",
    }
    of_a_component = (
        ("shared", "{package}/plugin.py"),
        (kind, f"{{package}}/{part.module}.py"),
        _CONTRACT,
        (kind, f"tests/test_{part.module}.py"),
    )
    # The later one of two templates for one file wins.
    made_of = {file: template for template, file in (*_USUAL, *(part.files or of_a_component))}
    written: dict[str, str] = {}
    for file, template in made_of.items():
        source = files(__package__) / "templates" / template
        written[file.format(package=names.package)] = _filled(
            source, _NAMES.get(_name_of(file), _name_of(file)), values
        )
    return {**written, f"{names.package}/py.typed": ""}


def _name_of(file: str) -> str:
    return file.rpartition("/")[2]


def _filled(folder: Traversable, name: str, values: dict[str, str]) -> str:
    return Template((folder / f"{name}{SUFFIX}").read_text(encoding="utf-8")).substitute(values)
