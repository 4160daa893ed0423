"""Every mistake is told with what to do about it, and with its exit code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Agentfw = Callable[..., Any]


@pytest.mark.slow
def test_a_figure_that_is_not_there_is_told(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    for _ in range(2):
        assert agentfw(*quick).code == 0
    first, second = sorted(path.name for path in Path("runs").iterdir())

    answer = agentfw("compare", first, second, "--figure", "eror")

    assert (answer.code, answer.out) == (2, "")
    assert 'no figure is called "eror"; did you mean "error"?' in answer.err


def test_a_run_is_not_compared_with_itself(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    agentfw(*quick)

    answer = agentfw("compare", "last", "last")

    assert answer.code == 2
    assert "two different runs" in answer.err


@pytest.mark.slow
def test_a_broken_plugin_ends_with_3_once_it_is_selected(
    agentfw: Agentfw, quick: tuple[str, ...], install: Callable[..., None]
) -> None:
    install("agentfw-broken", "[agentfw]\nbroken = agentfw_broken\n", "raise SystemExit(0)")

    unselected = agentfw(*quick)
    selected = agentfw(*quick, "--plugin", "agentfw-broken")

    assert unselected.code == 0
    assert "plugin: plugin broken of agentfw-broken 1.0.0" in unselected.err
    assert selected.code == 3
    assert "error: plugin broken of agentfw-broken 1.0.0" in selected.err
    assert agentfw(*quick, "--strict-plugins").code == 3
    assert agentfw(*quick, "--strict-plugins", "--no-plugin", "broken").code == 0
    assert agentfw("doctor").code == 3
    listed = agentfw("plugins", "list")
    assert listed.code == 0
    assert "failed" in listed.out
    assert "broken" not in listed.err, "the table says it already"


def test_a_plugin_that_fails_in_a_run_ends_with_3_and_says_how_to_go_on(
    agentfw: Agentfw, quick: tuple[str, ...]
) -> None:
    answer = agentfw(*quick, "--set", "environment.outcome=raise")

    run = next(Path("runs").iterdir()).name
    assert (answer.code, answer.out) == (3, "")
    assert "ValueError: the world is out of joint" in answer.err
    assert f"then resume: agentfw runs resume {run}" in answer.err


def test_debug_shows_where_it_came_from(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    with pytest.raises(Exception, match="out of joint") as caught:
        agentfw(*quick, "--set", "environment.outcome=raise", "--debug")

    assert isinstance(caught.value.__cause__, ValueError)


def test_a_bare_command_helps(agentfw: Agentfw) -> None:
    for words in ([], ["runs"], ["plugins"]):
        answer = agentfw(*words)

        assert answer.code == 0
        assert answer.out.startswith(" ".join(["Usage: agentfw", *words]))
        assert answer.err == ""


def test_a_number_of_zero_is_a_number(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    agentfw(*quick, "--seed", "0")

    assert agentfw("runs", "show", "last", "--json").json["about"]["spec"]["seed"] == 0


def test_an_error_in_python_carries_its_fix() -> None:
    import traceback

    import agentfw
    from agentfw.errors import UnknownNameError

    with pytest.raises(UnknownNameError) as caught:
        agentfw.run("inbocks")

    assert "fix: similar: inbox" in "".join(traceback.format_exception(caught.value))


def test_a_plugin_with_a_command_or_a_hook_only_is_listed(agentfw: Agentfw, install: Callable[..., None]) -> None:
    install("agentfw-pour", "[agentfw.commands]\npour = agentfw_pour:pour\n", "")
    watcher = "from agentfw import hookimpl\n@hookimpl\ndef agentfw_run_started(run): ...\n"
    install("agentfw-watch", "[agentfw]\nwatch = agentfw_watch\n", watcher)

    listed, rows = agentfw("plugins", "list").out, agentfw("plugins", "list", "--json").json

    for words in ("agentfw-pour 1.0.0 the package index agentfw pour", "the hook agentfw_run_started"):
        assert words in " ".join(listed.split())
    assert {"agentfw-pour", "agentfw-watch"} <= {row["distribution"] for row in rows}


def test_the_doctor_knows_what_a_command_needs(agentfw: Agentfw, install: Callable[..., None]) -> None:
    needs = "Pour\nProvides-Extra: cups\nRequires-Dist: no-such-cups; extra == 'cups'"
    install("agentfw-pour", "[agentfw.commands]\npour = agentfw_pour:pour [cups]\n", "", summary=needs)

    missing = agentfw("doctor", "--json").json["missing"]

    assert {"kind": "command", "name": "pour", "extra": "cups", "distribution": "agentfw-pour"} in missing
