"""The hook reference, made from the docstrings of the hookspecs.

Docs/hooks.md is never written by hand; a test compares it with `render()`.

    python -m agentfw.host.hookdocs > docs/hooks.md
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import NamedTuple

from .. import hookspecs

__all__ = ["HookDoc", "hook_docs", "render"]

LABELS = ("Called", "With", "Returns", "Combined", "Since")

HEAD = """\
# Hooks

Made from `framework/agentfw/hookspecs.py` by `python -m agentfw.host.hookdocs > docs/hooks.md`; don't edit it by hand.

A plugin implements a hook by a function of the same name, marked with `@hookimpl` (`from agentfw import hookimpl`).
It takes as many of the arguments as it wants, by the names given here. An unknown hook name, an unknown argument, a
wrapper or a coroutine is reported together with the plugin's distribution.
"""


class HookDoc(NamedTuple):
    """One hook, as its docstring describes it."""

    name: str
    signature: str
    summary: str
    facts: dict[str, str]
    """The labelled lines, in the order of LABELS."""


def hook_docs() -> list[HookDoc]:
    """All hooks, in the order in which hookspecs.py has them."""
    names = (*hookspecs.REGISTRATION_HOOKS, hookspecs.SPECS_HOOK, *hookspecs.LIFECYCLE_HOOKS)
    return [_read(getattr(hookspecs, name)) for name in names]


def render() -> str:
    """The whole page as markdown."""
    hooks = hook_docs()
    lines = [HEAD, "| hook | what for | since |", "| --- | --- | --- |"]
    lines += [f"| [`{hook.name}`](#{hook.name}) | {hook.summary} | {hook.facts['Since']} |" for hook in hooks]
    for hook in hooks:
        lines += ["", f"## {hook.name}", "", hook.summary, "", "```python", hook.signature, "```", ""]
        lines += [f"- **{label}:** {text}" for label, text in hook.facts.items()]
    return "\n".join(lines) + "\n"


def _read(function: Callable[..., object]) -> HookDoc:
    summary, _, rest = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
    facts = {label: text for label, _, text in (line.partition(": ") for line in rest.splitlines())}
    if tuple(facts) != LABELS or not all(facts.values()):
        raise ValueError(f"the docstring of {function.__name__} needs the lines {', '.join(LABELS)}, in this order")
    signature = inspect.signature(function)
    # The annotations are strings (they are never evaluated): str(signature) would put each one in quotes.
    arguments = ", ".join(f"{name}: {parameter.annotation}" for name, parameter in signature.parameters.items())
    text = f"def {function.__name__}({arguments}) -> {signature.return_annotation}"
    return HookDoc(function.__name__, text, summary.replace("\n", " "), facts)


if __name__ == "__main__":
    sys.stdout.write(render())
