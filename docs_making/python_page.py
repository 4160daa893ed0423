"""The page reference/python.md: the public names of the packages, from their source and docstrings."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from types import ModuleType

HEAD = """\
# Python API

The public names of the packages, from their docstrings. A name that isn't listed here can change without notice.
"""

MODULES = {
    "agentfw": "the framework: environments, agents, the timeline, runs, the host",
    "agentfw.component": "the kinds of components",
    "agentfw.engine": "run a component in other processes, here or on a Ray cluster",
    "agentfw.episode": "what a record consists of, besides episodes, tasks and turns",
    "agentfw.errors": "the errors, and `InterventionRefused` for what an agent can't do",
    "agentfw.hookspecs": "what registration hooks return, besides components; [all hooks](hooks.md)",
    "agentfw.host": "plugins and projects, as the host sees them",
    "agentfw.host.trust": "what others wrote and a person has allowed",
    "agentfw.host.from_functions": "components made of one function or class",
    "agentfw.host.plugin_loading": "plugins of one file, and the function that a setting names in one",
    "agentfw.host.reward_functions": "reward functions as agentfw, TRL and verifiers have them",
    "agentfw.interfaces": "when an agent is shown what became known",
    "agentfw.learner": "what a learner is given, and what it returns",
    "agentfw.memory": "what a memory is asked, and what it returns",
    "agentfw.boundary.gate": "import the function that a setting names, or a library of an extra",
    "agentfw.boundary.metadata": "read the entry points of what is installed",
    "agentfw.turns.nested": "an engagement as a module of an agent",
    "agentfw.optimizer": "advantages, and the loss that they are for",
    "agentfw.printing.out": "print the output of a command",
    "agentfw.turns.parsing": "read tool calls from a model's text",
    "agentfw.policy": "what tokens cost",
    "agentfw.report": "draw charts and write HTML pages",
    "agentfw.report.statistics": "intervals and paired differences",
    "agentfw.request": "what a policy is shown, how it samples, and what it passes on as a program wrote it",
    "agentfw.runs": "start, read and report runs",
    "agentfw.scores": "what reward models give",
    "agentfw.runs.spec.weights": "schedules of rewards",
    "agentfw.boundary.output": "standard output as data, without secrets",
    "agentfw.boundary.secrets": "secrets struck out of what leaves a run",
    "agentfw.seeds": "random choices by name",
    "agentfw.turns.session": "an episode that is led from outside",
    "agentfw.settings": "settings that a resumed run may change or that policy and learner share",
    "agentfw.boundary.settings_input": "assignments of `--set`, and what is wrong with settings",
    "agentfw.testing": "fixtures and contract suites for plugin authors",
    "agentfw.timeline": "the clock, and work in progress",
    "agentfw.tool": "tools made of functions",
    "agentfw.tracker": "what took time in an episode, for trackers",
    "agentfw.turns.turn_builder": "read the answer of a policy, and record it as a turn",
    "agentfw_memory": "StrategyHub and the skill graph; imports neither agentfw nor torch",
    "agentfw_memory.graph.stores": "keep a skill graph in another database",
    "agentfw_memory.testing": "what every store of a skill graph has to do, as tests",
    "agentfw_rewardmodels": "the preference model; imports no agentfw",
    "agentfw_rewardmodels.rubric": "the rubric judge",
    "agentfw_plugins.registration": "make a plugin of folders",
    "agentfw_plugins.command_options": "the option `--json` for the command of a plugin",
    "agentfw_plugins.learners.losses": "write a loss of your own",
    "agentfw_plugins.models": "find and load language models",
    "agentfw_plugins.models.making": "make small language models from lessons",
    "agentfw_plugins.models.conversation": "convert a conversation to the format of chat models",
    "agentfw_plugins.memories.strategyhub": "the memory `strategyhub`",
    "agentfw_plugins.policies.scripted": "the policy `scripted`",
    "agentfw_plugins.rewards": "turn the errors of agentfw_rewardmodels into those of agentfw",
    "agentfw_plugins.rewards.preference": "build a reward on the preference model",
    "agentfw_plugins.rewards.measured": "make a reward of a figure that the environment measured",
    "agentfw_plugins.rewards.judges": "build a reward on a judge",
    "agentfw_plugins.serving": "serve an application over HTTP",
    "agentfw_plugins.worlds.calendar.choice_model": "learn what somebody prefers from what they choose",
    "agentfw_plugins.worlds.calendar.environment": "the environment `calendar`",
    "agentfw_plugins.worlds.calendar.event_attributes": "what an agent is shown of an event, also in words",
}
"""The modules, each with what it is about."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_FACTORY = re.compile(r"field\(default_factory=([\w.]+)\)")
_WIDEST = 110
"""A longer signature has a line for each parameter."""


def python_page() -> str:
    """The whole page as Markdown."""
    lines = [HEAD, *(f"- [`{module}`](#{module}): {summary}" for module, summary in MODULES.items())]
    places: dict[int, str] = {}
    for name, summary in MODULES.items():
        module = importlib.import_module(name)
        lines += ["", f'<a id="{name}"></a>', "", f"## `{name}`", "", *_prose(module.__doc__ or f"{summary}."), ""]
        known = []
        for public in module.__all__:
            value = getattr(module, public)
            place = f"{name}.{public}"
            if not inspect.ismodule(value) and id(value) in places:
                known.append(f"[`{public}`](#{places[id(value)]})")
                continue
            if inspect.isclass(value) or inspect.isfunction(value):
                places[id(value)] = place
            lines += ["", f'<a id="{place}"></a>', "", f"### `{public}`", "", *_described(module, public, place)]
        lines += ["", f"Also here: {', '.join(known)}."] if known else []
    return "\n".join(_without_repeated_blanks(lines)) + "\n"


def _described(module: ModuleType, name: str, place: str) -> Iterator[str]:
    home = _home(module, name)
    node = _definition(home, name)
    if isinstance(node, ast.ClassDef):
        yield from _code(_class_line(node))
        yield from _prose(ast.get_docstring(node) or "")
        yield ""
        yield from _members(node, place)
    elif isinstance(node, _Function):
        yield from _code(_signature(node))
        yield from _prose(ast.get_docstring(node) or "")
    elif node is not None:
        yield from _code(ast.unparse(node))
        yield from _prose(_after(home, name))


def _home(module: ModuleType, name: str) -> ModuleType:
    """The module that defines a name, which others import from there."""
    if _definition(module, name) is not None:
        return module
    for node in ast.walk(_tree(module)):
        if isinstance(node, ast.ImportFrom) and any((one.asname or one.name) == name for one in node.names):
            package = module.__name__ if hasattr(module, "__path__") else module.__name__.rpartition(".")[0]
            source = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            if source.startswith("agentfw"):
                return _home(importlib.import_module(source), name)
    # A package that imports its names when they are asked for.
    found = sys.modules.get(getattr(getattr(module, name), "__module__", ""), module)
    return found if found is module or not found.__name__.startswith("agentfw") else _home(found, name)


class _TypesAsWritten(ast.NodeTransformer):
    """`Annotated[str, ...]` is for checks, and `str` what a user writes."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if ast.unparse(node.value) == "Annotated" and isinstance(node.slice, ast.Tuple):
            return node.slice.elts[0]
        return self.generic_visit(node)


@cache
def _tree(module: ModuleType) -> ast.Module:
    tree = ast.parse(inspect.getsource(module))
    _TypesAsWritten().visit(tree)
    return tree


def _definition(module: ModuleType, name: str) -> ast.stmt | None:
    """The last statement at the top of a module that gives a name its value."""
    found = [node for node in _at_top(_tree(module).body) if _named(node) == name]
    return found[-1] if found else None


def _at_top(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, also those under a condition."""
    for node in body:
        yield node
        if isinstance(node, ast.If | ast.Try):
            yield from _at_top([*node.body, *node.orelse])


def _named(node: ast.stmt) -> str:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return ""


def _after(module: ModuleType, name: str) -> str:
    """The string below an assignment."""
    body = _tree(module).body
    return next((_text(below) for above, below in pairwise(body) if _named(above) == name), "")


def _text(node: ast.stmt) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return inspect.cleandoc(node.value.value)
    return ""


def _class_line(node: ast.ClassDef) -> str:
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    begin = next((one for one in node.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"), None)
    taken = f"\n{_signature(begin)}" if begin is not None else ""
    kind = "@dataclass\n" if any(ast.unparse(one).startswith("dataclass") for one in node.decorator_list) else ""
    return f"{kind}class {node.name}{f'({bases})' if bases else ''}{taken}"


def _signature(node: _Function) -> str:
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returned = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    line = f"{word} {node.name}({_arguments(node)}){returned}"
    if len(line) <= _WIDEST:
        return line
    arguments = "".join(f"    {one},\n" for one in _each_argument(node))
    return f"{word} {node.name}(\n{arguments}){returned}"


def _arguments(node: _Function) -> str:
    return ", ".join(_each_argument(node))


def _each_argument(node: _Function) -> list[str]:
    """The arguments but self, as they are written."""
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(given.defaults)) + list(given.defaults)
    words = [_argument(one, default) for one, default in zip(positional, defaults, strict=True)]
    if given.posonlyargs:
        words.insert(len(given.posonlyargs), "/")
    if positional and positional[0].arg in ("self", "cls"):
        words = words[1:]
    if given.vararg:
        words.append(f"*{_argument(given.vararg, None)}")
    elif given.kwonlyargs:
        words.append("*")
    words += [_argument(one, default) for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    return [*words, f"**{_argument(given.kwarg, None)}"] if given.kwarg else words


def _argument(one: ast.arg, default: ast.expr | None) -> str:
    typed = f"{one.arg}: {ast.unparse(one.annotation)}" if one.annotation else one.arg
    if default is None:
        return typed
    return f"{typed} = {ast.unparse(default)}" if one.annotation else f"{typed}={ast.unparse(default)}"


def _members(node: ast.ClassDef, place: str) -> Iterator[str]:
    """Public attributes, properties and methods, each in a line."""
    below = [*node.body[1:], ast.Pass()]
    for member, after in zip(node.body, below, strict=True):
        name = _named(member)
        anchor = f"{place}.{name}"
        if not name or name.startswith("_"):
            continue
        if isinstance(member, _Function):
            kinds = {ast.unparse(one) for one in member.decorator_list}
            if any(kind.endswith((".setter", "overload")) for kind in kinds):
                continue
            first = (ast.get_docstring(member) or "").partition("\n\n")[0]
            if kinds & {"property", "cached_property"}:
                returned = f": {ast.unparse(member.returns)}" if member.returns else ""
                yield _member(anchor, f"{name}{returned}", first)
            else:
                word = next((f"{kind} " for kind in ("classmethod", "staticmethod") if kind in kinds), "")
                word += "async " if isinstance(member, ast.AsyncFunctionDef) else ""
                returned = f" -> {ast.unparse(member.returns)}" if member.returns else ""
                yield _member(anchor, f"{word}{name}({_arguments(member)}){returned}", first)
        elif not isinstance(member, ast.ClassDef):
            yield _member(anchor, _FACTORY.sub(_made, ast.unparse(member)), _text(after).partition("\n\n")[0])


def _made(found: re.Match[str]) -> str:
    """What a dataclass makes for a field, as one would write it."""
    return {"dict": "{}", "list": "[]"}.get(found[1], f"{found[1]}()")


def _member(anchor: str, code: str, said: str) -> str:
    return f'- <a id="{anchor}"></a>`{" ".join(code.split())}`{": " + " ".join(said.split()) if said else ""}'


def _prose(docstring: str) -> Iterator[str]:
    """A docstring as Markdown. Examples are indented, which makes them code."""
    for paragraph in inspect.cleandoc(docstring).split("\n\n"):
        example = paragraph.lstrip().startswith(">>>")
        yield from textwrap.indent(textwrap.dedent(paragraph), "    ").split("\n") if example else paragraph.split("\n")
        yield ""


def _code(text: str) -> list[str]:
    return [*textwrap.indent(text, "    ").split("\n"), ""]


def _without_repeated_blanks(lines: list[str]) -> Iterator[str]:
    before = ""
    for line in lines:
        if line or before:
            yield line
        before = line
