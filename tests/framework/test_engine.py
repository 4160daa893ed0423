"""What an object in another process does for its caller, with each engine: answers, errors, and its end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import alive, until

from agentfw.engine import EngineSettings, LocalEngine, Remote, RemoteDiedError, Resources, make_engine
from agentfw.errors import EndpointError, PluginError, SettingsError
from agentfw.runs.spec.run_spec import parse_spec

OBJECTS = Path(__file__).parent / "engine_objects"
Start = Callable[..., Remote]


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    started: list[Remote] = []
    engine = LocalEngine()

    def begin(*arguments: Any, **resources: Any) -> Remote:
        remote = engine.start("remote_counter:Counter", arguments, name="counter 0", resources=Resources(**resources))
        started.append(remote)
        return remote

    with pytest.MonkeyPatch.context() as changed:
        changed.syspath_prepend(str(OBJECTS))
        yield begin
    for remote in started:
        remote.kill()
    engine.close()


@pytest.fixture(scope="module")
def counter(start: Start) -> Remote:
    """One that many tests may call, since none of them ends it."""
    return start(10, cpus=3, environment={"COLOUR": "green"})


def wait(remote: Remote, method: str, *arguments: Any) -> Any:
    return remote.submit(method, *arguments).result(60)


def test_it_keeps_its_state_and_answers_many_calls_at_once_with_values_that_cross_unchanged(counter: Remote) -> None:
    value = {"text": "zwölf ✓ \ud800", "numbers": [0.1, -1e-300, 2**60, None, True], "weights": bytes(range(256)) * 99}

    assert [wait(counter, "add", number) for number in (1, 2, 3)] == [11, 13, 16]
    assert wait(counter, "echo", value) == value
    meeting = [counter.submit("meet", 20) for _ in range(20)]
    assert {answer.result(60) for answer in meeting} == {"met"}


def test_its_process_has_the_resources_it_was_given(counter: Remote) -> None:
    pid, threads, colour = wait(counter, "process")

    assert pid != os.getpid()
    assert (threads, colour) == ("3", "green")


def test_an_error_keeps_its_class_and_its_fix_and_an_unexpected_one_names_the_object_with_its_traceback(
    counter: Remote,
) -> None:
    with pytest.raises(SettingsError, match="limit is 0") as refused:
        wait(counter, "refuse")
    with pytest.raises(PluginError, match=r"counter 0 failed in fail: KeyError: 'no such user'") as failed:
        wait(counter, "fail")
    with pytest.raises(PluginError, match="can't be sent: object is not a plain value"):
        wait(counter, "strange")

    assert (refused.value.fix, refused.value.exit_code) == ("set limit to 1 or more", 2)
    assert any("remote_counter.py" in note for note in failed.value.__notes__)


def test_a_constructor_that_refuses_is_an_error_with_its_words(start: Start) -> None:
    counter = start(-1)

    with pytest.raises(SettingsError, match="start is -1"):
        counter.ready.result(60)


def test_a_death_fails_the_calls_in_progress_and_all_later_ones(start: Start) -> None:
    counter = start()
    sleeping, dying = counter.submit("sleep", 60), counter.submit("die")

    for answer in (sleeping, dying):
        with pytest.raises(RemoteDiedError, match="counter 0"):
            answer.result(60)
    with pytest.raises(RemoteDiedError):
        wait(counter, "add", 1)
    assert not counter.alive


def test_a_cancelled_call_is_cancelled_there_too(counter: Remote) -> None:
    sleeping = counter.submit("sleep", 60)
    counter.ready.result(60)
    wait(counter, "add", 0)

    sleeping.cancel()

    assert wait(counter, "add", 0) == -1


def test_what_it_prints_disturbs_no_answer_it_reads_no_input_and_it_is_closed_when_it_is_stopped(
    start: Start, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    counter = start(0, str(tmp_path / "notes"))

    assert wait(counter, "say", "hello") == 0
    counter.stop()
    assert capfd.readouterr() == ("", "hello\n")
    assert (tmp_path / "notes").read_text("utf-8") == "closed"
    assert not counter.alive


@pytest.mark.slow
def test_it_does_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    code = (
        "from agentfw.engine import LocalEngine\n"
        "counter = LocalEngine().start('remote_counter:Counter', name='counter')\n"
        "print(counter.submit('process').result(60)[0], flush=True)\n"
        "counter.submit('sleep', 600).result()\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(OBJECTS), *filter(None, sys.path)])}
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())

    parent.kill()
    parent.communicate()
    until(lambda: not alive(child))


def test_an_engine_is_named_in_a_spec() -> None:
    values = {"environment": "inbox", "policy": "scripted"}

    assert parse_spec(values).engine.name == "local"
    assert parse_spec({**values, "engine": "ray"}).engine.name == "ray"
    assert parse_spec({**values, "engine": {"name": "ray", "address": "auto"}}).engine.address == "auto"
    with pytest.raises(SettingsError, match="engine: must be 'local' or 'ray'"):
        parse_spec({**values, "engine": "slurm"})
    for key, value in {"address": "auto", "keys": ["A_KEY"], "wait": 9.0}.items():
        with pytest.raises(SettingsError, match=f"{key} needs name = ray"):
            parse_spec({**values, "engine": {key: value}})


@pytest.mark.nightly
def test_an_actor_does_what_a_process_does(tmp_path: Path) -> None:
    """In a process of its own: Ray leaves threads and a signal handler behind, which may end this one much later."""
    pytest.importorskip("ray")

    driver = [sys.executable, str(OBJECTS / "ray_driver.py"), str(tmp_path / "notes")]
    ended = subprocess.run(driver, capture_output=True, text=True, check=False)

    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "notes").read_text("utf-8") == "closed"


@pytest.mark.slow
def test_a_ray_cluster_that_is_not_there_is_an_error_at_once() -> None:
    pytest.importorskip("ray")

    with pytest.raises(EndpointError, match=r"the Ray cluster at 127\.0\.0\.1:9 can't be reached") as caught:
        make_engine(EngineSettings(name="ray", address="127.0.0.1:9")).start("x:Y", name="counter")

    assert "ray start --head" in caught.value.fix
