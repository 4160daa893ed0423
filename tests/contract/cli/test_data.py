"""Data commands of worlds come by entry points, and each is loaded when it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Agentfw = Callable[..., Any]
Install = Callable[..., None]

TEA = """
import click
@click.command()
@click.option("--out", required=True)
def tea(out):
    print("leaves in", out)
"""


def test_a_data_command_of_a_plugin_is_listed_and_called(agentfw: Agentfw, install: Install) -> None:
    install("agentfw-tea", "[agentfw.data]\nmake.tea = agentfw_tea:tea\n", TEA)

    assert "tea from agentfw-tea" in " ".join(agentfw("data", "make", "--help").out.split())
    assert "tea" not in agentfw("data", "check", "--help").out
    assert agentfw("data", "make", "tea", "--out", "here").out == "leaves in here\n"


def test_a_broken_one_breaks_no_other(agentfw: Agentfw, install: Install) -> None:
    install("agentfw-bomb", "[agentfw.data]\nmake.bomb = agentfw_bomb:bomb\n", "raise RuntimeError('boom')")

    assert agentfw("data", "make", "--help").code == 0
    broken = agentfw("data", "make", "bomb")

    assert broken.code == 3
    assert "agentfw-bomb 1.0.0 can't be imported: RuntimeError: boom" in broken.err


def test_an_unknown_data_set_is_told_with_the_nearest(agentfw: Agentfw, install: Install) -> None:
    install("agentfw-tea", "[agentfw.data]\nmake.tea = agentfw_tea:tea\n", TEA)

    answer = agentfw("data", "make", "tee")

    assert answer.code == 2
    assert 'no data set to make is called "tee"; did you mean "tea"?' in answer.err
