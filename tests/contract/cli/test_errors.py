"""Every mistake is told with what to do about it, and with its exit code."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Agentfw

Install = Callable[..., None]


@pytest.mark.slow
def test_a_broken_plugin_ends_with_3_once_it_is_selected(
    agentfw: Agentfw, quick: tuple[str, ...], install: Install
) -> None:
    install("agentfw-broken", "[agentfw]\nbroken = agentfw_broken\n", "raise SystemExit(0)")

    unselected = agentfw(*quick)
    selected = agentfw(*quick, "--plugin", "agentfw-broken")
    as_component = agentfw(*quick, "--memory", "broken")

    assert unselected.code == 0
    assert "plugin: plugin broken of agentfw-broken 1.0.0" in unselected.err
    assert selected.code == as_component.code == 3
    assert "error: plugin broken of agentfw-broken 1.0.0" in selected.err
    assert "agentfw-broken 1.0.0 tried to end Python" in as_component.err
    assert agentfw(*quick, "--strict-plugins").code == 3
    assert agentfw(*quick, "--strict-plugins", "--no-plugin", "broken").code == 0
    assert agentfw("doctor").code == 3
    listed = agentfw("plugins", "list")
    assert listed.code == 0
    assert "failed" in listed.out
    assert "broken" not in listed.err, "the table says it already"


def test_a_plugin_that_fails_in_a_run_ends_with_3_says_how_to_go_on_and_is_traced_with_debug(
    agentfw: Agentfw, quick: tuple[str, ...]
) -> None:
    fails = (*quick, "--set", "environment.outcome=raise")

    answer = agentfw(*fails)
    with pytest.raises(Exception, match="out of joint") as caught:
        agentfw(*fails, "--runs", "others", "--debug")

    run = next(Path("runs").iterdir()).name
    assert (answer.code, answer.out) == (3, "")
    assert "ValueError: the world is out of joint" in answer.err
    assert f"then resume: agentfw runs resume {run}" in answer.err
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_bare_command_helps(agentfw: Agentfw) -> None:
    for words in ([], ["runs"], ["plugins"]):
        answer = agentfw(*words)

        assert answer.code == 0
        assert answer.out.startswith(" ".join(["Usage: agentfw", *words]))
        assert answer.err == ""


def test_what_a_plugin_brings_beside_components_is_listed_and_the_doctor_knows_what_it_needs(
    agentfw: Agentfw, install: Install
) -> None:
    needs = "Pour\nProvides-Extra: cups\nRequires-Dist: no-such-cups; extra == 'cups'"
    install("agentfw-pour", "[agentfw.commands]\npour = agentfw_pour:pour [cups]\n", "", summary=needs)
    watcher = "from agentfw import hookimpl\n@hookimpl\ndef agentfw_run_started(run): ...\n"
    install("agentfw-watch", "[agentfw]\nwatch = agentfw_watch\n", watcher)

    listed, rows = agentfw("plugins", "list").out, agentfw("plugins", "list", "--json").json
    missing = agentfw("doctor", "--json").json["missing"]

    for words in ("agentfw-pour 1.0.0 the package index agentfw pour", "the hook agentfw_run_started"):
        assert words in " ".join(listed.split())
    assert {"agentfw-pour", "agentfw-watch"} <= {row["distribution"] for row in rows}
    assert {"kind": "command", "name": "pour", "extra": "cups", "distribution": "agentfw-pour"} in missing
