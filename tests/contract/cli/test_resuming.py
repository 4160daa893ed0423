"""A run whose files were cut, changed or removed is never done, can always be looked at, and says how to go on.

A secret is on no disk, so resuming a run needs it again. What else a resumed run may change changes no result.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import click.termui
import pytest
from command_line import Agentfw, Install

TRAINING = (
    *("train", "bandit", "--policy", "biased", "--optimizer", "centred", "--learner", "bias", "--updates", "3"),
    *("--set", "tasks=2", "--set", "evaluation.tasks=3"),
)


FIXED = ("seed", "horizon", "max_turns", "window", "recall", "sampling.temperature", "samples", "max_answer")


def run_of(agentfw: Agentfw, *words: str) -> Path:
    return Path(agentfw(*words, "--json").ok.json["folder"])


@pytest.mark.parametrize(("file", "how"), [("episodes.jsonl", "cut"), ("metrics.jsonl", "gone")])
def test_a_run_that_lost_records_is_not_done(agentfw: Agentfw, quick: tuple[str, ...], file: str, how: str) -> None:
    run = run_of(agentfw, *quick)
    content = (run / file).read_bytes()
    (run / file).unlink()
    if how == "cut":
        (run / file).write_bytes(content[: len(content) // 2])

    (row,) = agentfw("runs", "list", "--json").json
    shown = agentfw("runs", "show", str(run))

    assert row["state"] == "damaged"
    assert "done" not in shown.out.splitlines()[0]
    assert f"damaged: {file}" in shown.told(0)


def test_a_changed_byte_is_noticed_and_a_file_that_grew_is_no_damage(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    run = run_of(agentfw, *quick)
    metrics = (run / "metrics.jsonl").read_text()
    with (run / "failed.jsonl").open("a") as failed:
        failed.write("{}\n")
    (run / "metrics.jsonl").write_text(metrics)
    grown = agentfw("runs", "show", str(run), "--json").json
    (run / "metrics.jsonl").write_text(re.sub(r'"turns":\d', '"turns":9', metrics))

    changed = agentfw("runs", "show", str(run), "--json").json

    assert (grown["state"], changed["state"]) == ("done", "damaged")
    assert changed["damage"] == ["metrics.jsonl was changed after it was written"]


@pytest.mark.parametrize("garbage", [b"\xff", b'{"title": 1}\n'])
def test_a_damaged_record_of_calls_stops_nobody(agentfw: Agentfw, quick: tuple[str, ...], garbage: bytes) -> None:
    run = run_of(agentfw, *quick)
    content = (run / "calls.jsonl").read_bytes()
    (run / "calls.jsonl").write_bytes(garbage + content[len(garbage) :])
    (run / "summary.json").unlink()

    assert agentfw("runs", "show", str(run)).code == 0
    assert agentfw("report", str(run)).code == 0
    assert agentfw("runs", "resume", str(run)).code == 0


@pytest.mark.parametrize("how", ["flipped", "gone"])
def test_a_damaged_version_is_named_and_the_training_goes_on_from_the_one_before(agentfw: Agentfw, how: str) -> None:
    run = run_of(agentfw, *TRAINING)
    expected = (run / "updates.jsonl").read_text()
    state = json.loads((run / "state.json").read_text())
    file = run / next(iter(state["files"]))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.unlink() if how == "gone" else file.write_bytes(content)

    for words in (("runs", "resume", str(run), "--set", "updates=4"), ("run", "bandit", "--policy", str(run))):
        refused = agentfw(*words).told(2)
        assert file.name in refused
        assert f"agentfw runs resume {run.name} --from-update 2" in refused
    assert json.loads((run / "run.json").read_text())["updates"] == 3, "what was refused is not planned"
    assert f"damaged: {state['adapter']}" in agentfw("runs", "show", str(run)).err
    assert agentfw("runs", "resume", str(run), "--from-update", "2").code == 0
    assert _results((run / "updates.jsonl").read_text())[:3] == _results(expected)
    assert agentfw("runs", "show", str(run), "--json").json["state"] == "done"
    aside = {path.parent.name: path.stem for path in (run / "set_aside").glob("*/*/*")}
    assert aside == dict.fromkeys(("evaluations", "learner", "states"), "00003"), "what it learns from next stays"


@pytest.mark.parametrize("content", [b'{"update": 3', None])
def test_a_damaged_state_is_named_and_can_be_gone_back_behind(agentfw: Agentfw, content: bytes | None) -> None:
    run = run_of(agentfw, *TRAINING, "--set", "keep=3")
    expected = (run / "updates.jsonl").read_text()
    (run / "state.json").unlink()
    if content is not None:
        (run / "state.json").write_bytes(content)

    refused = agentfw("runs", "resume", str(run), "--set", "updates=4")

    assert "state.json" in refused.err
    assert "--from-update 3" in refused.err
    assert agentfw("runs", "show", str(run), "--json").json["done"] == 3, "as far as it can be read"
    hindrance = run / "set_aside" / "00001" / "learner"
    hindrance.parent.mkdir(parents=True)
    hindrance.touch()
    again = ("runs", "resume", str(run), "--from-update", "1")
    assert "can't rewind" in agentfw(*again).told(1), "half of it was done"
    hindrance.unlink()
    assert agentfw(*again).code == 0
    assert _results((run / "updates.jsonl").read_text())[:3] == _results(expected)
    assert {path.name for path in run.glob("set_aside/*/rollouts/*")} == {"00003"}, "other weights played it"


def test_a_run_with_links_is_not_written_to(agentfw: Agentfw, quick: tuple[str, ...], tmp_path: Path) -> None:
    run = run_of(agentfw, *quick)
    precious = tmp_path / "precious"
    precious.write_text("half a line")
    for file in ("summary.json", "metrics.jsonl"):
        (run / file).unlink()
    (run / "metrics.jsonl").symlink_to(precious)

    assert str(precious) in agentfw("runs", "resume", str(run)).told(2)
    assert precious.read_text() == "half a line"


def _results(text: str) -> list[object]:
    lines = [json.loads(line) for line in text.splitlines()]
    return [{key: line[key] for key in ("update", "version", "rollouts", "optimizer")} for line in lines]


# -- a run that needs a secret -----------------------------------------------------------------------------------------

SECRETIVE = """
from pathlib import Path
from typing import Annotated
from pydantic import SecretStr
from agentfw import Component, Memory, Settings, hookimpl
from agentfw.settings import OPERATIONAL

class VaultSettings(Settings):
    key: SecretStr
    address: Annotated[str, OPERATIONAL] = "here"
    limit: int = 3

class Vault(Memory):
    def __init__(self, settings):
        self.key = settings.key.get_secret_value()

    async def recall(self, query):
        if not Path("open").exists():
            raise OSError("the vault is shut")
        Path("used").write_text(self.key)
        return []

@hookimpl
def agentfw_memories():
    return [Component("my.vault", f"{__name__}:Vault", "", settings=f"{__name__}:VaultSettings")]
"""


@pytest.fixture
def interrupted(agentfw: Agentfw, install: Install) -> str:
    """A run that failed on the way and can be resumed."""
    install("agentfw-vault", "[agentfw]\nvault = agentfw_vault\n", SECRETIVE)
    words = ("guessing", "--policy", "hashing", "--memory", "my.vault", "--set", "memory.my.vault.key=s3cret")

    told = agentfw("run", *words).told(3)

    assert "s3cret" not in told
    Path("open").touch()
    return told.rpartition("runs resume ")[2].split()[0]


def test_it_comes_from_a_variable(agentfw: Agentfw, interrupted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VAULT_KEY", "s3cret")

    assert "--set memory.my.vault.key=VALUE" in agentfw("runs", "resume", interrupted).told(2)
    assert agentfw("runs", "resume", interrupted, "--set", "memory.my.vault.key.env=VAULT_KEY").ok
    assert Path("used").read_text() == "s3cret"


def test_a_person_at_a_terminal_is_asked(agentfw: Agentfw, interrupted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    typed = iter(['sëcret "typed"'])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr(click.termui, "hidden_prompt_func", lambda prompt: next(typed))

    assert agentfw("runs", "resume", interrupted).ok
    assert Path("used").read_text() == 'sëcret "typed"'


def test_it_is_set_again_with_another_address_but_no_other_limit(agentfw: Agentfw, interrupted: str) -> None:
    resume = ("runs", "resume", interrupted, "--set", "memory.my.vault.key=s3cret", "--set")

    other = agentfw(*resume, "memory.my.vault.limit=5").told(2)
    assert agentfw(*resume, "memory.my.vault.address=there", "--set", "deadline=60").ok
    assert Path("used").read_text() == "s3cret"

    changeable = other.partition("what can be changed: ")[2].strip().split(", ")
    assert {"deadline", "memory.my.vault.address"} <= set(changeable)
    assert not {"memory.my.vault.limit", "keep", "concurrency", *FIXED} & set(changeable)
    settings = agentfw("runs", "show", "last", "--json").json["about"]["settings"]
    assert (settings["memory.my.vault"]["limit"], settings["memory.my.vault"]["address"]) == (3, "there")
