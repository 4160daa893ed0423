"""What is in this folder holds whatever is moved: its tests import documented names only.

Documented are the modules that docs_making/python_page.py lists, and of these the names in `__all__`. What an area
needs besides, its conftest.py builds, so that internals are named in one place.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

from test_import_rules import FOLDERS, documented, place

HERE = Path(__file__).parent


def undocumented(path: Path) -> Iterator[str]:
    """The imports of our packages in a file, anywhere in it, that name what isn't documented."""
    api = documented()
    nodes = ast.walk(ast.parse(path.read_text("utf-8"), str(path)))
    for node in sorted(nodes, key=lambda node: getattr(node, "lineno", 0)):
        if isinstance(node, ast.Import):
            named = [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            named = [(node.module, alias.name) for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "importorskip")):
            named = [(str(word.value), "") for word in node.args[:1] if isinstance(word, ast.Constant)]
        else:
            continue
        for module, name in named:
            if module.partition(".")[0] not in FOLDERS or (module in FOLDERS and not name):
                continue
            is_module = f"{module}.{name}" in api
            is_name = module in api and (not name or name in importlib.import_module(module).__all__)
            if not (is_module or is_name):
                yield f"{place(path, node)}: {'.'.join(filter(None, (module, name)))}"


def test_contract_tests_import_documented_names_only() -> None:
    files = [path for path in sorted(HERE.rglob("*.py")) if path.name != "conftest.py"]

    assert files
    assert [line for path in files for line in undocumented(path)] == [], (
        "use what docs_making/python_page.py lists, the command line, HTTP or files; "
        "a fixture in the area's conftest.py may build the rest"
    )
