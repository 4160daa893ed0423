"""Creates a new plugin: a package that works, has tests, and can be installed.

Either all files are written or none. They are created in a temporary folder, which is renamed at the end. Invalid names
are refused before that.

    for path in scaffold("agentfw-tea", "memory", Path(".")):
        print(path)

The result is a small, useful component of its kind, meant to be changed. It passes the contract tests.
"""

from __future__ import annotations

from .names import Names, check_name, derive
from .write import scaffold

__all__ = ["Names", "check_name", "derive", "scaffold"]
