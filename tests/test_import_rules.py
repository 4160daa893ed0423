"""The house, as DESIGN.md draws it: who may import whom, how long a file may be, and what nobody may do."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
import subprocess
import sys
import traceback
from collections.abc import Container, Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "agentfw": "framework",
    "agentfw_plugins": "plugins",
    "agentfw_memory": "memory",
    "agentfw_rewardmodels": "rewardmodels",
    "agentfw_cli": "cli",
    "agentfw_calendar": "plugins/calendar",
    "agentfw_papers": "plugins/papers",
}
MAY_IMPORT: dict[str, set[str]] = {
    "agentfw": set(),
    "agentfw_memory": set(),
    "agentfw_rewardmodels": set(),
    "agentfw_plugins": {"agentfw", "agentfw_memory", "agentfw_rewardmodels"},
    "agentfw_cli": {"agentfw"},
    "agentfw_calendar": {"agentfw", "agentfw_memory", "agentfw_plugins"},
    "agentfw_papers": {"agentfw", "agentfw_memory", "agentfw_rewardmodels", "agentfw_plugins"},
}
LONGEST = 600
DOORS = {"agentfw", "agentfw.__main__"}
"""Modules at the top of the framework that import its rooms, when somebody comes through them."""
# Standard modules that load code, or run it, from data.
FORBIDDEN_MODULES = {"pickle", "_pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
# What Python 3.12 and 3.13 no longer have.
REMOVED_MODULES = {
    *("aifc", "asynchat", "asyncore", "audioop", "cgi", "cgitb", "chunk", "crypt", "distutils", "imghdr", "imp"),
    *("lib2to3", "mailcap", "msilib", "nis", "nntplib", "ossaudiodev", "pipes", "smtpd", "sndhdr", "spwd", "sunau"),
    *("telnetlib", "uu", "xdrlib"),
}
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
LOOKED_AT = FORBIDDEN_CALLS | {"import_module", "load"}
CALLED = re.compile(rf"(?<![.\w])({'|'.join(FORBIDDEN_CALLS)})\(|import_module\(|torch\.load\(")


def sources(package: str) -> list[Path]:
    """The modules of a package; templates of plugins-to-be are no modules yet."""
    return sorted((ROOT / FOLDERS[package] / package).rglob("*.py"))


ALL = [(package, path) for package in FOLDERS for path in sources(package)]
WITH_EXAMPLES = [(package, path) for package, path in ALL if ">>> " in path.read_text("utf-8")]


@cache
def read(path: Path) -> tuple[bool, tuple[ast.Import | ast.ImportFrom | ast.Call, ...]]:
    """Whether a file says what it is, and what every rule looks at: its imports and the calls that may be forbidden.

    Only these are kept, since Python looks through all the nodes that are kept each time it collects garbage.
    """
    text = path.read_text("utf-8")
    tree = ast.parse(text, str(path))
    # Imports are statements, of which there are far fewer than of all that stands in them.
    nodes = ast.walk(tree) if CALLED.search(text) else statements(tree)
    found = (node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom | ast.Call))
    kept = tuple(node for node in found if not isinstance(node, ast.Call) or called(node) in LOOKED_AT)
    return not tree.body or bool(ast.get_docstring(tree)), kept


def statements(node: ast.AST) -> Iterator[ast.AST]:
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, field, ()):
            yield inner
            yield from statements(inner)


def nodes(path: Path) -> tuple[ast.Import | ast.ImportFrom | ast.Call, ...]:
    return read(path)[1]


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """Every module that is imported anywhere in a file, with its place."""
    for node in nodes(path):
        if isinstance(node, ast.Import):
            yield from ((alias.name, place(path, node)) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if not node.level and node.module:
                yield node.module, place(path, node)
        elif called(node) == "import_module":
            yield from ((str(word.value), place(path, node)) for word in node.args if isinstance(word, ast.Constant))


def called(node: ast.Call) -> str:
    """The last name of what is called: `load` of `torch.load(…)`."""
    return node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def place(path: Path, node: ast.expr | ast.stmt) -> str:
    return f"{path.name}:{node.lineno}" if ROOT not in path.parents else f"{path.relative_to(ROOT)}:{node.lineno}"


def test_nobody_imports_whom_they_may_not_nor_what_newer_pythons_no_longer_have() -> None:
    forbidden = {name: (FOLDERS.keys() - MAY_IMPORT[name] - {name}) | REMOVED_MODULES for name in FOLDERS}

    wrong = [
        f"{where}: {name}"
        for package, path in ALL
        for name, where in imports(path)
        if name.partition(".")[0] in forbidden[package]
    ]

    assert wrong == []


def documented() -> set[str]:
    """The modules of the page Python API."""
    page = ast.parse((ROOT / "docs_making" / "python_page.py").read_text("utf-8")).body
    (modules,) = [
        node.value for node in page if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MODULES"
    ]
    return set(ast.literal_eval(modules))


def test_plugins_use_what_is_documented_of_the_framework() -> None:
    api = documented()
    wrong = [
        f"{where}: {name}"
        for path in sources("agentfw_plugins")
        for name, where in imports(path)
        if name.startswith("agentfw.") and name not in api
    ]

    assert wrong == [], "document it in docs_making/python_page.py, or do without it"


def test_no_world_imports_another() -> None:
    known = modules()
    wrong = [
        f"{name} imports {other}"
        for name, (path, is_package) in known.items()
        if ".worlds." in name
        for other in imported_modules(name, path, is_package, known)
        if ".worlds." in other and other.split(".")[:3] != name.split(".")[:3]
    ]

    assert wrong == [], "what several worlds use is a library beside them"


def from_others(package: str, path: Path) -> Iterator[tuple[str, str, str]]:
    """What a file takes of other packages of ours: a module, a name in it, and the place."""
    for node in nodes(path):
        if not isinstance(node, ast.ImportFrom) or node.level or not node.module:
            continue
        if node.module.partition(".")[0] in FOLDERS.keys() - {package}:
            yield from ((node.module, one.name, place(path, node)) for one in node.names)


def test_a_distribution_beside_agentfw_uses_only_the_documented_api() -> None:
    """It shows what a private extension can be made of, so that it may import no more than such a one."""
    public = {module: set(importlib.import_module(module).__all__) for module in documented()}
    wrong = [
        f"{where}: {module}.{name}"
        for package, path in ALL
        if package in ("agentfw_calendar", "agentfw_papers")
        for module, name, where in from_others(package, path)
        if name not in public.get(module, ())
    ]

    assert wrong == [], "document it in docs_making/python_page.py, or do without it"


def test_nobody_takes_a_private_name_of_another_package() -> None:
    wrong = [
        f"{where}: {module}.{name}"
        for package, path in ALL
        for module, name, where in from_others(package, path)
        if any(part.startswith("_") and not part.startswith("__") for part in [*module.split("."), name])
    ]

    assert wrong == []


def test_a_file_has_one_subject_and_says_which() -> None:
    long = [str(path) for _, path in ALL if len(path.read_text("utf-8").splitlines()) > LONGEST]
    silent = [str(path) for _, path in ALL if not read(path)[0]]

    assert long == [], f"a file has at most {LONGEST} lines"
    assert silent == [], "a module begins with a sentence that says what it is"


def test_nobody_runs_data_as_code() -> None:
    wrong = [
        f"{where}: {name}"
        for _, path in ALL
        for name, where in imports(path)
        if name.partition(".")[0] in FORBIDDEN_MODULES
    ]
    for _, path in ALL:
        for node in nodes(path):
            if not isinstance(node, ast.Call):
                continue
            if isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
                wrong.append(f"{place(path, node)}: {node.func.id}")
            if called(node) == "load" and ast.unparse(node.func) == "torch.load" and not _only_weights(node):
                wrong.append(f"{place(path, node)}: torch.load without weights_only=True")
    assert wrong == []


@cache
def modules() -> dict[str, tuple[Path, bool]]:
    """Every module of the packages: its file, and whether it is a package."""
    found = {}
    for package, folder in FOLDERS.items():
        for path in sources(package):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            found[".".join(parts[:-1] if is_package else parts)] = path, is_package
    return found


def imported_modules(name: str, path: Path, is_package: bool, known: Container[str]) -> set[str]:
    """The modules of ours that a module imports: at its top, inside of functions and under TYPE_CHECKING.

    `from package import x` is an import of the module `package.x` where that is one, and else of the package's
    __init__. The packages above a module aren't counted: to import a module is no use of their __init__.
    """
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in known}
        elif isinstance(node, ast.ImportFrom):
            above = name.split(".") if is_package else name.split(".")[:-1]
            base = above[: len(above) + 1 - node.level] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                submodule = f"{origin}.{alias.name}"
                found.add(submodule if submodule in known else origin)
    return {each for each in found if each in known}


def beyond_nouns(known: Mapping[str, tuple[Path, bool]]) -> list[str]:
    """What the nouns import that isn't one of them. The modules at the top of the framework are its nouns."""
    nouns = {name for name, (path, is_package) in known.items() if name.count(".") == 1 and not is_package}
    nouns = {name for name in nouns if name.startswith("agentfw.")}
    return sorted(
        f"{name} imports {other}"
        for name in nouns - DOORS
        for other in imported_modules(name, *known[name], known) - nouns
    )


def test_the_nouns_of_the_framework_import_only_each_other() -> None:
    """Reading them, and nothing else, explains the whole. How many they may be is in size_ceilings.toml."""
    assert beyond_nouns(modules()) == []


def test_imports_are_seen_wherever_they_stand(tmp_path: Path) -> None:
    path, empty = tmp_path / "agent.py", tmp_path / "empty.py"
    path.write_text(
        "from .policy import Policy\nif TYPE_CHECKING:\n    from .runs.run import Run\n"
        "def later():\n    try:\n        from . import host\n"
        "    except ImportError:\n        import agentfw.turns.parsing\n    import_module('dill')\n"
    )
    empty.touch()
    others = ("agentfw.policy", "agentfw.runs.run", "agentfw.turns.parsing")
    known = {"agentfw.agent": (path, False), **dict.fromkeys(others, (empty, False))}
    known |= {"agentfw": (empty, True), "agentfw.host": (empty, True)}

    assert beyond_nouns(known) == [
        "agentfw.agent imports agentfw.host",
        "agentfw.agent imports agentfw.runs.run",
        "agentfw.agent imports agentfw.turns.parsing",
    ]
    assert sorted(imports(path)) == [("agentfw.turns.parsing", "agent.py:8"), ("dill", "agent.py:9")]


@pytest.mark.parametrize("package", ["agentfw", "agentfw.runs", "agentfw.testing"])
def test_no_module_takes_the_place_of_a_name_that_its_package_imports_later(package: str) -> None:
    """Whoever imports the module `notes` sets `notes` in its package, which then doesn't look for the name any more."""
    names = importlib.import_module(package).__all__

    assert [name for name in names if f"{package}.{name}" in modules()] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    known = modules()
    graph = {name: imported_modules(name, path, is_package, known) for name, (path, is_package) in known.items()}

    TopologicalSorter(graph).prepare()  # a circle is an error that names it


def _only_weights(call: ast.Call) -> bool:
    return any(
        keyword.arg == "weights_only" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        for keyword in call.keywords
    )


def test_top_folders_hold_packages_and_no_modules() -> None:
    for package, folder in FOLDERS.items():
        assert list((ROOT / folder).glob("*.py")) == []
        assert (ROOT / folder / package / "py.typed").is_file()
        assert [path.name for path in (ROOT / folder).iterdir() if (path / "__init__.py").exists()] == [package]


def test_the_libraries_load_neither_the_framework_nor_torch() -> None:
    code = "import sys, agentfw_memory, agentfw_rewardmodels; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert not {"agentfw", "torch", "agentfw_plugins", "agentfw_cli"} & set(done.stdout.split())


@pytest.fixture
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin that the examples speak of is installed."""
    dist_info = tmp_path / "agentfw_notes-1.2.0.dist-info"
    dist_info.mkdir()
    (dist_info / "METADATA").write_text("Name: agentfw-notes\nVersion: 1.2.0\n")
    (dist_info / "entry_points.txt").write_text("[agentfw]\nnotes = agentfw_notes\n")
    monkeypatch.syspath_prepend(str(tmp_path))


@pytest.mark.usefixtures("notes")
@pytest.mark.parametrize(("package", "path"), WITH_EXAMPLES, ids=lambda value: getattr(value, "stem", value))
def test_the_examples_in_the_docstrings_are_true(package: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # doctest takes the last line for the message, and that is the fix, which our errors carry as a note.
    whole = traceback.format_exception_only
    monkeypatch.setattr(traceback, "format_exception_only", lambda *given: whole(*given)[:1])
    name = ".".join(path.relative_to(ROOT / FOLDERS[package]).with_suffix("").parts).removesuffix(".__init__")
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"needs an extra: {error}")

    try:
        result = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE, raise_on_error=True)
    except doctest.UnexpectedException as error:
        if type(error.exc_info[1]).__name__ in ("MissingExtraError", "ModuleNotFoundError"):
            pytest.skip(f"needs an extra: {error.exc_info[1]}")
        raise

    assert result.attempted
    assert not result.failed
