"""`agentfw train`: what a person gave last holds, what came of it is told, and a training is a run among others."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Agentfw, Install

SPEC = """
environment = { name = "bandit", settings = { rounds = 2 } }
policy = "biased"
optimizer = "centred"
learner = { name = "bias", settings = { rate = 3.0 } }
updates = 2
tasks = 2
samples = 3
evaluation = { every = 1, tasks = 3 }
"""
WORDS = ("train", "bandit", "--policy", "biased", "--optimizer", "centred", "--learner", "bias", "--updates", "2")
SMALL = (*WORDS, "--set", "tasks=2", "--set", "evaluation.tasks=3")


def test_a_shipped_training_is_the_beginning(spec_of: Callable[..., Any], install: Install, tmp_path: Path) -> None:
    (tmp_path / "shipped.toml").write_text(SPEC)
    code = f"""
from agentfw import hookimpl
from agentfw.hookspecs import NamedSpec
@hookimpl
def agentfw_specs():
    path = {str(tmp_path / "shipped.toml")!r}
    return [NamedSpec("train-bandit", path, "Learns a word"), NamedSpec("train-default", path, "The same")]
"""
    install("agentfw-shipped", "[agentfw]\nshipped = agentfw_shipped\n", code)

    assert spec_of("train")["tasks"] == 2
    spec = spec_of("train", "bandit", "--set", "learner.rate=1.5", "--set", "evaluation.samples=2")
    assert spec["learner"]["settings"]["rate"] == 1.5
    assert spec["evaluation"] == spec["evaluation"] | {"every": 1, "tasks": 3, "samples": 2}


def test_what_came_of_it_is_told(agentfw: Agentfw, tmp_path: Path) -> None:
    answer, sampled = agentfw(*SMALL, "--set", "evaluation.every=1"), agentfw(*SMALL, "--runs", "sampled", "--samples")

    (folder,) = (tmp_path / "runs").iterdir()
    assert answer.ok.out.startswith("missed after 0, 1, 2 updates   0.")
    assert "from the first to the last, task by task   " in answer.out
    assert f"{folder.relative_to(tmp_path)}/learner/00002/adapter.json   bias@2" in answer.out
    lines = [line.split()[0] for line in answer.err.splitlines()]
    assert lines == ["bandit", "0/2", "1/2", "1/2", "2/2", "2/2", "next:"], "in a pipe: lines, not a picture"
    assert (folder / "report.html").exists()
    assert (folder / "curve.svg").exists()
    assert sampled.err.count("best, reward ") == 2


def test_a_training_is_a_run_among_others_everywhere(agentfw: Agentfw, view_of: Callable[[Path, str], str]) -> None:
    answer, other = agentfw(*SMALL, "--json"), agentfw(*SMALL, "--seed", "3", "--quiet")
    first = Path(answer.json["folder"])

    listed, shown = agentfw("runs", "list"), agentfw("runs", "show", first.name)
    refused = agentfw("runs", "resume", "last", "--set", "learner.rate=0.5")
    compared = agentfw("compare", first.name, "last", "--json").json
    viewed = view_of(first.parent, "/runs")

    assert answer.err == other.err == "", "JSON is one value, and quiet is quiet"
    assert (answer.json["updates"], answer.json["version"]) == (2, "bias@2")
    assert set(answer.json["before"]) == set(answer.json["figures"]) >= {"reward", "utility", "missed"}
    assert listed.out.count("done, 2 updates") == 2
    assert "done, 2 updates" in shown.out
    assert "learner bias" in shown.out
    assert "is done already" in agentfw("runs", "resume", first.name).err
    assert "learner.rate can't be changed" in refused.told(2)
    assert [row["figure"] for row in compared][:3] == ["missed", "missed after 0", "missed after 2"]
    assert [row["better"] for row in compared][:3] == ["lower"] * 3
    sides = re.findall('<option value="([^"]+)" selected>', viewed)[:2]
    assert [side.rpartition(", ")[2] for side in sides] == ["evaluation 0", "evaluation 2"]
    (first / "report.html").unlink()
    assert agentfw("report", first.name).code == 0
    page = (first / "report.html").read_text()
    for words in ("bandit, biased by centred", "Missed by update", "Entropy by update", "bias@2"):
        assert words in page
    more = agentfw("runs", "resume", first.name, "--set", "updates=4", "--json")
    assert more.json["updates"] == 4, "more updates change no result"


def test_an_interrupted_training_says_how_to_go_on_and_does(agentfw: Agentfw) -> None:
    failed = agentfw(*SMALL, "--set", "learner.fault=memory").told(1)

    out_of_memory = 'learner "bias" of agentfw-laboratory 1.0.0 ran out of memory in update() number 1'
    assert f"{out_of_memory}: 3 GB wanted, 1 GB there" in failed
    assert "then resume: agentfw runs resume 20" in failed
    (row,) = agentfw("runs", "list", "--json").json
    assert (row["state"], row["done"], row["total"]) == ("interrupted", 0, 2)
    file = Path("runs") / row["run"] / "run.json"
    file.write_text(file.read_text().replace('"fault": "memory"', '"fault": ""'))
    assert agentfw("runs", "resume", "last", "--json").json["updates"] == 2


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("train",), 2, "a training needs an environment"),
        ((*WORDS[:4], "--no-plugin", "builtin"), 2, "a training needs an optimizer"),
        ((*WORDS, "--set", "learner.rat=2"), 2, 'did you mean "rate"?'),
        ((*WORDS, "--policy", "unpublishable"), 2, "so it can't be trained"),
        ((*WORDS, "--set", "policy.fault=tokenless"), 2, "returns no token ids"),
        ((*WORDS, "--set", "optimizer.fault=unfinite"), 3, "the advantage nan"),
        ((*WORDS, "--set", "policy.fault=stuck", "--set", "deadline=0.2"), 1, "has not answered generate() within 0.2"),
    ],
)
def test_errors_have_the_exit_code_of_their_kind(agentfw: Agentfw, words: Any, code: int, told: str) -> None:
    assert told in agentfw(*words).told(code)


def test_the_spec_of_a_training_is_no_run(agentfw: Agentfw) -> None:
    Path("my.toml").write_text(SPEC)

    for words in (("--spec", "my.toml"), ("train-any",)):
        assert "agentfw train --help" in agentfw("run", *words).told(2)
