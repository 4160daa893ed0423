"""`agentfw --help` fits one screen: what a newcomer needs first, a line on each command. It costs next to nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import click
import pytest
from command_line import SITE, Agentfw

from agentfw_cli.main import _PLACES, cli

Install = Callable[..., None]


def contexts(command: click.Command = cli, above: click.Context | None = None, name: str = "agentfw") -> Iterator[Any]:
    context = click.Context(command, info_name=name, parent=above)
    yield context
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            yield from contexts(found, context, each)


CONTEXTS = {context.command_path: context for context in contexts()}


def section(text: str, title: str) -> dict[str, str]:
    part = text.partition(f"{title}:\n")[2].partition("\n\n")[0]
    rows = (line.split(maxsplit=1) for line in part.splitlines() if line[:3].strip())
    return {row[0]: row[1] for row in rows}


def test_eight_commands_come_first_each_with_its_own_line(agentfw: Agentfw) -> None:
    text = agentfw("--help").out

    first, more = section(text, "Commands"), section(text, "More commands")

    order = ["run", "serve", "view", "train", "compare", "plugins", "doctor", "reproduce"]
    assert list(first) == [name for name in order if name in first]
    assert first.keys() >= set(order) - {"reproduce"}
    assert more.keys() >= {"chat", "runs", "report", "export", "memory", "reward", "feedback", "data"}
    assert "from agentfw" not in text


def test_the_command_of_a_plugin_has_the_line_of_its_distribution(agentfw: Agentfw, install: Install) -> None:
    entries = "[agentfw.commands]\npour = agentfw_pour:pour\n"
    install("agentfw-pour", entries, "raise RuntimeError('imported')", summary="Tea for \x1b[31mguests.")

    assert "pour       Tea for [31mguests (agentfw-pour)" in agentfw("--help").out


@pytest.mark.parametrize("path", CONTEXTS)
def test_no_line_of_a_help_text_is_too_long_and_no_word_is_broken(path: str) -> None:
    context = CONTEXTS[path]

    context.terminal_width = 80
    narrow = context.command.get_help(context)
    context.terminal_width = 1000
    wide = context.command.get_help(context)

    assert {word.removesuffix("...") for word in narrow.split()} <= {word.removesuffix("...") for word in wide.split()}
    assert max(map(len, narrow.splitlines())) <= 80


def test_help_is_a_word_that_is_understood(agentfw: Agentfw) -> None:
    assert agentfw("help", "train").out == agentfw("train", "--help").out
    assert agentfw("help").out == agentfw("--help").out


HEAVY = {"torch", "numpy", "pydantic", "rich", "httpx", "aiohttp", "pluggy", "PIL"}
CODE = """
import sys
from agentfw_cli.main import main
for command in {commands!r}:
    try:
        main([*command, "--help"])
    except SystemExit:
        pass
    print(" ".join(["agentfw", *command]), "|", *sorted(sys.modules), file=sys.stderr)
"""


def test_help_imports_nothing_heavy_and_no_plugin() -> None:
    commands = [[], *([command] for command in _PLACES)]
    environment = {**os.environ, "PYTHONPATH": str(SITE), "PYTHONDONTWRITEBYTECODE": ""}
    code = [sys.executable, "-c", CODE.format(commands=commands)]
    done = subprocess.run(code, capture_output=True, text=True, env=environment, check=True, timeout=60)

    found = [line.partition(" | ") for line in done.stderr.splitlines()]

    assert len(found) > 7
    assert all(f"Usage: {command}" in done.stdout for command, _, _ in found)
    imported = {command: set(modules.split()) for command, _, modules in found}
    assert {command: modules & HEAVY for command, modules in imported.items() if modules & HEAVY} == {}
    first = imported["agentfw"]
    assert "asyncio" not in first, "it is Python's own, and `run` is nothing without it"
    assert not [name for name in first if name.startswith(("agentfw_plugins", "agentfw_laboratory"))]
