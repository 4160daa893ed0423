"""Creates a new plugin: a package that works, has tests, and can be installed.

    for path in scaffold("agentfw-tea", "memory", Path(".")):
        print(path)

Its folder is renamed into place when it is complete, so either all files are written or none. A name that conflicts
with an existing one is refused, with the reason and an alternative.

    >>> derive("Agentfw_Tea")
    Names(distribution='agentfw-tea', package='agentfw_tea', component='tea')

A template is a folder. Each of its files becomes a file of the new package: one that ends in `.tmpl` loses that ending,
and its placeholders are filled in (`$package`, `$component`, `$distribution`, `$agentfw`; `$$` is a dollar sign). All
other files are copied. A folder or file may be named `{package}` or `{component}`.
"""

from __future__ import annotations

import keyword
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, NamedTuple

from ..boundary import metadata
from ..boundary.metadata import normalise
from ..component import KINDS
from ..errors import UnknownNameError, UsageError, disk_fix
from ..host.from_functions import kinds_in
from ..host.plugin_loading import module_of
from ..version import __version__

if TYPE_CHECKING:
    from ..host import Host

__all__ = ["Names", "check_name", "derive", "scaffold", "scaffold_file"]

_VALID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")  # as the packaging standards define it
_PREFIX = "agentfw-"
_LONGEST = 50


class Names(NamedTuple):
    """The names of a plugin's parts."""

    distribution: str  # name of the distribution, for pip
    package: str  # name of the package, for import
    component: str  # name of the component: the distribution's name without `agentfw-`


def derive(name: str) -> Names:
    distribution = normalise(name)
    return Names(distribution, distribution.replace("-", "_"), distribution.removeprefix(_PREFIX))


def check_name(name: str, kind: str, host: Host) -> Names:
    """The names for a new plugin with a component of this kind, if any. Raises a UsageError if they can't be used."""
    if not _VALID.fullmatch(name) or len(name) > _LONGEST:
        raise UsageError(
            f'"{name[:100]}" can\'t be the name of a package',
            fix=f"use at most {_LONGEST} letters, digits and hyphens, starting with a letter: agentfw-tea",
        )
    names = derive(name)
    if not names.component or not names.package.isidentifier() or keyword.iskeyword(names.package):
        text = f'"{name}" would make a package that Python can\'t import: {names.package}'
        raise UsageError(text, fix=f"start with a letter: agentfw-{names.component or 'tea'}")
    version = metadata.version_of(names.distribution)
    if version:
        raise UsageError(f"{names.distribution} {version} is already installed", fix="take another name")
    try:
        exists = names.package in sys.stdlib_module_names or find_spec(names.package) is not None
    except (ImportError, ValueError):  # a module without a spec, inserted by hand
        exists = True
    if exists:
        fix = f"choose another name: agentfw-{names.component}"
        raise UsageError(f"Python already has a module called {names.package}", fix=fix)
    for offer in host.components(kind) if kind else ():
        if offer.component.name == names.component:
            raise UsageError(
                f'{offer.record.distribution} already offers the {KINDS[offer.kind].title} "{names.component}"',
                fix="choose another name: two plugins with the same component name can't be used together",
            )
    return names


SUFFIX = ".tmpl"  # not .py: a template isn't valid Python yet, and installers compile every .py

_TEMPLATES = Path(__file__).parent / "templates"
_OF_COMPONENTS = ("package", "component")  # every plugin with a component has these templates, under those of its kind


class _Part(NamedTuple):
    module: str  # the component's module, and its template
    factory: str
    summary: str
    command: str  # shows it at work, after `agentfw`
    templates: tuple[str, ...] = ()  # folders, of which a later one wins. Default: those of components and of the kind


_PARTS = {
    "environment": _Part("kettle", "Kettle", "Tea for guests, each of whom likes it differently", "run {}"),
    "policy": _Part("keywords", "KeywordPolicy", "Does what the words of the moment suggest", "run --policy {}"),
    "tool": _Part("units", "Units", "Converts units of measure", "run --tool {}"),
    "memory": _Part("notes", "LastNotes", "The last notes on each user, in SQLite", "run inbox --memory {}"),
    "reward": _Part("brevity", "Brevity", "Answers that come to the point", "run --reward {}"),
    "optimizer": _Part(
        "leave_one_out", "LeaveOneOut", "Each sample against the mean of the others", "train calendar --optimizer {}"
    ),
    "learner": _Part(
        "token_bias",
        "TokenBias",
        "A bias for each token, without a GPU",
        "train ENVIRONMENT --policy POLICY --learner {}",
    ),
    "tracker": _Part("csv_file", "CsvFile", "All figures of a run in one CSV file", "run --tracker {}"),
    "world": _Part(
        "kettle",
        "Kettle",
        "Tea for guests, with a policy and a reward of its own",
        "run {0} --policy {0}-host --reward {0}-promptness",
        (*_OF_COMPONENTS, "environment", "world"),
    ),
    "hook": _Part("plugin", "", "A diary of each run", "run inbox", ("package", "hook")),
}
"""The kinds of components; `world`, an environment with a policy and a reward; and `hook`, which has no component."""


def scaffold(name: str, kind: str, folder: Path, *, host: Host | None = None) -> list[Path]:
    """Write a plugin of a kind into a new folder below `folder`. Names that `host` has are taken. Returns the paths."""
    if kind not in _PARTS:
        raise UnknownNameError("kind", kind, _PARTS)
    if host is None:
        from ..host import Host, HostOptions

        host = Host.load(HostOptions())
    names = check_name(name, {"world": "environment", "hook": ""}.get(kind, kind), host)
    return write(_files(names, kind, _PARTS[kind]), folder / names.distribution)


def scaffold_file(file: Path, name: str, folder: Path, *, host: Host) -> list[Path]:
    """Write a plugin that is made of a single file, as `--tool ./FILE.py` takes it. Returns the written paths."""
    module = module_of(file)
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
    part = _Part(own, "", summary.replace('"', "'"), command, (*_OF_COMPONENTS, "from_file"))
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
        problem = f"can't write {target}: {error.strerror or error}"
        raise UsageError(problem, fix=f"{disk_fix(error)}; another folder: --into FOLDER") from error
    return [target / path for path in texts]


def _files(names: Names, kind: str, part: _Part) -> dict[str, str]:
    kind_of = KINDS["environment" if kind == "world" else kind]
    title = kind_of.title
    values = {
        **names._asdict(),
        "agentfw": ".".join(__version__.split(".")[:2]),
        "kind": kind,
        "title": title,
        "a_title": f"{'an' if title[0] in 'aeiou' else 'a'} {title}",
        "hook": kind_of.hook,
        "module": part.module,
        "factory": part.factory,
        "summary": part.summary,
        "run": f"agentfw {part.command.format(names.component)}",
        "own_tests": "" if part.templates else f", and\nwhat this one does besides is in `tests/test_{part.module}.py`",
        "with_settings": "" if part.templates else " and its settings",
    }
    texts: dict[str, str] = {}
    for folder in (_TEMPLATES / name for name in part.templates or (*_OF_COMPONENTS, kind)):
        for file in sorted(folder.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                place, text = file.relative_to(folder).as_posix(), file.read_text("utf-8")
                if place.endswith(SUFFIX):
                    text = Template(text).substitute(values)
                place = place.replace("{package}", names.package).replace("{component}", names.component)
                texts[place.removesuffix(SUFFIX)] = text
    return texts
