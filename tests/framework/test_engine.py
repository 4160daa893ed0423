"""What an object in another process does for its caller, with each engine: answers, errors, and its end."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import alive, until

from agentfw.engine import EngineSettings, LocalEngine, Remote, RemoteDiedError, Resources, found_cards, make_engine
from agentfw.errors import AgentfwError, EndpointError, PluginError, SettingsError, UsageError
from agentfw.runs import in_processes
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
    value: dict[str, Any] = {"text": "zwölf ✓ \ud800", "numbers": [0.1, -1e-300, 2**60, None, True]}
    value |= {"weights": bytes(range(256)) * 99, "arguments": {"$bytes": 0}}  # looks like what refers to bytes

    assert [wait(counter, "add", number) for number in (1, 2, 3)] == [11, 13, 16]
    assert wait(counter, "echo", value) == value
    meeting = [counter.submit("meet", 20) for _ in range(20)]
    assert {answer.result(60) for answer in meeting} == {"met"}


def test_its_process_has_the_resources_it_was_given(counter: Remote) -> None:
    pid, threads, colour = wait(counter, "process")

    assert pid != os.getpid()
    assert (threads, colour) == ("3", "green")


def test_an_error_keeps_its_class_and_fix_and_an_unexpected_one_names_the_object(counter: Remote) -> None:
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


def test_whoever_asks_one_that_hangs_goes_on_and_a_death_fails_the_calls_in_progress_and_all_later_ones(
    start: Start,
) -> None:
    counter = start()
    process, rescue = wait(counter, "process")[0], threading.Timer(10, counter.kill)
    rescue.start()
    os.kill(process, signal.SIGSTOP)
    hanging = counter.submit("echo", "x" * 1_000_000)  # more than fits into a pipe
    assert counter.alive, "nobody had to end it before this goes on"
    os.kill(process, signal.SIGCONT)
    rescue.cancel()
    assert len(hanging.result(60)) == 1_000_000
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


def test_a_ray_cluster_that_is_not_there_is_an_error_at_once() -> None:
    pytest.importorskip("ray")

    with pytest.raises(EndpointError, match=r"the Ray cluster at 127\.0\.0\.1:9 can't be reached") as caught:
        make_engine(EngineSettings(name="ray", address="127.0.0.1:9")).start("x:Y", name="counter")

    assert "ray start --head" in caught.value.fix


# -- worker processes --------------------------------------------------------------------------------------------------


SITE = Path(__file__).parents[1] / "site"

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")


@pytest.fixture(autouse=True)
def working(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Work that worker processes can import."""
    monkeypatch.syspath_prepend(str(SITE))
    return importlib.import_module("agentfw_laboratory.working")


def test_answers_come_in_the_order_of_the_jobs(working: Any) -> None:
    heard: list[int] = []
    assert in_processes(working.squared, [3, 1, 2, 0], 2, done=heard.append) == [9, 1, 4, 0]
    assert heard == [1, 2, 3, 4]


@posix
def test_a_worker_that_dies_is_told(working: Any) -> None:
    with pytest.raises(AgentfwError, match=r"a worker process died, with [12] of 2 jobs to do"):
        in_processes(working.always_die, [1, 2], 2)


def test_an_error_of_a_job_keeps_its_words_and_its_exit_code(working: Any) -> None:
    with pytest.raises(AgentfwError, match='no cup is called "glas"') as caught:
        in_processes(working.refuse, [1, 2], 2)
    assert caught.value.exit_code == 2
    assert caught.value.fix == "known: glass"


@posix
def test_workers_are_gone_when_whoever_started_them_is_killed(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-m", "agentfw_laboratory.working", str(tmp_path)], env={**os.environ, "PYTHONPATH": str(SITE)}
    )
    workers = until(lambda: len(found := [*tmp_path.glob("worker-*")]) == 2 and found)
    parent.kill()
    parent.wait()
    until(lambda: not any(alive(int(path.name.partition("-")[2])) for path in workers))


# -- which GPUs learn and which play, on machines that a stand-in for nvidia-smi describes -----------------------------


Machine = Callable[..., None]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Let this machine have cards, each of so many GB in all and free."""

    def make(*cards: tuple[int, int], visible: str | None = None) -> None:
        lines = [
            f"{number}, GPU-{number}{number}, NVIDIA H100 80GB HBM3, {total * 1024}, {free * 1024}, 575.57.08"
            for number, (total, free) in enumerate(cards)
        ]
        asked = tmp_path / "nvidia-smi"
        asked.write_text("#!/bin/sh\n" + "".join(f"echo '{line}'\n" for line in lines))
        asked.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        if visible is None:
            monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        else:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)

    return make


@pytest.mark.parametrize(
    ("count", "wish", "learning", "playing"),
    [
        (1, "auto", "0", "0"),
        (8, "auto", "01", "234567"),
        (8, "2+2", "01", "23"),
        (4, "0+4", "0123", "0123"),
        (8, "4", "0", "123"),
    ],
)
def test_a_quarter_of_the_cards_learns_unless_a_wish_says_otherwise(
    machine: Machine, count: int, wish: str, learning: str, playing: str
) -> None:
    machine(*[(80, 79)] * count)

    plan = make_engine(EngineSettings(gpus=wish), learns=True).plan

    assert "".join(card.name for card in plan.learning) == learning
    assert "".join(card.name for card in plan.playing) == playing


def test_the_largest_cards_learn_and_one_that_another_program_fills_is_left_to_it(
    machine: Machine, tmp_path: Path
) -> None:
    machine((24, 23), (80, 10), (80, 79), (24, 23))

    plan = LocalEngine(learns=True).plan

    assert [card.name for card in plan.learning] == ["2"]
    assert [card.name for card in plan.playing] == ["0", "3"]
    assert plan.words() == "the learner on GPU 2 (H100 80GB HBM3, 80 GB); playing on GPUs 0 and 3"
    assert (plan.own, plan.plays) == ("cuda:2", "cuda:0"), "as they are named among those that this process sees"
    assert LocalEngine("2").plan.plays == "cuda:0"
    machine((80, 10), (80, 79))
    assert LocalEngine().plan.plays == "cuda:1"
    machine((24, 23), (80, 10), (80, 79), (24, 23))
    asked = tmp_path / "nvidia-smi"  # of cards that share the machine's memory
    asked.write_text(asked.read_text().replace(str(24 * 1024), "[N/A]").replace(str(23 * 1024), "[N/A]"))
    assert [(card.memory, card.free) for card in found_cards()] == [(0, 0), (80, 10), (80, 79), (0, 0)]


def test_a_wish_that_cant_be_met_is_refused_with_what_would_fit(machine: Machine) -> None:
    machine((80, 79), (80, 1))

    with pytest.raises(SettingsError, match=r"needs 4 GPUs, and 1 of this machine are free.*filled by another") as told:
        _ = LocalEngine("2+2", learns=True).plan

    assert told.value.fix == "set engine.gpus=1"


def test_processes_that_play_never_get_the_learner_s_card(machine: Machine) -> None:
    machine(*[(80, 79)] * 4, visible="4,5,6,7")
    engine = LocalEngine("2+2", learns=True)

    played = [
        engine.start("builtins:dict", name=f"replica {number}", resources=Resources(gpus=1.0)) for number in (0, 1)
    ]
    learned = engine.start("builtins:dict", name="worker", resources=Resources(gpus=1.0, learns=True))
    with pytest.raises(UsageError, match="no GPU has room"):
        engine.start("builtins:dict", name="replica 2", resources=Resources(gpus=1.0))

    for each in (*played, learned):
        each.ready.exception(60)  # by then it has its environment
    seen = [Path(f"/proc/{each._process.pid}/environ").read_text() for each in (*played, learned)]  # type: ignore[attr-defined]
    engine.close()
    assert [text.partition("CUDA_VISIBLE_DEVICES=")[2].partition("\0")[0] for text in seen] == ["6", "7", "5"]
    assert engine.plan.own == "cuda:0"


@pytest.mark.parametrize(("card", "packing"), [("NVIDIA H100 80GB HBM3", "plain"), ("NVIDIA A100", "tree")])
def test_what_the_doctor_found_of_this_card_takes_the_place_of_a_default(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, card: str, packing: str
) -> None:
    learners = pytest.importorskip("agentfw_plugins.learners.model_learner")
    from agentfw_plugins.learners.settings import LoraSettings

    machine((80, 79))
    monkeypatch.chdir(tmp_path)
    rows = [{"row": "card", "card": card}, {"row": "flex", "failed": "it took more than 240 s"}]
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "gpu.json").write_text(json.dumps(rows))

    engine = LocalEngine(learns=True)
    learner = learners.LoraLearner(LoraSettings(), engine)

    assert learner.settings.packing == packing
    asked = learners.LoraLearner(LoraSettings(packing="tree"), engine)
    assert asked.settings.packing == "tree", "who sets it by hand knows better"
    assert ("learner.packing = plain if it isn't set, because" in engine.plan.words()) == (packing == "plain")
    assert ("it took more than 240 s" in engine.plan.words()) == (packing == "plain")
