"""What others wrote and a person has allowed: spec files, run folders and folders of skills.

A spec is code. It can name commands, functions, environment variables and addresses, and an Agent Skill tells a model
what to do. So a spec file, a run that wasn't made here and a folder of skills do nothing of the kind until a person was
shown what they want, and has allowed it. What is typed on a command line, and what ships with an installed
distribution, needs no permission.

    require_trusted(Path("spec.toml"), values)    # an UntrustedError that shows what it wants, or nothing
    allow_spec(Path("spec.toml"), values)

A permission is a file in the folder `trusted` beside the user's agentfw.toml, named after a digest of what is
wanted and of where. So a spec may get other seeds and sizes without a question, but no other command. A folder of
skills is allowed by a digest of every file in it. The variable AGENTFW_TRUST lists files and folders in which
everything is allowed, as PATH does, for images and continuous integration.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from ..errors import UntrustedError, UsageError, storing
from ..printing.out import shown_path
from .offers import is_file

__all__ = ["allow", "allow_folder", "allow_spec", "is_of_another_user", "of_run", "require_trusted"]
__all__ += ["require_trusted_folder", "require_trusted_skills", "user_folder", "wants"]

VARIABLE = "AGENTFW_TRUST"
_MOST, _LARGEST = 10_000, 100_000_000
"""How many files a folder that is allowed may have, and bytes in all. Nobody reads more."""
_SHOWN = 20  # how many files and statements an error shows
_KEY = re.compile(
    r"(?:.*_)?(?:command|cmd|shell|exec|executable|binary|program|script|python|check|args|arguments|function|reply"
    r"|factory|env|environ|url|uri|dsn|address|endpoint|host|proxy|headers?)s?",
    re.IGNORECASE,
)
"""Settings that start a program, call a function, or name a variable or a server, whatever their value is."""
_VALUE = re.compile(r"[a-z][a-z0-9+.-]*://|[A-Za-z_][\w.]*:[A-Za-z_][\w.-]*$", re.IGNORECASE)
"""An address, or a function as `package.module:name`, whatever the setting is called."""
SHIPPED: set[str] = set()
"""The spec files of installed plugins, as the host has found them. Whoever installed them trusts their code."""
_PLAIN = re.compile(r"[\w:.+ -]*")
OF_ANOTHER_USER = "said by another user"
"""The key for all that a file of another user says."""


def user_folder() -> Path:
    """Where the user's own files are: ~/.config/agentfw, or where their system keeps such files."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "agentfw"
    variable = "APPDATA" if sys.platform == "win32" else "XDG_CONFIG_HOME"
    return Path(os.environ.get(variable) or Path.home() / ".config") / "agentfw"


def wants(values: Any, path: str = "") -> Iterator[str]:
    """What the values of a spec would do beyond choosing components and numbers, one line for each statement."""
    if isinstance(values, Mapping) and values.keys() == {"$toml"} and _PLAIN.fullmatch(str(values["$toml"])) is None:
        yield f"{path} = {json.dumps(values)}"  # run.json has dates and infinity like this, and nothing else
    elif isinstance(values, Mapping):
        for key, value in values.items():
            whole = path if key in ("settings", "spec") else f"{path}.{key}".removeprefix(".")
            is_said = value and not isinstance(value, (bool, int, float))
            if is_said and (_KEY.fullmatch(str(key)) or key == OF_ANOTHER_USER):
                yield f"{whole} = {json.dumps(value, default=str)}"
            else:
                yield from wants(value, whole)
    elif isinstance(values, (list, tuple)):
        for number, value in enumerate(values):
            name = value.get("alias") or value.get("name") if isinstance(value, Mapping) else None
            yield from wants(value, f"{path}.{name or number}")
    elif isinstance(values, str) and (_assigns(values) or is_file(values) or _VALUE.match(values)):
        yield f"{path} = {json.dumps(values)}"


def _assigns(text: str) -> bool:
    """Whether a text is an assignment, as the variants of a loop have them, of something to allow."""
    if not re.match(r"\s*[\w-]+\s*(\.\s*[\w-]+\s*)*=", text):
        return False
    from ..boundary.settings_input import parse_assignments

    return any(wants(parse_assignments([text])))


def require_trusted(path: Path, values: Any) -> None:
    """Raise unless a person has allowed what a spec file, or the spec in a run folder, wants."""
    if (wanted := sorted(set(wants(values)))) and not _is_allowed(path, digest := _digest_of_spec(path, wanted)):
        raise _untrusted(path, digest, "it sets", wanted)


def of_run(about: Mapping[str, Any]) -> dict[str, Any]:
    """What the run.json of a run says, to be allowed."""
    return {key: about[key] for key in ("spec", "settings", "began_with") if key in about}


def is_of_another_user(path: Path) -> bool:
    """Whether neither this user nor the administrator owns a file."""
    return hasattr(os, "getuid") and path.stat().st_uid not in (0, os.getuid())


def allow_spec(path: Path, values: Any) -> bool:
    """Remember that a person has allowed what a spec wants, or has typed it. False if it wants nothing."""
    if wanted := sorted(set(wants(values))):
        allow(_digest_of_spec(path, wanted), path)
    return bool(wanted)


def require_trusted_folder(folder: Path) -> None:
    """Raise unless a person has allowed every file of a folder as it is."""
    if not _is_allowed(folder, digest := digest_of(folder)):
        files = [f"{shown_path(file)} ({file.lstat().st_size:,} bytes)" for file in files_of(folder)]
        raise _untrusted(folder, digest, "what is in it may tell a model what to do, and start programs", files)


def require_trusted_skills(skills: Sequence[str], *, yes: bool = False) -> None:
    """Raise unless every folder of `--skill` was allowed, or is now, by `yes`. A name is that of a distribution."""
    for folder in map(Path, skills):
        if folder.is_dir():
            (allow_folder if yes else require_trusted_folder)(folder)


def allow_folder(folder: Path) -> None:
    """Remember that a person has allowed every file of a folder as it is."""
    allow(digest_of(folder), folder)


def allow(digest: str, path: Path) -> None:
    """Remember a permission. The path is for who looks into the folder of permissions."""
    file = user_folder() / "trusted" / digest
    with storing(f"write {file}"):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.write_text(f"{path.absolute()}\n", "utf-8")


def _is_allowed(path: Path, digest: str) -> bool:
    places = [Path(place).resolve() for place in os.environ.get(VARIABLE, "").split(os.pathsep) if place]
    if str(path.resolve()) in SHIPPED or any(path.resolve().is_relative_to(place) for place in places):
        return True
    return (user_folder() / "trusted" / digest).exists()


def _untrusted(path: Path, digest: str, why: str, lines: list[str]) -> UntrustedError:
    more = [f"and {len(lines) - _SHOWN:,} more"] if len(lines) > _SHOWN else []
    return UntrustedError(
        "\n  ".join([f"nobody has allowed {shown_path(path)} as it is; {why}:", *lines[:_SHOWN], *more]),
        fix=f"read it, then: agentfw trust {shlex.quote(shown_path(path))}",
        digest=digest,
        path=path,
    )


def _digest_of_spec(path: Path, wanted: list[str]) -> str:
    """A run goes by its name, so that its folder can be moved, and a file by where it is: commands are relative."""
    where = path.name if path.is_dir() else str(path.resolve().parent)
    return sha256(json.dumps([where, wanted]).encode()).hexdigest()


def files_of(folder: Path) -> list[Path]:
    """Every file in a folder, sorted, but for what links lead to, and what Git keeps there."""
    found: list[Path] = []
    for here, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        found += [Path(here, name) for name in sorted(files)]
        if len(found) > _MOST:
            raise UsageError(f"{folder} has more than {_MOST:,} files", fix="name a smaller folder")
    return found


def digest_of(folder: Path) -> str:
    """The digest of what is in a folder: names, contents, and where links lead to."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}", fix="check the path")
    whole, size = sha256(), 0
    for file in files_of(folder):
        try:
            content = os.readlink(file).encode() if file.is_symlink() else file.read_bytes()
        except OSError as error:
            raise UsageError(f"{file} can't be read: {error.strerror}", fix="make the file readable") from error
        size += len(content)
        if size > _LARGEST:
            raise UsageError(f"{folder} has more than {_LARGEST // 1_000_000} MB", fix="name a smaller folder")
        for part in (file.relative_to(folder).as_posix().encode(), content):
            whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()
