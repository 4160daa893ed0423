"""Runs a command in a folder of its own, with a time limit, and ends whatever it has started.

result = await run_command(["python", "agent.py"], folder, {"OPENAI_BASE_URL": url}, b"{}", timeout=60)
result.last_json(), result.failed
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentfw.errors import SettingsError

__all__ = ["Result", "last_json", "run_command", "words_of"]

_TAIL = 4000
"""Characters of the output that are recorded."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a command."""

    code: int | None
    """Exit code. None if it was ended because its time was over."""
    out: str
    err: str

    @property
    def failed(self) -> bool:
        return self.code != 0

    def tail(self) -> dict[str, Any]:
        """The end of the output, for the record."""
        return {"code": self.code, "out": self.out[-_TAIL:], "err": self.err[-_TAIL:]}


def words_of(command: str, values: Mapping[str, Any], setting: str) -> list[str]:
    """The words of a command, with the task's values. Files of this directory keep their place."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise SettingsError(f"{setting}: {error}", fix="check the quotes") from None
    found = []
    for word in words:
        # Replaced after splitting, so that a value stays one word whatever is in it.
        for key, value in values.items():
            word = word.replace(f"{{{key}}}", value if isinstance(value, str) else json.dumps(value))
        # The command runs in another folder; what the user sees from here is meant.
        found.append(str(Path(word).resolve()) if "/" in word or ("." in word and Path(word).exists()) else word)
    return found


async def run_command(
    words: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    given: bytes,
    *,
    timeout: float,
    memory: int = 0,
    output: int = 1_000_000,
    setting: str = "environment.command",
) -> Result:
    """Run a command to its end, or until its time is over."""
    if memory:  # a shell sets the limit for the program that takes its place
        words = ["/bin/sh", "-c", f'ulimit -v {memory * 1024}; exec "$@"', "sh", *words]
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            cwd=folder,
            env={**os.environ, **environment},
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # so that its children can be ended with it
        )
    except (OSError, ValueError) as error:
        raise SettingsError(f"{setting}: can't start {words[0]}: {error}", fix="check the command") from None
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    code: int | None = None
    reading = asyncio.gather(_read(process.stdout, output), _read(process.stderr, output))
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
    out, err = await reading
    return Result(code, out, err)


def last_json(text: str) -> dict[str, Any]:
    """The last line that is a JSON object. Empty if there is none."""
    for line in reversed(text.splitlines()):
        line = line.strip()
        if line.startswith("{"):
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict):
                return found
    return {}


async def _read(stream: asyncio.StreamReader, most: int) -> str:
    """The end of a stream. It is read to its end, because a program that can't write would wait for ever."""
    kept = b""
    while chunk := await stream.read(65536):
        kept = (kept + chunk)[-most:]
    return kept.decode("utf-8", "replace")
