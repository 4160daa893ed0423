"""Plugins that reach beyond their own code: what they print and write is no data, and the run goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import SITE, Agentfw, Install


def in_a_process(folder: Path, *words: str, leaving: float = 10) -> subprocess.CompletedProcess[str]:
    """What a command of its own process does, with the plugins of this folder and the laboratory.

    At its end, it waits so many seconds for threads that are left.
    """
    code = f"import agentfw_cli.interrupts as ends, agentfw_cli.main as cli; ends._LEAVING = {leaving}; cli.main()"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder / "site"), str(SITE)])}
    environment.pop("PYTHONUNBUFFERED", None)  # printing takes a lock then, which a thread may hold at the end
    command = [sys.executable, "-c", code, *words, "--json"]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, timeout=300)


PRINTING = """
import os, threading, time
from agentfw import hookimpl

os.write(1, b'a banner\\n')
os.system('echo hi')

def keep_printing():
    while True:
        for _ in range(10):
            print("noise")
        time.sleep(0.0005)

threading.Thread(target=keep_printing, daemon=True).start()

@hookimpl
def agentfw_turn(turn):
    print("a turn")

@hookimpl
def agentfw_episode_done(episode):
    print("an episode")
"""


def test_what_is_printed_by_a_thread_or_written_to_the_descriptor_ends_no_run_and_gets_into_no_data(
    install: Install, tmp_path: Path, quick: tuple[str, ...]
) -> None:
    install("agentfw-noise", "[agentfw]\nnoise = agentfw_noise\n", PRINTING)

    ended = in_a_process(tmp_path, *quick)

    assert ended.returncode == 0, ended.stderr[-1000:]
    assert json.loads(ended.stdout)["episodes"] == 3
    for words in ("a banner\n", "hi\n", "an episode\n"):
        assert words in ended.stderr


LEFTOVERS = """
import asyncio, threading, time
from agentfw import hookimpl

class Handle:
    def __del__(self):
        raise SystemExit(3)

def fall():
    raise ValueError("spilt")

async def fall_later():
    fall()

def hold_on():
    time.sleep(10_000)

@hookimpl
def agentfw_turn(turn):
    Handle()
    threading.Thread(target=fall).start()
    asyncio.get_running_loop().create_task(fall_later())
    threading.Thread(target=hold_on).start()
"""


def test_what_a_plugin_leaves_behind_holds_up_no_run(install: Install, tmp_path: Path, quick: tuple[str, ...]) -> None:
    install("agentfw-leftovers", "[agentfw]\nleftovers = agentfw_leftovers\n", LEFTOVERS)

    ended = in_a_process(tmp_path, *quick, leaving=0.5)

    assert ended.returncode == 0, ended.stderr[-1000:]
    assert json.loads(ended.stdout)["episodes"] == 3
    raised = "agentfw-leftovers raised where nobody can catch it"
    assert f"{raised} (__del__, line 7): SystemExit: 3\n" in ended.stderr
    assert ended.stderr.count(f"{raised} (fall, line 10): ValueError: spilt\n") >= 2
    assert "agentfw_leftovers.py, line 16" in ended.stderr.partition("left behind: ")[2]
    assert "Traceback" not in ended.stderr


HOOK = """
from agentfw import hookimpl

@hookimpl
def agentfw_episode_done(episode):
    episode.outcome.clear()
    1 / 0
"""


def test_a_failing_hook_is_told_and_changes_a_copy(agentfw: Agentfw, install: Install, quick: tuple[str, ...]) -> None:
    plain = agentfw(*quick, "--json").json
    install("agentfw-watch", "[agentfw]\nwatch = agentfw_watch\n", HOOK)

    watched = agentfw(*quick, "--json", "--quiet")

    assert "agentfw-watch 1.0.0 raised ZeroDivisionError" in watched.told(0)
    assert watched.json["figures"] == plain["figures"]


def test_foreign_text_can_not_steer_the_terminal(agentfw: Agentfw, install: Install) -> None:
    code = """
from pydantic import Field
from agentfw import Component, Settings, hookimpl

class NotesSettings(Settings):
    limit: str = Field("\\x1b[2Jdefault", description="\\x1b]0;title\\x07How many\\nat most")

@hookimpl
def agentfw_memories():
    return [Component("notes", "a:B", "Sum\\x1b[2Jmary\\nof two", settings=f"{__name__}:NotesSettings")]
"""
    install("agentfw-odd", "[agentfw]\nodd = agentfw_odd\n[agentfw.commands]\ngood\x1b[2J = a:b\n", code)

    told = [agentfw("plugins", "list"), agentfw("plugins", "show", "notes"), agentfw("--help")]

    for answer in told:
        assert not set("\x1b\x07") & set(answer.ok.out + answer.err)
    assert "How many at most" in told[1].out


BREW = """
import click

def pour(context, option, cups):
    {outside}

@click.command()
@click.option("--cups", callback=pour)
def brew(cups):
    {inside}
"""


@pytest.mark.parametrize(
    ("inside", "outside", "told"),
    [
        ("raise KeyError('tea')", "pass", "agentfw-brew 1.0.0 failed: KeyError: 'tea'"),
        ("pass", "raise KeyError('tea')", "from agentfw-brew (pour, line 5); tell the authors of agentfw-brew"),
    ],
    ids=["in the command", "outside of all guards"],
)
def test_a_command_that_raises_names_its_distribution(
    agentfw: Agentfw, install: Install, inside: str, outside: str, told: str
) -> None:
    code = BREW.format(inside=inside, outside=outside)
    install("agentfw-brew", "[agentfw.commands]\nbrew = agentfw_brew:brew\n", code)

    assert told in " ".join(agentfw("brew").told(3).split())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(("redirect", "code"), [("> /dev/full", 1), ("2>&-", 0)])
def test_a_full_or_closed_output_is_no_bug(redirect: str, code: int) -> None:
    command = f"{sys.executable} -m agentfw plugins list {redirect}"
    ended = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)

    assert ended.returncode == code
    assert "bug in agentfw" not in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ("No space left" in ended.stderr) is (redirect == "> /dev/full")


@pytest.mark.parametrize(
    ("folder", "metadata", "words"),
    [
        ("~gentfw_tea-1.0.dist-info", b"Name: agentfw-tea\nVersion: 1.0\n", "an interrupted pip left"),
        ("agentfw_tea-1.0.dist-info", b"Name: agentfw-tea\nAuthor: Ren\xe9\n", "METADATA is not UTF-8 text"),
        ("agentfw_tea-1.0.dist-info", b"", "names the module agentfw_tea, which isn't there"),
    ],
    ids=["left over", "not UTF-8", "empty"],
)
def test_a_damaged_installation_is_one_line(
    agentfw: Agentfw, install: Install, tmp_path: Path, quick: tuple[str, ...], folder: str, metadata: bytes, words: str
) -> None:
    damaged = tmp_path / "site" / folder
    damaged.mkdir()
    (damaged / "METADATA").write_bytes(metadata)
    (damaged / "entry_points.txt").write_text("[agentfw]\ntea = agentfw_tea\n")

    for command in (("plugins", "list"), ("doctor",), quick):
        answer = agentfw(*command)

        assert answer.code == (3 if command == ("doctor",) else 0)
        assert len([line for line in (answer.out + answer.err).splitlines() if words in line]) == 1
        assert "Traceback" not in answer.err
