"""The environment `program`: each task is given to a program, which asks the policy over HTTP.

    agentfw run program --set environment.command="python my_agent.py" --set environment.tasks=tasks.jsonl

The program finds the policy at OPENAI_BASE_URL (and ANTHROPIC_BASE_URL), which is its own session. What it achieved is,
in this order: what the check command says; whether its `answer` is that of the task, which it isn't shown; the `reward`
in its last line of JSON. A program that fails, or that runs out of time, has the reward 0. Commands run in a folder of
their own, and everything that they have started is ended.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import shlex
import shutil
import signal
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, model_validator

from agentfw import Session, Settings, Task
from agentfw.boundary.gate import function_at
from agentfw.errors import AgentfwError, SettingsError, in_words
from agentfw.runs import make_folder
from agentfw.settings import OPERATIONAL
from agentfw.turns.session import SessionEnvironment

from ..protocols.completion import parsed
from ..task_files import TASKS_SETTING, Row, read_tasks, tasks_of


class ProgramSettings(Settings):
    tasks: str = Field(min_length=1, description=f"{TASKS_SETTING} Without it, the splits share the file.")
    command: str = Field(
        "",
        description="Command to start for each task. {name} in it stands for that key of the task. The task is also on "
        "its standard input.",
    )
    function: str = Field(
        "",
        description="Async function to call for each task in place of a command, as package.module:name, installed or "
        "in the current directory. It is given the task, the base URL and a key.",
    )
    check: str = Field(
        "",
        description="Command that checks the result in the program's folder. Its last line of JSON has the `reward`, "
        "or else its exit code tells: 0 is 1, any other 0.",
    )
    timeout: float = Field(300.0, gt=0, description="Seconds after which the program is ended.")
    keep: Annotated[str, OPERATIONAL] = Field(
        "", description="Directory in which the programs' folders are kept. Default: they are removed."
    )

    @model_validator(mode="after")
    def _one_agent(self) -> ProgramSettings:
        if bool(self.command.strip()) == bool(self.function.strip()):
            raise ValueError("set either command or function")
        return self


def shown(row: Row) -> Row:
    """What the program is told of its task."""
    return {key: value for key, value in row.items() if key != "answer"}


_MOST, _TAIL = 1_000_000, 4000  # bytes of the output that are read, and characters that are recorded: the last ones
_PATIENCE = 0.5  # seconds for output to arrive of a program that has ended


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a command."""

    code: int | None  # exit code. None if it was ended because its time was over
    out: str
    err: str

    @property
    def failed(self) -> bool:
        return self.code != 0

    def tail(self) -> dict[str, Any]:
        """The end of the output, for the record."""
        return {"code": self.code, "out": self.out[-_TAIL:], "err": self.err[-_TAIL:]}


def words_of(command: str, values: Mapping[str, Any], setting: str) -> list[str]:
    """The words of a command, with the task's values. Files of this directory, and below it, keep their place."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise SettingsError(f"{setting}: {error}", fix="check the quotes") from None
    told = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    found = []
    for word in words:
        # Replaced after splitting, and all at once, so that a value stays one word whatever is in it.
        word = re.sub(r"\{([^{}]+)\}", lambda place: told.get(place[1], place[0]), word)
        # The command runs in another folder, and files that are seen from here are meant. Questions have slashes, too.
        is_file = os.path.isdir(os.path.dirname(word)) if "/" in word else "." in word and os.path.exists(word)
        found.append(os.path.abspath(word) if is_file else word)  # not resolved: a link is what a venv's Python is
    return found


async def run_command(
    words: Sequence[str], folder: Path, environment: Mapping[str, str], given: bytes, timeout: float, setting: str
) -> Result:
    """Run a command to its end, or until its time is over."""
    outputs = _Output(), _Output()
    pipes = [await output.opened() for output in outputs]
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=asyncio.subprocess.PIPE,
            stdout=pipes[0],
            stderr=pipes[1],
            start_new_session=True,  # so that its children can be ended with it
        )
    except (OSError, ValueError) as error:
        raise SettingsError(f"{setting}: can't start {words[0]}: {error}", fix="check the command") from None
    finally:
        for pipe in pipes:
            os.close(pipe)
    assert process.stdin is not None
    code: int | None = None
    try:
        async with asyncio.timeout(timeout):
            with suppress(ConnectionError):  # it need not read its input
                process.stdin.write(given)
                await process.stdin.drain()
                process.stdin.close()
            code = await process.wait()
    except TimeoutError:
        pass
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
    out, err = [await output.text() for output in outputs]
    return Result(code, out, err)


class _Output(asyncio.Protocol):
    """The end of what a program writes to a pipe of its own. It is read to its end, because a program that can't write
    would wait for ever. asyncio would wait for its own pipes as long as something that the program started has them.
    """

    def __init__(self) -> None:
        self._kept, self._ended = bytearray(), asyncio.Event()

    async def opened(self) -> int:
        """Where the program writes."""
        reading, writing = os.pipe()
        pipe = open(reading, "rb", 0)  # noqa: SIM115 - closed with the transport
        self._transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: self, pipe)
        return writing

    def data_received(self, data: bytes) -> None:
        self._kept += data
        del self._kept[:-_MOST]

    def connection_lost(self, error: Exception | None) -> None:
        self._ended.set()

    async def text(self) -> str:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), _PATIENCE)
        self._transport.close()
        return self._kept.decode("utf-8", "replace")


def last_json(text: str) -> dict[str, Any]:
    """The last line that is a JSON object. Empty if there is none."""
    found = (parsed(line) for line in reversed(text.split("\n")))
    return next((one for one in found if isinstance(one, dict)), {})


Function = Callable[[Row, str, str], Awaitable[object]]

_KEY = "agentfw"
"""The key that programs are given. The name of the session, which nobody else knows, is what protects it."""
_FIGURES = 20


class Program(SessionEnvironment):
    """A program solves tasks, and asks you for whatever it needs."""

    def __init__(self, settings: ProgramSettings) -> None:
        self.settings = settings
        self._function = function_at(settings.function, "environment.function") if settings.function else None

    def tasks(self, count: int, seed: int, split: str) -> Sequence[Task]:
        return tasks_of(read_tasks(self.settings.tasks, split), count, seed, split)

    async def play(self, session: Session) -> None:
        from ..gateway.live import reachable

        task = session.episode.task
        row = read_tasks(self.settings.tasks, task.split)[task.index]
        session.note("observation", "task", {"text": json.dumps(shown(row), ensure_ascii=False)})
        folder = Path(tempfile.mkdtemp(prefix="agentfw-"))
        try:
            async with reachable(session) as url:
                if self._function is None:
                    told, setting = shown(row), "environment.command"
                    words = words_of(self.settings.command, told, setting)
                    given = (json.dumps(told, ensure_ascii=False) + "\n").encode()
                    environment = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": _KEY}
                    environment |= {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": _KEY}
                    result = await run_command(words, folder, environment, given, self.settings.timeout, setting)
                else:
                    result = await self._call(self._function, row, f"{url}/v1")
            session.note("program", "ended", result.tail())
            said = {} if result.failed else last_json(result.out)
            reward = 0.0 if result.failed else await self._reward(row, said, folder, session)
        finally:
            if self.settings.keep:
                home = Path(self.settings.keep) / f"{task.split}-{task.id}-{folder.name}"
                make_folder(home.parent)
                shutil.move(folder, home)
            else:
                shutil.rmtree(folder, ignore_errors=True)
        session.episode.utility = reward
        session.note("utility", "reward", {"value": reward})
        names = [name for name, value in said.items() if isinstance(value, (int, float)) and math.isfinite(value)]
        own = {name: float(said[name]) for name in names[:_FIGURES] if name not in ("reward", "answer", "utility")}
        session.end("finished", **{**own, "failed": float(result.failed), "timed_out": float(result.code is None)})

    async def _call(self, function: Function, row: Row, base: str) -> Result:
        limit = asyncio.timeout(self.settings.timeout)
        try:
            async with limit:
                found = await function(shown(row), base, _KEY)
            return Result(0, found if isinstance(found, str) else json.dumps(found), "")
        except AgentfwError:
            raise
        except Exception as error:  # a program that fails is data
            return Result(None if limit.expired() else 1, "", in_words(error))

    async def _reward(self, row: Row, said: Mapping[str, Any], folder: Path, session: Session) -> float:
        if self.settings.check:
            given = json.dumps({"task": row, "result": said}).encode() + b"\n"
            words = words_of(self.settings.check, row, "environment.check")
            checked = await run_command(words, folder, {}, given, self.settings.timeout, "environment.check")
            session.note("program", "checked", checked.tail())
            found = last_json(checked.out).get("reward")
            return _number(found) if found is not None else float(not checked.failed)
        if row.get("answer") is not None:
            return float(str(said.get("answer", "")).strip() == str(row["answer"]).strip())
        return _number(said.get("reward"))


def _number(value: object) -> float:
    """The value as a reward, or 0 unless it is a finite number."""
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0.0
