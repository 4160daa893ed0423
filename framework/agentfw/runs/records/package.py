"""What a run was played with: its distributions, in run.json, and what a run folder holds to play it elsewhere.

A version says little of a plugin that is being worked on: its files change, and the version stays. So the origin of a
distribution has its commit, the content of its files, and the versions of what it needs.

The package of a run is a lock, and the code that no index has. A distribution takes part if the run has a component of
it, or if one of those needs it and its code was imported. An index can give an installed version again, so the lock has
its version and a digest of its files. What was installed from a folder (`pip install -e .`), or put there by hand, has
no version that says what it is, so it is packed as a wheel, and a plugin of a single file is copied.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...boundary.metadata import direct_url, installed_places, normalise, source_tree, version_of
from ...errors import RunFolderError, StorageError
from ...host.trust import allow_folder
from .journal import make_folder, write_whole

_LARGEST = 50_000_000  # the largest package that is packed, in bytes of its files


@dataclass(frozen=True, slots=True)
class Locked:
    version: str
    digest: str = ""  # of its files. Empty where the installation doesn't list them
    wheel: str = ""  # the file beside the lock that installs it, for one that was installed from a folder
    left_out: str = ""  # why there is no such file, although no index has this distribution


@dataclass(frozen=True, slots=True)
class Lock:
    """The machine and the installation that a run was played with."""

    python: str
    system: str
    processor: str
    distributions: Mapping[str, Locked] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)  # digests of single-file plugins, by their copy's name

    def differences(self, now: Lock) -> list[str]:
        """What isn't as it was, in sentences: Python, the machine, distributions, plugins of one file."""
        before, after = ((lock.python, lock.system, lock.processor) for lock in (self, now))
        machine = zip(("Python", "the system", "the processor"), before, after, strict=True)
        lines = [f"{what} was {then}, and is {here} here" for what, then, here in machine if then != here]
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

    def requirements(self, folder: Path) -> list[str]:
        """The lines of a requirements file for pip, with wheels by their path in this folder."""
        return [
            str(folder / locked.wheel) if locked.wheel else f"{name}=={locked.version}"
            for name, locked in self.distributions.items()
        ]


def pack(folder: Path, origins: Mapping[str, Mapping[str, Any]], modules: Set[str]) -> None:
    """Write the package of a run, or add to it what was imported since. Its components need these `modules`."""
    place = folder / "package"
    before = read_lock(folder) if (place / "lock.json").exists() else None
    now = lock_of(origins, modules)
    if before is not None and now.distributions.keys() <= before.distributions.keys():
        return
    make_folder(place)
    packed = dict[str, Locked]() if before is None else dict(before.distributions)
    places = installed_places()
    for name, locked in now.distributions.items():
        if name not in packed:
            packed[name] = _with_wheel(name, locked, places[name][0], place)
    for name, origin in _single_files(origins):
        if not (place / name).exists():
            shutil.copyfile(origin, place / name)
    lock = Lock(now.python, now.system, now.processor, dict(sorted(packed.items())), now.files)
    write_whole(place / "lock.json", json.dumps(asdict(lock), indent=2) + "\n")
    with suppress(StorageError):  # where nothing is remembered, `agentfw reproduce` asks
        allow_folder(place)


def read_lock(folder: Path) -> Lock:
    file = folder / "package" / "lock.json"
    try:
        values = json.loads(file.read_text("utf-8"))
        known = {str(name): Locked(**locked) for name, locked in values.pop("distributions").items()}
        return Lock(**values, distributions=known)
    except FileNotFoundError:
        text = f"{folder} has no package, so what it was played with isn't known"
        raise RunFolderError(text, fix="copy the run's whole folder") from None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise RunFolderError(f"{file} can't be read: {error}", fix="restore it from a copy") from None


def lock_of(origins: Mapping[str, Mapping[str, Any]], modules: Set[str] = frozenset()) -> Lock:
    """The installation of this process, as far as a run with these distributions needs it."""
    places = installed_places()
    found, seen = dict[str, Locked](), set[str]()
    waiting, needed = list(origins), {normalise(name) for name in origins}
    loaded = modules | {name.partition(".")[0] for name in sys.modules}
    while waiting:
        name = normalise(waiting.pop())
        if name in seen or name not in places:
            continue
        place, version = places[name]
        if name in needed or loaded & _modules_of(name, place):
            seen.add(name)
            needs = needs_of(place)
            found[name] = Locked(version or Distribution.at(place).version, digest_of_files(place))
            needed |= {need for need, always in needs.items() if always}
            waiting += needs
    copies = {name: hashlib.sha256(file.read_bytes()).hexdigest() for name, file in _single_files(origins)}
    system, processor = f"{platform.system()} {platform.machine()}", ""
    with suppress(OSError):  # the name of the model: linear algebra may differ in its last bits between two of them
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
        models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        processor = next(models, "")
    processor = processor or platform.processor() or platform.machine()
    return Lock(platform.python_version(), system, processor, dict(sorted(found.items())), copies)


@cache
def _modules_of(name: str, place: str) -> frozenset[str]:
    """The names that the code of a distribution is imported by."""
    return frozenset({name.replace("-", "_"), *(Distribution.at(place).read_text("top_level.txt") or "").split()})


def _with_wheel(name: str, locked: Locked, source: str, place: Path) -> Locked:
    """The distribution whose metadata are in `source`, packed beside the lock if it was installed from a folder."""
    if not (files := files_from_folder(source)):
        return locked
    installed = Distribution.at(source)
    if (size := sum(file.stat().st_size for file in files.values())) > _LARGEST:
        return Locked(locked.version, locked.digest, left_out=f"its files have {size / 1e6:.0f} MB")
    wheel = f"{name.replace('-', '_')}-{installed.version}-py3-none-any.whl"
    kept = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "agentfw" / "wheels"
    made = kept / locked.digest / wheel
    try:
        if not made.exists():
            make_folder(made.parent)
            own = made.with_name(f"{wheel}.{os.getpid()}")
            _write_wheel(own, installed, files)
            own.replace(made)
        os.link(made, place / wheel)  # a copy would take its room once for each run
    except OSError:  # there may be no place for a cache, or only on another disk
        try:
            _write_wheel(place / wheel, installed, files)
        except OSError as error:
            (place / wheel).unlink(missing_ok=True)
            return Locked(locked.version, locked.digest, left_out=f"it couldn't be written: {error.strerror or error}")
    return Locked(locked.version, locked.digest, wheel)


def _write_wheel(path: Path, installed: Distribution, files: Mapping[str, Path]) -> None:
    info = f"{normalise(installed.name).replace('-', '_')}-{installed.version}.dist-info"
    texts = {
        "METADATA": installed.read_text("METADATA") or "",
        "entry_points.txt": installed.read_text("entry_points.txt") or "",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: agentfw\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    contents = {name: file.read_bytes() for name, file in files.items()}
    contents |= {f"{info}/{name}": text.encode() for name, text in texts.items() if text}
    lines = []
    path.touch(mode=0o600)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in contents.items():
            lines.append(f"{record_line(name, content)}\n")
            wheel.writestr(name, content, compresslevel=1)
        wheel.writestr(f"{info}/RECORD", "".join([*lines, f"{info}/RECORD,,\n"]))


def _single_files(origins: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Path]]:
    for origin in origins.values():
        source = Path(str(origin.get("source", "")))
        if source.suffix == ".py" and source.is_file():
            yield source.name, source


@cache
def origin_of(name: str, place: str) -> dict[str, Any]:
    """The origin of a distribution whose metadata are in this folder, as it was first seen: code stays as imported."""
    if not place:
        return {"version": ""}
    requires = {
        need: version
        for need, always in sorted(needs_of(place).items())
        if (always or need.replace("-", "_") in sys.modules) and (version := version_of(need))
    }
    found: dict[str, Any] = {"version": Distribution.at(place).version}
    found |= {"files": digest_of_files(place), "requires": requires}
    if (tree := source_tree(name)) is not None:
        found["source"] = str(tree)
        command = ["git", "-C", str(tree), "status", "--porcelain=v2", "--branch", "--", "."]
        with suppress(OSError, subprocess.SubprocessError):  # no git, or no repository
            told = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
            status = told.stdout.splitlines()
            head = next((line.split()[2] for line in status if line.startswith("# branch.oid ")), "")
            if head:
                found |= {"commit": head, "changed": any(not line.startswith("#") for line in status)}
    elif origin := direct_url(name):
        commit = dict(origin.get("vcs_info", {})).get("commit_id")
        found |= {"source": origin.get("url"), **({"commit": commit, "changed": False} if commit else {})}
    return found


@cache
def digest_of_files(place: str) -> str:
    """The digest of a distribution's files. Empty where the installation doesn't list them."""
    lines = [record_line(path, file.read_bytes()) for path, file in files_from_folder(place).items()]
    lines = lines or _UNPACKED.findall(Distribution.at(place).read_text("RECORD") or "")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()[:32] if lines else ""


def changed_parts(one: Mapping[str, Any], other: Mapping[str, Any], when: str, then: str) -> list[str]:
    """What took part in a segment and was another, or missing, in the other one. `when` and `then` tell them apart."""
    # agentfw itself is one of the plugins that took part.
    before, after = ({"agentfw": f"agentfw=={each.get('agentfw')}", **each.get("plugins", {})} for each in (one, other))
    return [
        f"plugin {name} was {source} {when} and is {after.get(name, 'not there')} {then}"
        for name, source in before.items()
        if after.get(name) != source
    ] + changed_origins(one.get("distributions", {}), other.get("distributions", {}), when, then)


def changed_origins(
    one: Mapping[str, Mapping[str, Any]], other: Mapping[str, Mapping[str, Any]], when: str, then: str
) -> list[str]:
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


def place_of(name: str) -> str:
    """The folder with the metadata of a distribution. Empty if it isn't installed."""
    try:
        return str(getattr(distribution(name), "_path", ""))
    except PackageNotFoundError:
        return ""


@cache
def needs_of(place: str) -> Mapping[str, bool]:
    """The names of the distributions that an installed one needs: always, or only with an extra."""
    needs: dict[str, bool] = {}
    for line in Distribution.at(place).requires or ():
        need = normalise(re.split(r"[^\w.-]", line.strip(), maxsplit=1)[0])
        needs[need] = needs.get(need, False) or "extra ==" not in line
    return needs


_UNPACKED = re.compile(r"^(?!\.\.|/)(?!.*\.dist-info/)(?!.*\.pyc,).+$", re.MULTILINE)
"""The lines of a RECORD that are the same in each installation: not scripts, and not what Python compiles."""


def record_line(path: str, content: bytes) -> str:
    """The line that a wheel has for a file, in its RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{path},sha256={digest},{len(content)}"


@cache
def files_from_folder(place: str) -> Mapping[str, Path]:
    """The files of a distribution that is imported from its sources (`pip install -e`), or was put there by hand."""
    installed = Distribution.at(place)
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    if dict(origin.get("dir_info", {})).get("editable"):
        root = Path(str(origin["url"]).removeprefix("file://"))
    elif installed.read_text("RECORD") is None:
        root = Path(place).parent
    else:
        return {}
    places: list[Path] = []
    for file in installed.files or ():
        if file.suffix == ".pth" and Path(str(file.locate())).is_file():
            # The packages below the folders that it adds to the path. The root of a project has other folders, too.
            for folder in map(Path, file.read_text("utf-8").splitlines()):
                if folder.is_dir() and folder != root:
                    places += (below.parent for below in folder.glob("*/__init__.py"))
    for entry in {entry.module.partition(".")[0] for entry in installed.entry_points}:
        with suppress(ImportError, ValueError):
            spec = find_spec(entry)
            if spec is not None and spec.origin and Path(spec.origin).is_relative_to(root):
                places.append(Path((spec.submodule_search_locations or [spec.origin])[0]))
    found: dict[str, Path] = {}
    for top in sorted(set(places)):
        if top.is_file():
            found[top.name] = top
        for home, below, names in os.walk(top):
            below[:] = set(below) - {"__pycache__"}
            found |= {os.path.relpath(os.path.join(home, name), top.parent): Path(home, name) for name in names}
    return found
