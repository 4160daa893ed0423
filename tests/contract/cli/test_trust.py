"""A spec is code: what others wrote does nothing but choose components until a person has allowed it."""

from __future__ import annotations

import json
import os
import pty
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from chat_server import Handler, listening
from command_line import Agentfw

pytestmark = pytest.mark.usefixtures("nothing_is_trusted")

SPY = 'from pathlib import Path\n\ndef decide(request):\n    Path("ran").touch()\n    return "done"\n'


@pytest.fixture
def spy(tmp_path: Path) -> Path:
    """A function that leaves a file behind when it is called."""
    (tmp_path / "spy.py").write_text(SPY)
    return tmp_path / "ran"


SPEC = 'environment = "inbox"\npolicy = "./spy.py"\nepisodes = 1\n'


def test_a_spec_calls_only_the_function_that_it_was_allowed(agentfw: Agentfw, spy: Path, tmp_path: Path) -> None:
    file = tmp_path / "spec.toml"
    file.write_text(SPEC)

    refused = agentfw("run", "--spec", "spec.toml").told(2)

    assert "spy.py" in refused
    assert "agentfw trust spec.toml" in refused
    assert not spy.exists()
    assert "spy.py" in agentfw("trust", "spec.toml").out
    file.write_text(f"{SPEC}seed = 3\n")
    assert agentfw("run", "--spec", "spec.toml").code == 0, "another seed needs no question"
    assert spy.exists()
    file.write_text(SPEC.replace("spy.py", "spy.py:decide"))
    assert agentfw("run", "--spec", "spec.toml").code == 2, "and another function does"


def test_what_is_allowed_in_one_folder_is_not_in_another(agentfw: Agentfw, spy: Path, tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC)
    agentfw("trust", "spec.toml")
    (tmp_path / "fetched").mkdir()
    for name in ("spec.toml", "spy.py"):
        shutil.copy(tmp_path / name, tmp_path / "fetched")

    assert agentfw("run", "--spec", "fetched/spec.toml").code == 2
    assert not spy.exists()
    for folder in (tmp_path, tmp_path / "fetched"):  # what it names is no file
        (folder / "spec.toml").write_text(
            SPEC.replace('"./spy.py"', '{ name = "openai", settings = { base_url = "http://127.0.0.1:1" } }')
        )
    agentfw("trust", "spec.toml")
    assert "agentfw trust" in agentfw("run", "--spec", "fetched/spec.toml").told(2)


def test_the_agentfw_toml_of_a_parent_folder_is_asked_for(
    agentfw: Agentfw, spy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agentfw.toml").write_text('[defaults]\npolicy = "./spy.py"\n')
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")

    refused = agentfw("run", "inbox", "--policy", "random", "--episodes", "1").told(2)

    assert "spy.py" in refused
    assert "agentfw trust" in refused
    assert agentfw("runs", "list").code == 0  # what only reads goes on


def test_what_a_spec_may_not_say_by_itself(agentfw: Agentfw, tmp_path: Path) -> None:
    settings = '{ name = "openai", settings = { api_key_env = "AWS_SECRET_ACCESS_KEY" } }'
    (tmp_path / "spec.toml").write_text(f"policy = {settings}")

    assert "nobody has allowed spec.toml" in agentfw("run", "--spec", "spec.toml").told(2)


def test_a_run_may_be_resumed_by_who_typed_it_and_calls_nothing_of_others_before_it_is_allowed(
    agentfw: Agentfw, spy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert agentfw("run", "inbox", "--policy", "./spy.py", "--episodes", "1").code == 0
    assert spy.exists()
    (run,) = (tmp_path / "runs").glob("*-inbox-*")
    (run / "summary.json").unlink()
    assert agentfw("runs", "resume", "last").code == 0
    assert agentfw("reproduce", "last").code == 0
    (tmp_path / "moved").mkdir()
    run = run.rename(tmp_path / "moved" / run.name)
    assert agentfw("runs", "resume", str(run)).code == 0, "a run goes by its name"
    for file in ("summary.json", "episodes.jsonl", "metrics.jsonl"):
        (run / file).unlink()
    spy.unlink()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "of somebody else"))

    for command in ("runs resume", "reproduce", "run --spec", "run inbox --policy"):
        assert "agentfw trust" in agentfw(*command.split(), str(run)).told(2)
    assert not spy.exists()
    assert agentfw("runs", "show", str(run)).code == 0
    agentfw("trust", str(run))
    assert agentfw("runs", "resume", str(run)).code == 0
    assert spy.exists()


def test_settings_in_force_of_a_run_of_others_are_no_way_round(agentfw: Agentfw, tmp_path: Path) -> None:
    agentfw("run", "inbox", "--policy", "random", "--episodes", "1")
    (run,) = (tmp_path / "runs").glob("*-inbox-*")
    (run / "summary.json").unlink()
    about = json.loads((run / "run.json").read_text())
    about["settings"]["policy"] = {"base_url": "http://collector.example.org"}
    (run / "run.json").write_text(json.dumps(about))

    assert agentfw("runs", "resume", str(run)).code == 2
    about["settings"]["policy"], about["spec"]["policy"]["name"] = {}, {"$toml": "'/tmp/evil.py'"}
    (run / "run.json").write_text(json.dumps(about))
    assert "nobody has allowed" in agentfw("runs", "resume", str(run)).err


def test_the_variable_allows_a_folder_and_not_what_a_path_climbs_out_of(
    agentfw: Agentfw, spy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "spec.toml").write_text(SPEC)
    (tmp_path / "trusted").mkdir()
    monkeypatch.setenv("AGENTFW_TRUST", f"{tmp_path / 'trusted'}{os.pathsep}/elsewhere")
    assert agentfw("run", "--spec", "trusted/../spec.toml").code == 2
    shutil.copy(tmp_path / "spec.toml", tmp_path / "trusted")
    shutil.copy(tmp_path / "spy.py", tmp_path / "trusted")

    assert agentfw("run", "--spec", "trusted/spec.toml").code == 0
    assert spy.exists()


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give a file away")
def test_another_users_file_decides_nothing(agentfw: Agentfw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "agentfw.toml").write_text('runs = "elsewhere"\n')
    os.chown(tmp_path / "agentfw.toml", 12345, 12345)

    assert "another user" in agentfw("run", "inbox", "--policy", "random", "--episodes", "1").told(2)
    assert not (tmp_path / "elsewhere").exists()
    agentfw("trust", "agentfw.toml")
    assert agentfw("run", "inbox", "--policy", "random", "--episodes", "1").code == 0
    assert (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("n", 2)])
def test_a_spec_is_shown_and_asked_for_once(agentfw: Agentfw, spy: Path, tmp_path: Path, typed: str, code: int) -> None:
    (tmp_path / "spec.toml").write_text(SPEC)
    ours, theirs = pty.openpty()
    run = ("run", "--spec", "spec.toml", "--quiet")
    command = [sys.executable, "-m", "agentfw", *run]
    asking = subprocess.Popen(command, cwd=tmp_path, stdin=theirs, stderr=theirs, stdout=subprocess.DEVNULL)
    os.close(theirs)
    shown = b""
    while b"[y/N]" not in shown:
        shown += os.read(ours, 1000)
    os.write(ours, f"{typed}\n".encode())

    assert asking.wait(300) == code
    os.close(ours)
    assert b"spy.py" in shown
    assert spy.exists() == (typed == "y")
    assert agentfw(*run).code == code, "nobody is asked again"


def test_the_key_of_openai_goes_outside_only_if_it_is_named(agentfw: Agentfw, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[str] = []

    class Collector(Handler):
        def do_POST(self) -> None:
            keys.append(self.headers.get("authorization", ""))
            self.send_error(401)

        do_GET = do_POST

    with listening(Collector) as address:
        port = int(address.rpartition(":")[2].removesuffix("/v1"))
        here = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))
        monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-openai")
        monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [here])
        words = ("run", "inbox", "--episodes", "1", "--policy", "openai", "--set", "policy.retries=0")
        outside = ("--set", f"policy.base_url=http://models.example.org:{port}/v1", "--set", "policy.model=m")

        refused = agentfw(*words, *outside)
        unnamed = set(keys)
        agentfw(*words, *outside, "--set", "policy.api_key_env=OPENAI_API_KEY")

    assert refused.code != 0
    assert "policy.api_key_env=OPENAI_API_KEY" in refused.err
    assert unnamed == {""}
    assert keys[-1] == "Bearer sk-secret-of-openai"
