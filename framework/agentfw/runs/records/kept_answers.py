"""What the policy has answered in episodes that aren't finished, so that a resumed run doesn't ask again.

An interrupted episode is played from its beginning, because a world can't be put on disk. Where the policy is asked
what it was asked before, it answers what it answered before, so the episode soon is where it was. Each episode in
progress has a file below `answers/`, which goes when the episode is on disk. Nobody waits for these files, and they are
not flushed: they survive the end of the process, not a power cut.

    kept = KeptAnswers(folder)
    with kept.keeping(task.id) as keep:
        episode = await play(keep(policy))
    kept.discard(task.id)

Programs are asked again: they cost nothing, and may remember what they were asked.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from hashlib import sha256
from pathlib import Path
from typing import Any

from ...episode import Call, Usage
from ...policy import Policy
from ...request import CallsInText, Forwarded, Generation, Passed, Request
from ...timeline import Time
from .journal import encoded, make_folder, make_private

_PAUSE = 0.25  # seconds between two writes: about what a kill loses
_FOLDER = "answers"


class KeptAnswers:
    """The files of one play."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / _FOLDER
        self._known: dict[str, list[dict[str, Any]]] = {}
        """The answers of each episode in progress, in their order."""

    def recover(self) -> list[Usage]:
        """Read what an earlier execution has left. Returns what it was used for."""
        for file in sorted(self.path.glob("*.jsonl")):
            lines, size = _whole_lines(file)
            with suppress(OSError), file.open("r+b") as handle:
                handle.truncate(size)  # what comes next must not follow half a line
            self._known[file.stem] = lines
        return [Usage(**line["answer"]["usage"]) for lines in self._known.values() for line in lines]

    @contextmanager
    def keeping(self, episode: str) -> Iterator[Callable[[Policy], Policy]]:
        """One attempt at an episode. It gives what turns the policy into one whose answers are kept."""
        made: list[_KeepingPolicy] = []

        def keep(policy: Policy) -> Policy:
            made.append(_KeepingPolicy(policy, self.path / f"{episode}.jsonl", self._known.setdefault(episode, [])))
            return made[-1]

        try:
            yield keep
        except BaseException:
            for each in made:
                each.write()
            raise

    def discard(self, episode: str) -> None:
        """Forget an episode: it is on disk, or was left out."""
        self._known.pop(episode, None)
        with suppress(OSError):
            (self.path / f"{episode}.jsonl").unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove the folder, if nothing is left in it."""
        with suppress(OSError):
            self.path.rmdir()


class _KeepingPolicy(Policy):
    """Asks another policy on behalf of one episode, unless the answer is known."""

    def __init__(self, policy: Policy, file: Path, known: list[dict[str, Any]]) -> None:
        self.wrapped, self.file, self.known = policy, file, known
        self.forwards = policy.forwards
        self._left: dict[str, deque[dict[str, Any]]] = {}
        for line in known:
            self._left.setdefault(line["asked"], deque()).append(line["answer"])
        self._new: list[bytes] = []
        self._before = _ids(known[-1]["answer"]) if known else ()
        self._written = time.monotonic()

    async def generate(self, request: Request) -> Generation:
        asked = _digest(request)
        return self._repeated(asked) or self._kept(asked, await self.wrapped.generate(request))

    async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
        asked = _digest(request)
        if found := self._repeated(asked):
            tell(found.text)
            return found
        return self._kept(asked, await self.wrapped.stream(request, tell))

    async def speaks(self, protocol: str, model: str = "") -> bool:
        return await self.wrapped.speaks(protocol, model)

    async def forward(self, request: Request, forwarded: Forwarded) -> Passed:
        return await self.wrapped.forward(request, forwarded)

    def generation_time(self, generation: Generation, time_per_token: Time) -> Time:
        return self.wrapped.generation_time(generation, time_per_token)

    def write(self) -> None:
        """Write what is new."""
        if not self._new:
            return
        with suppress(OSError):  # on a full disk the episodes can't be written either, and that is told
            make_folder(self.file.parent)
            make_private(self.file)
            with self.file.open("ab") as handle:
                handle.write(b"".join(self._new))
            self._new.clear()

    def _repeated(self, asked: str) -> Generation | None:
        left = self._left.get(asked)
        return _generation(left.popleft()) if left else None

    def _kept(self, asked: str, found: Generation) -> Generation:
        answer = {item.name: getattr(found, item.name) for item in fields(found)}
        answer["calls"] = [[call.name, call.arguments, call.id] for call in found.calls]
        answer["usage"], place = asdict(found.usage), found.in_text
        places = None if place.places is None else sorted(place.places)
        answer["in_text"] = [sorted(place.formats), place.follows_anything, places]
        shared = len(self._before) if found.prompt_ids[: len(self._before)] == self._before else 0
        try:
            packed = {**answer, "prompt_ids": found.prompt_ids[shared:]}
            self._new.append(encoded({"asked": asked, "shared": shared, "answer": packed}))
        except (TypeError, ValueError, RecursionError):
            return found  # it can't be stored, which is told when the episode is
        self.known.append({"asked": asked, "answer": answer})
        self._before = _ids(answer)
        # An episode that takes less time is played again more quickly than it is read.
        if time.monotonic() - self._written >= _PAUSE:
            self._written = time.monotonic()
            self.write()
        return found


def count_kept(run: Path) -> tuple[int, int]:
    """In how many episodes of a run answers are kept, and how many they are."""
    counts = [len(_whole_lines(file)[0]) for file in run.glob(f"**/{_FOLDER}/*.jsonl")]
    return len(counts), sum(counts)


def _whole_lines(file: Path) -> tuple[list[dict[str, Any]], int]:
    """The lines up to the first that isn't whole, and their size."""
    lines: list[dict[str, Any]] = []
    before: tuple[int, ...] = ()
    size = 0
    with suppress(OSError, ValueError, KeyError, TypeError), file.open("rb") as handle:
        for line in handle:
            if not line.endswith(b"\n"):
                break
            record = json.loads(line)
            answer = record["answer"]
            answer["prompt_ids"] = (*before[: record["shared"]], *answer["prompt_ids"])
            _generation(answer)
            lines.append({"asked": str(record["asked"]), "answer": answer})
            size, before = size + len(line), _ids(answer)
    return lines, size


def _ids(answer: Mapping[str, Any]) -> tuple[int, ...]:
    """The tokens of an answer, behind those of its prompt. The next prompt mostly begins with them."""
    return (*answer["prompt_ids"], *answer["token_ids"])


def _digest(request: Request) -> str:
    """What tells a request from the others of its episode."""
    digest = sha256(repr(request.sampling).encode())
    for message in request.messages:
        digest.update(f"\n{message.role} {message.answers} {len(message.content)} ".encode())
        digest.update(message.content.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _generation(record: Mapping[str, Any]) -> Generation:
    values = dict(record)
    values["calls"] = tuple(Call(*call) for call in record["calls"])
    values["usage"] = Usage(**record["usage"])
    formats, follows, places = record["in_text"]
    values["in_text"] = CallsInText(frozenset(formats), follows, None if places is None else frozenset(places))
    for name in ("prompt_ids", "token_ids", "logprobs", "pieces", "failures"):
        values[name] = tuple(record[name])
    return Generation(**values)
