"""The environment `program`: each task is given to a program, which asks the policy over HTTP.

    agentfw run program --set environment.command="python my_agent.py" --set environment.tasks=tasks.jsonl
    agentfw train program --policy transformers --set environment.function=my_agent:solve ...

The program finds the policy at OPENAI_BASE_URL (and ANTHROPIC_BASE_URL), which is its own session. Any model name will
do. What it achieved is, in this order: what the check command says; whether its `answer` is that of the task; the
`reward` in its last line of JSON. Reward models can score the episode besides. A program that fails, or that runs out
of time, has the reward 0.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import math
import shutil
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentfw import Session, Task
from agentfw.errors import AgentfwError, SettingsError, in_words
from agentfw.runs import make_folder
from agentfw.turns.session import SessionEnvironment

from .process import Result, last_json, run_command, words_of
from .settings import ProgramSettings
from .tasks import Row, read_tasks, shown, tasks_of

__all__ = ["Program"]

Function = Callable[[Row, str, str], Awaitable[object]]

_KEY = "agentfw"
"""The key that programs are given. The name of the session, which nobody else knows, is what protects it."""
_FIGURES = 20


class Program(SessionEnvironment):
    """A program solves tasks, and asks you for whatever it needs."""

    def __init__(self, settings: ProgramSettings) -> None:
        self.settings = settings
        self._function = _load(settings.function) if settings.function else None

    def tasks(self, count: int, seed: int, split: str) -> Sequence[Task]:
        return tasks_of(self.settings.tasks, count, seed, split)

    async def play(self, session: Session) -> None:
        from ...gateway.live import reachable

        task = session.episode.task
        row = read_tasks(self.settings.tasks, task.split)[task.index]
        session.note("observation", "task", {"text": json.dumps(shown(row), ensure_ascii=False)})
        folder = Path(tempfile.mkdtemp(prefix="agentfw-"))
        try:
            async with reachable(session) as url:
                if self._function is None:
                    result = await self._command(row, url, folder)
                else:
                    result = await self._call(self._function, row, f"{url}/v1")
            session.note("program", "ended", result.tail())
            said = {} if result.failed else last_json(result.out)
            reward = 0.0 if result.failed else await self._reward(row, said, folder, session)
        finally:
            self._put_away(folder, task)
        session.episode.utility = reward
        session.note("utility", "reward", {"value": reward})
        late = float(result.code is None)
        session.end("finished", **{**_figures(said), "failed": float(result.failed), "timed_out": late})

    async def _command(self, row: Row, base: str, folder: Path) -> Result:
        settings, told = self.settings, shown(row)
        environment = {
            "OPENAI_BASE_URL": f"{base}/v1",
            "OPENAI_API_KEY": _KEY,
            "ANTHROPIC_BASE_URL": base,
            "ANTHROPIC_API_KEY": _KEY,
        }
        return await run_command(
            words_of(settings.command, told, "environment.command"),
            folder,
            environment,
            json.dumps(told, ensure_ascii=False).encode() + b"\n",
            timeout=settings.timeout,
            memory=settings.memory,
            output=settings.output,
        )

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
            checked = await run_command(
                words, folder, {}, given, timeout=self.settings.timeout, setting="environment.check"
            )
            session.note("program", "checked", checked.tail())
            found = last_json(checked.out).get("reward")
            return _number(found) if found is not None else float(not checked.failed)
        if "answer" in row:
            return float(str(said.get("answer", "")).strip() == str(row["answer"]).strip())
        return _number(said.get("reward"))

    def _put_away(self, folder: Path, task: Task) -> None:
        if self.settings.keep:
            home = Path(self.settings.keep) / f"{task.split}-{task.id}-{folder.name}"
            make_folder(home.parent)
            shutil.move(folder, home)
        else:
            shutil.rmtree(folder, ignore_errors=True)


def _number(value: object) -> float:
    """The value as a reward. None unless it is a finite number."""
    return float(value) if isinstance(value, (int, float)) and math.isfinite(value) else 0.0


def _figures(said: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of the last line of JSON, besides the reward."""
    names = [name for name, value in said.items() if isinstance(value, (int, float)) and math.isfinite(value)]
    return {name: float(said[name]) for name in names[:_FIGURES] if name not in ("reward", "answer", "utility")}


def _load(path: str) -> Function:
    module, colon, name = path.partition(":")
    # As for `python -m`, but at the end: nothing that is installed can be replaced by a file of the same name.
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        found = getattr(importlib.import_module(module), name) if colon else None
    except (ImportError, AttributeError) as error:
        raise SettingsError(
            f"environment.function: can't load {path}: {error}",
            fix=f"write package.module:function, of a module that is installed or below {here}",
        ) from None
    if not callable(found):
        raise SettingsError(f"environment.function: {path} is no function", fix="write package.module:function")
    return found  # type: ignore[no-any-return]
