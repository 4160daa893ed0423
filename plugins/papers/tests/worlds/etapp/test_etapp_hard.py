"""ETAPP-Hard: the pipeline gives its numbers, and the same bytes when it was killed. A policy can write for it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentfw import Moment
from agentfw.errors import RunFolderError
from agentfw_cli.data import data
from agentfw_papers.worlds.etapp.copy_of_etapp import load_copy
from agentfw_papers.worlds.etapp.environment import Etapp
from agentfw_papers.worlds.etapp.etapp_settings import EtappSettings
from agentfw_papers.worlds.etapp.hard import PolicyWriter, brief_of, make_hard, write_by_template
from agentfw_plugins.policies.scripted import ScriptedPolicy

KILLED = """
import os, signal, sys
from click.testing import CliRunner
from agentfw_cli.data import data
from agentfw_papers.worlds.etapp import hard

def append(journal, record, appended=hard._append, count=[]):
    appended(journal, record)
    count.append(1)
    if len(count) == 30:
        with journal.open("ab") as file:
            file.write(b'{"attempt": 30, "que')
        os.kill(os.getpid(), signal.SIGKILL)

hard._append = append
CliRunner().invoke(data, ["make", "etapp-hard", sys.argv[1], "--out", sys.argv[2], "--count", "60"])
"""


def make(*arguments: object) -> dict[str, object]:
    done = CliRunner().invoke(data, ["make", "etapp-hard", *map(str, arguments), "--json"])
    assert done.exit_code == 0, done.output
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


@pytest.mark.slow
def test_instructions_become_rows_and_the_same_ones_after_a_kill(copy_folder: Path, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"

    made = make(copy_folder, "--out", whole, "--count", 60)
    stopped = subprocess.run([sys.executable, "-c", KILLED, str(copy_folder), str(killed)])
    resumed = make(copy_folder, "--out", killed, "--count", 60)

    assert made["instructions"] == 60
    assert made["rows"] == {"train": 864, "test": 96}
    assert stopped.returncode == -signal.SIGKILL
    assert resumed == made
    for name in ("instruction.json", "train.jsonl", "test.jsonl", "attempts.jsonl"):
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
    rows = [json.loads(line) for line in (whole / "train.jsonl").read_text("utf-8").splitlines()]
    assert set(rows[0]) == {"data_source", "prompt", "ability", "reward_model", "extra_info"}
    shared = {row["extra_info"]["instruction"] for row in rows} & {
        json.loads(line)["extra_info"]["instruction"] for line in (whole / "test.jsonl").read_text("utf-8").splitlines()
    }
    assert shared == set()


def test_hard_instructions_need_three_to_five_kinds_of_tools_and_can_be_played(
    copy_folder: Path, tmp_path: Path
) -> None:
    make(copy_folder, "--out", tmp_path, "--count", 20, "--part", "instance")

    env = Etapp(EtappSettings(folder=str(copy_folder), instructions=str(tmp_path / "instruction.json")))

    assert len(env.copy.instructions) == 20
    assert {len(one.sections) for one in env.copy.instructions} == {3, 4, 5}
    assert len(env.tasks(16 * 16, 7, "train")) == 256


def test_a_policy_writes_and_what_cannot_be_used_is_counted_and_drawn_anew(copy_folder: Path, tmp_path: Path) -> None:
    def rule(moment: Moment) -> list[str]:
        number = moment.observations[0].data["attempt"]
        said = {0: "No.", 1: '{"query": "short", "personal": ["a"], "proactive": ["b"]}'}
        brief = brief_of(load_copy(str(copy_folder)), number)
        query = (
            "Please arrange my evening." if number in (2, 3) else f"{brief.person}: {', '.join(brief.tools)}, at once"
        )
        return [said.get(number, json.dumps({"query": query, "personal": ["a"], "proactive": ["b"]}))]

    counts = asyncio.run(
        make_hard(load_copy(str(copy_folder)), tmp_path, PolicyWriter(ScriptedPolicy(rule=rule)), name="one", count=10)
    )

    assert counts["instructions"] == 10
    unused = counts["not_used"]
    assert unused["the answer holds no request"] == 1
    assert unused["the request has not 20 to 2000 characters"] == 1
    assert unused["nearly one that is there"] >= 1
    with pytest.raises(RunFolderError, match="was begun with another"):
        asyncio.run(make_hard(load_copy(str(copy_folder)), tmp_path, write_by_template, name="two", count=10))
