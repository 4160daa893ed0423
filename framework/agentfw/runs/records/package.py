"""What a run folder holds so that the run can be played elsewhere: a lock, and the code that no index has.

A distribution takes part if the run has a component of it, or if one of those needs it and its code was imported. An
index can give an installed version again, so the lock has its version and a digest of its files. What was installed
from a folder (`pip install -e .`), or put there by hand, has no version that says what it is, so it is packed as a
wheel, and a plugin of a single file is copied.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import sys
import zipfile
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

from ...boundary.metadata import installed_places, normalise
from ...errors import RunFolderError, StorageError
from ...host.origin import digest_of_files, files_from_folder, needs_of, record_line
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
    system = f"{platform.system()} {platform.machine()}"
    return Lock(platform.python_version(), system, _processor(), dict(sorted(found.items())), copies)


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


def _processor() -> str:
    """The processor's name. Results of linear algebra may differ in their last bits between two of them."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
