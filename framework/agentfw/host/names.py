"""Names of plugins and components as they are written: qualified ones (`acme:scripted`), and files in their place."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from ..boundary.metadata import normalise, source_tree

OWN_DISTRIBUTION = "agentfw"
_FILE = ".py"


def is_file(name: str) -> bool:
    """Whether what stands in the place of a name is the path of a Python file, as FILE.py or FILE.py:NAME."""
    return name.endswith(_FILE) or f"{_FILE}:" in name


def file_and_attribute(name: str) -> tuple[Path, str]:
    """The file, and what is meant in it; empty where it has only one component.

    >>> file_and_attribute("rewards.py:correct")
    (PosixPath('rewards.py'), 'correct')
    """
    file, colon, attribute = name.rpartition(f"{_FILE}:")
    return (Path(file + _FILE), attribute) if colon else (Path(name), "")


def component_name(name: str) -> str:
    file, attribute = file_and_attribute(name)
    return re.sub(r"[^a-z0-9._-]+", "-", (attribute or file.stem).lower()).strip("._-") or "file"


def parted(name: str) -> tuple[str, str]:
    """The distribution of a qualified name, empty if there is none, and the rest."""
    whose, _, rest = name.rpartition(":")
    return normalise(whose), rest


def mend_of(distribution: str) -> str:
    """What to do about a mistake in its code. Whoever has installed it from a folder is taken for its author."""
    tree = None if distribution == OWN_DISTRIBUTION else source_tree(distribution)
    return f"fix it in {tree}" if tree else f"tell the authors of {distribution}"


def pip_install(what: str, index: str = "") -> str:
    """The command that installs a requirement, from this index alone, or where pip is configured to look."""
    return f"pip install {f'--index-url {shlex.quote(index)} ' if index else ''}{what}"
