"""The page reference/hooks.md, made from the docstrings of the hookspecs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import NamedTuple

from agentfw import hookspecs

LABELS = ("Called", "With", "Returns", "Combined", "Since")
_FEW = 2
"""A hook that differs from an earlier one in so many labels has just these."""

HEAD = """\
# Hooks

A plugin implements a hook by a function of that name, marked with `@hookimpl` (`from agentfw import hookimpl`), which
takes any of the arguments by name ([guide](../guides/plugins/hook.md)). Registration hooks return descriptions,
observers are told what happened, and the last three decide. Order is pluggy's: `tryfirst` and `trylast` hold. Only
hooks that decide may be wrappers (`wrapper=True`), and the first two of them coroutines. Whatever can't be called is
reported with the plugin's distribution. How hooks change from version to version is on the page
[Versions](versions.md).
"""


class HookDoc(NamedTuple):
    """One hook, as described by its docstring."""

    name: str
    signature: str
    summary: str
    facts: dict[str, str]
    """The labelled lines, in the order of LABELS."""


def hook_docs() -> list[HookDoc]:
    """All hooks, in the order of hookspecs.py."""
    return [_read(getattr(hookspecs, name)) for name in hookspecs.HOOKS]


def hook_page() -> str:
    """The whole page as Markdown."""
    hooks = hook_docs()
    lines = [HEAD, *(f"- [`{hook.name}`](#{hook.name}): {hook.summary}" for hook in hooks)]
    for place, hook in enumerate(hooks):
        lines += ["", f"## {hook.name}", ""]
        alike = next((one for one in hooks[:place] if len(_differences(one, hook)) <= _FEW), None)
        if not alike or alike.signature.replace(alike.name, hook.name) != hook.signature:
            lines += ["```python", hook.signature, "```", ""]
        labels = _differences(alike, hook) if alike else LABELS
        lines += [f"- **{label}:** {hook.facts[label]}" for label in labels]
        lines += [f"- Otherwise as [`{alike.name}`](#{alike.name})."] if alike else []
    return "\n".join(lines) + "\n"


def _differences(one: HookDoc, other: HookDoc) -> list[str]:
    """The labels of which the two hooks say something else."""
    return [label for label in LABELS if one.facts[label] != other.facts[label]]


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
