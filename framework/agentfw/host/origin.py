"""What exactly a distribution is: its version, its commit, the content of its files, and the versions of what it needs.

A version says little of a plugin that is being worked on: its files change, and the version stays.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..boundary.metadata import direct_url, normalise, source_tree, version_of


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
    found: dict[str, Any] = {
        "version": Distribution.at(place).version,
        "files": digest_of_files(place),
        "requires": requires,
    }
    tree = source_tree(name)
    if tree is not None:
        found |= {"source": str(tree), **_git(tree)}
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


def _git(tree: Path) -> dict[str, Any]:
    """The commit of a source tree, and whether anything in the tree differs from it."""
    command = ["git", "-C", str(tree), "status", "--porcelain=v2", "--branch", "--", "."]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):  # no git, or no repository
        return {}
    status = told.stdout.splitlines()
    commit = next((line.split()[2] for line in status if line.startswith("# branch.oid ")), "")
    return {"commit": commit, "changed": any(not line.startswith("#") for line in status)} if commit else {}
