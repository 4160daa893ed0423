"""What exactly a distribution is: its version, its commit, the content of its files, and the versions of what it needs.

A version says little of a plugin that is being worked on: its files change, and the version stays.

    origin_of("agentfw-notes", ("agentfw_notes",))
    # {"version": "0.1.0", "source": "/home/ada/notes", "commit": "4f2c...", "changed": True, "files": "9d1e...",
    #  "requires": {"httpx": "0.28.1"}}
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..boundary.metadata import direct_url, normalise, source_tree, version_of


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
