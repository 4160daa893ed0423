"""What a run was played with: what each distribution is exactly, and a lock, so that it can be played again elsewhere.

A version says little of a plugin that is being worked on: its files change, and the version stays. So run.json has the
origin of each distribution whose components take part:

    origin_of("agentfw-notes", ("agentfw_notes",))
    # {"version": "0.1.0", "source": "/home/ada/notes", "commit": "4f2c...", "changed": True, "files": "9d1e...",
    #  "requires": {"httpx": "0.28.1"}}

The run's folder has a package, with the lock and the plugins that no distribution has:

    RUNS/2026-11-21-inbox-7f3a19c4/package/
        lock.json           the machine, and each distribution that took part or whose code was imported
        our_tools.py        a plugin that is a single file

    pack(folder.path, folder.about["distributions"], {"networkx"})
    read_lock(folder.path).differences(lock_of(names))
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...boundary.metadata import direct_url, normalise, source_tree, version_of
from ...errors import RunFolderError, StorageError
from ...host.trust import allow_folder
from .journal import make_folder, write_whole

Origins = Mapping[str, Mapping[str, Any]]
"""The origin of each distribution, by its name."""


@cache
def origin_of(name: str, modules: tuple[str, ...]) -> dict[str, Any]:
    """The origin of an installed distribution with these top-level modules. What isn't known is left out.

    It is looked at once: code that was imported stays as it was.
    """
    try:
        installed = distribution(name)
    except PackageNotFoundError:
        return {"version": ""}
    found: dict[str, Any] = {"version": installed.version, "files": _digest(modules), "requires": _requires(installed)}
    tree = source_tree(name)
    if tree is not None:
        found |= {"source": str(tree), **_git(tree)}
    elif origin := direct_url(name):
        commit = dict(origin.get("vcs_info", {})).get("commit_id")
        found |= {"source": origin.get("url"), **({"commit": commit, "changed": False} if commit else {})}
    return found


def changed_plugins(one: Mapping[str, str], other: Mapping[str, str], when: str, then: str) -> list[str]:
    """The plugins of `one` that were others, or missing, in `other`; `when` and `then` say which is which."""
    gone = "not there"
    return [
        f"plugin {name} was {source} {when} and is {other.get(name, gone)} {then}"
        for name, source in one.items()
        if other.get(name) != source
    ]


def changed_origins(one: Origins, other: Origins, when: str, then: str) -> list[str]:
    """What differs in the distributions that two runs have in common; `when` and `then` say which run is which."""
    lines = []
    for name in one.keys() & other.keys():
        before, after = one[name], other[name]
        if before.get("version") == after.get("version") and before.get("files") != after.get("files"):
            lines.append(f"{name} has other files {when}{_commit(before)} than {then}{_commit(after)}, in one version")
        needs, needs_now = before.get("requires", {}), after.get("requires", {})
        lines += [
            f"{need}, which {name} needs, was {needs[need]} {when} and is {needs_now[need]} {then}"
            for need in needs.keys() & needs_now.keys()  # of the others, one run has imported no code
            if needs[need] != needs_now[need]
        ]
    return sorted(lines)


def _commit(origin: Mapping[str, Any]) -> str:
    if "commit" not in origin:
        return ""
    return f" ({origin['commit'][:10]}{', changed' if origin.get('changed') else ''})"


def _requires(installed: Distribution) -> dict[str, str]:
    """The installed versions of what it names as dependencies. Of its extras, those whose code was imported."""
    names = set()
    for line in installed.requires or ():
        name = normalise(re.split(r"[^\w.-]", line.strip(), maxsplit=1)[0])
        if "extra ==" not in line or name.replace("-", "_") in sys.modules:
            names.add(name)
    return {name: version for name in sorted(names) if (version := version_of(name))}


def _digest(modules: Iterable[str]) -> str:
    """A digest of all files of these modules that aren't made by Python itself."""
    digest = hashlib.sha256()
    for module in modules:
        for name, file in _files(module):
            digest.update(f"{name}\0".encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:32]


def _files(module: str) -> Iterator[tuple[str, Path]]:
    try:
        spec = find_spec(module)
    except (ImportError, ValueError):
        return
    folders = [Path(place) for place in (spec.submodule_search_locations or ())] if spec is not None else []
    for folder in folders:
        for file in sorted(folder.rglob("*.py")):
            yield f"{module}/{file.relative_to(folder).as_posix()}", file
    if spec is not None and not folders and spec.origin and Path(spec.origin).is_file():
        yield module, Path(spec.origin)


def _git(tree: Path) -> dict[str, Any]:
    """The commit of a source tree, and whether anything in the tree differs from it."""
    try:
        status = subprocess.run(
            ["git", "-C", str(tree), "status", "--porcelain=v2", "--branch", "--", "."],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        ).stdout.splitlines()
    except (OSError, subprocess.SubprocessError):  # no git, or no repository
        return {}
    commit = next((line.split()[2] for line in status if line.startswith("# branch.oid ")), "")
    return {"commit": commit, "changed": any(not line.startswith("#") for line in status)} if commit else {}


@dataclass(frozen=True, slots=True)
class Locked:
    """One distribution as it was."""

    version: str
    digest: str = ""
    """Of its files. Empty where nobody knows which they are."""


@dataclass(frozen=True, slots=True)
class Lock:
    """The machine and the installation that a run was played with."""

    python: str
    system: str
    processor: str
    distributions: Mapping[str, Locked] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)
    """The digests of plugins that are single files, by the name of their copy."""

    def differences(self, now: Lock) -> list[str]:
        """What isn't as it was, in sentences: Python, the machine, distributions, plugins of one file."""
        lines = [
            f"{what} was {before}, and is {after} here"
            for what, before, after in (
                ("Python", self.python, now.python),
                ("the system", self.system, now.system),
                ("the processor", self.processor, now.processor),
            )
            if before != after
        ]
        for name, locked in self.distributions.items():
            here = now.distributions.get(name)
            if here is None or not here.version:
                lines.append(f"{name} {locked.version} isn't installed here")
            elif here.version != locked.version:
                lines.append(f"{name} was {locked.version}, and is {here.version} here")
            elif locked.digest != here.digest:
                lines.append(f"{name} {locked.version} has other files here, in the same version")
        for name, digest in self.files.items():
            if name not in now.files:
                lines.append(f"the plugin {name} isn't here")
            elif now.files[name] != digest:
                lines.append(f"the plugin {name} has another content here")
        return lines

    def requirements(self, origins: Origins) -> list[str]:
        """The lines of a requirements file for pip. What was installed from a folder is named with its commit."""
        return [
            f"# {name} {locked.version} was installed from {source}{_commit(origins[name])}"
            if (source := origins.get(name, {}).get("source"))
            else f"{name}=={locked.version}"
            for name, locked in self.distributions.items()
        ]


def pack(folder: Path, origins: Origins, modules: Set[str]) -> None:
    """Write the package of a run, or add to it what was imported since. What it had from the start stays.

    `modules` are those that its components need, of which some may never be imported.
    """
    place = folder / "package"
    before = read_lock(folder).distributions if (place / "lock.json").exists() else {}
    now = lock_of(origins, modules)
    if before and now.distributions.keys() <= before.keys():
        return
    make_folder(place)
    for name, origin in _single_files(origins):
        if not (place / name).exists():
            shutil.copyfile(origin, place / name)
    lock = replace(now, distributions=dict(sorted({**now.distributions, **before}.items())))
    write_whole(place / "lock.json", json.dumps(asdict(lock), indent=2) + "\n")
    with suppress(StorageError):  # where nothing is remembered, `agentfw reproduce` asks
        allow_folder(place)


def read_lock(folder: Path) -> Lock:
    """The lock of a run."""
    file = folder / "package" / "lock.json"
    try:
        values = json.loads(file.read_text("utf-8"))
        known = {str(name): Locked(**locked) for name, locked in values.pop("distributions").items()}
        return Lock(**values, distributions=known)
    except FileNotFoundError:
        raise RunFolderError(
            f"{folder} has no package, so what it was played with isn't known", fix="copy the run's whole folder"
        ) from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise RunFolderError(f"{file} can't be read: {error}", fix="restore it from a copy") from None


def lock_of(origins: Origins, modules: Set[str] = frozenset()) -> Lock:
    """The installation of this process, as far as a run with these distributions needs it."""
    found, seen = dict[str, Locked](), set[str]()
    waiting, needed = list(origins), {normalise(name) for name in origins}
    loaded = modules | {name.partition(".")[0] for name in sys.modules}
    while waiting:
        name = normalise(waiting.pop())
        if name in seen:
            continue
        try:
            installed = distribution(name)
        except (PackageNotFoundError, ValueError):
            if name in origins and "source" not in origins[name]:
                found[name] = Locked("")
            seen.add(name)
            continue
        tops = {name.replace("-", "_"), *(installed.read_text("top_level.txt") or "").split()}
        if name not in needed and not loaded & tops:
            continue
        seen.add(name)
        lines = _UNPACKED.findall(installed.read_text("RECORD") or "")
        listed = hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:32] if lines else ""
        found[name] = Locked(installed.version, origins.get(name, {}).get("files", listed))
        for line in installed.requires or ():
            need = normalise(re.split(r"[^\w.-]", line.strip(), maxsplit=1)[0])
            needed |= set() if "extra ==" in line else {need}
            waiting.append(need)
    copies = {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in _single_files(origins)}
    system = f"{platform.system()} {platform.machine()}"
    return Lock(platform.python_version(), system, _processor(), dict(sorted(found.items())), copies)


_UNPACKED = re.compile(r"^(?!\.\.|/)(?!.*\.dist-info/)(?!.*\.(?:pyc|pth),).+$", re.MULTILINE)
"""The lines of a RECORD that are the same in each installation: not scripts, and not what Python compiles."""


def _single_files(origins: Origins) -> Iterator[tuple[str, Path]]:
    for origin in origins.values():
        source = Path(str(origin.get("source", "")))
        if source.suffix == ".py" and source.is_file():
            yield source.name, source


def _processor() -> str:
    """The processor's name. Results of linear algebra may differ in their last bits between two of them."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
