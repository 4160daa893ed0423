"""An object that says what its node has."""

from __future__ import annotations

import os
from pathlib import Path


class Looker:
    async def look(self, path: str) -> list[object]:
        return [Path(path).exists(), os.environ.get("TEA_KEY"), os.environ.get("OTHER_KEY")]
