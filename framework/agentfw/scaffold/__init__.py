"""Creates a new plugin: a package that works, has tests, and can be installed.

It is made of agentfw's own templates or of one that a plugin offers. Either all files are written or none. They are
created in a temporary folder, which is renamed at the end. Invalid names are refused before that.

    for path in scaffold("agentfw-tea", "memory", Path(".")):
        print(path)

agentfw's own templates make a small, useful component of each kind, meant to be changed. It passes the contract tests.
"""

from __future__ import annotations

from .write import Names, check_name, derive, scaffold, scaffold_file

__all__ = ["Names", "check_name", "derive", "scaffold", "scaffold_file"]
