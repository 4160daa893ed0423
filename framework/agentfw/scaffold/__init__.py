"""Creates a plugin to start from: a package that works, is tested, and can be installed.

All of it is written or nothing. The files are made in a folder beside the right place, which is renamed
at the end; a name that can't be used is refused before that.

    for path in scaffold("agentfw-tea", "memory", Path(".")):
        print(path)

What is written is no stub but a small, useful component of its kind, meant to be changed. It passes its contract.
"""

from __future__ import annotations

from .names import Names, check_name, derive
from .write import scaffold

__all__ = ["Names", "check_name", "derive", "scaffold"]
