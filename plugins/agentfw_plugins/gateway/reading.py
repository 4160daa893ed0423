"""Sessions as JSON for somebody who reads them: a list of all, and one word for word with what was remembered in it.

A request that names a user is shown the sessions of that user only, and one with a key those of that key. Whoever runs
the gateway and names nobody is shown all.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from agentfw import Episode, Turn
from agentfw.episode import Call
from agentfw.errors import StorageError
from agentfw.runs import LiveRun, read_sessions

from ..protocols import BadRequest
from ..rewards.measured import is_feedback
from ..view.index import Index
from ..view.index_rows import PART_OF
from ..view.pages import because
from .handling import Caller
from .keys import alone_with
from .learning.ratings import why_ignored
from .variants import Comparison, VariantFile, decisions, rated_sessions, results, sessions_below

if TYPE_CHECKING:
    from .learning.learning import Learning

PAGE = 100
_OF_MESSAGE, _OF_TURN = ("role", "content", "answers"), ("shown", "text", "failures", "finish", "version", "model")
"""What is told as it is."""
_BEGINNING = 120
_LOOK = 2.0  # seconds between two looks at what was rated


class Reading:
    def __init__(self, live: LiveRun) -> None:
        self.live = live
        self._ended: dict[str, dict[str, Any]] = {}  # what the list says of sessions that have ended, by name
        self.learning: Learning | None = None

    def ended(self, episode: Episode, reward: float) -> None:
        self._ended[episode.task.query] = listed(episode, reward)

    async def sessions(self, caller: Caller, before: int | None = None) -> dict[str, Any]:
        """The newest sessions, from the one before number `before`. `more` says whether there are older ones."""
        await self._load()
        end = sys.maxsize if before is None else before
        is_anybodys = caller.key is None and not caller.user

        def is_seen(number: int, user: str, name: str) -> bool:
            return number < end and name.startswith(caller.space) and (is_anybodys or user == caller.user)

        # Only those that are shown are looked at closely: there may be thousands.
        live = [one.episode for one in self.live.sessions.values()]
        seen: dict[int, Episode | dict[str, Any]] = {
            one.task.index: one for one in live if is_seen(one.task.index, one.task.user, one.task.query)
        }
        seen |= {row["number"]: row for name, row in self._ended.items() if is_seen(row["number"], row["user"], name)}
        found = [seen[number] for number in sorted(seen, reverse=True)[:PAGE]]
        rows = [listed(one) if isinstance(one, Episode) else one for one in found]
        shown = [{**row, "session": row["session"].removeprefix(caller.space)} for row in rows]
        return {"sessions": shown, "more": len(seen) > PAGE}

    async def session(self, caller: Caller, shown: str) -> dict[str, Any]:
        if (found := await self._find(caller.space + shown)) is None:
            raise BadRequest("there is no such session", 404, code="no_such_session")
        episode, reward = found
        caller.check(episode.task.user)
        row = listed(episode, reward)
        if self.learning is not None:
            metric = self.learning.served.state.metric
            row["feedback"] = [{**one, "why": why_ignored(episode, metric, one)} for one in row["feedback"]]
        return {**row, **_told(episode), "session": shown}

    def rated_so_far(self) -> object:
        turns = self.live.folder.path / "turns.jsonl"
        return turns.stat().st_size if turns.exists() else 0

    def rated(self, since: float) -> Iterable[Episode]:
        """The sessions that were used since then. Those without a rating may be missing."""
        return sessions_below(self.live.folder.path.parent, since)

    async def decide(self, file: VariantFile) -> None:
        """Look at the comparison of variants again and again, and end it when it is clear, for ever."""
        seen: tuple[object, ...] = ()
        while True:
            await asyncio.sleep(_LOOK)
            with suppress(StorageError):  # what can't be read or written now may be at the next look
                if (comparison := file.read()) is None:
                    continue
                news = (comparison, await asyncio.to_thread(self.rated_so_far))
                if news != seen:
                    await asyncio.to_thread(self._decide, file, comparison)
                    seen = news

    def _decide(self, file: VariantFile, comparison: Comparison) -> None:
        rated = list(rated_sessions(self.rated(comparison.began), comparison))
        if decided := decisions(results(rated, comparison), comparison):
            with alone_with(file.path):
                if file.read() == comparison:  # nobody has begun or ended one meanwhile
                    comparison.decided |= decided
                    file.write(comparison)

    def index(self) -> Index:
        """What the pages of recorded episodes show: all runs of the directory."""
        return Index(self.live.folder.path.parent)

    async def _find(self, name: str) -> tuple[Episode, float | None] | None:
        if (live := self.live.sessions.get(name)) is not None:
            return live.episode, None
        if name not in self.live.ended:
            return None
        await self._load()
        [episode] = await asyncio.to_thread(read_sessions, self.live.folder.path, name)
        return episode, self._ended[name]["reward"]

    async def _load(self) -> None:
        if not (missing := self.live.ended.keys() - self._ended.keys()):
            return
        folder = self.live.folder
        rewards = {line["episode"]: float(line["reward"]) for line in await asyncio.to_thread(folder.metrics)}
        for episode in await asyncio.to_thread(read_sessions, folder.path):
            if episode.task.query in missing:
                self._ended.setdefault(episode.task.query, listed(episode, rewards.get(episode.id)))


def listed(episode: Episode, reward: float | None = None) -> dict[str, Any]:
    first = next((message.content for message in episode.messages if message.role == "user"), "")
    return {
        "session": episode.task.query,
        "number": episode.task.index,
        "user": episode.task.user,
        "part_of": next((one.data["session"] for one in episode.events if one.name == PART_OF), ""),
        "begins": " ".join(first[: 4 * _BEGINNING].split())[:_BEGINNING],
        "answers": len(episode.turns),
        "feedback": [event.data for event in episode.events if is_feedback(event)],
        "finish": episode.finish,
        "reward": reward,
    }


def _told(episode: Episode) -> dict[str, Any]:
    """What was said and done in a session.

    `answer` of a message is the turn whose answer was sent back in it. `recalled` of a turn are the places, in the list
    of all that was recalled, of what it was told. After a turn that `goes_on`, the gateway called a memory's tools.
    """
    failed = episode.failed_calls
    recalled = [event.data for event in episode.events if (event.kind, event.name) == ("memory", "recalled")]
    carried_out = {event.data["turn"] for event in episode.events if (event.kind, event.name) == ("memory", "called")}
    said = [turn.text if turn.said is None else turn.said for turn in episode.turns]
    below = dict[tuple[int, ...], list[Turn]]()
    for turn in episode.turns:
        below.setdefault(turn.shown, []).append(turn)
    answers = dict[int, int | None]()
    for turn in episode.turns:
        for i, place in enumerate(turn.shown):
            message = episode.messages[place]
            if message.role == "assistant" and place not in answers:  # each message has one path to it
                given = [one for one in below.get(turn.shown[:i], ()) if one.calls == message.calls]
                same = (one.index for one in given if message.content in (said[one.index], one.text))
                answers[place] = next(same, None)
    return {
        "recalled": [{**one, "because": because(one.get("why"))} for one in recalled],
        "messages": [
            {
                **{name: getattr(message, name) for name in _OF_MESSAGE},
                "calls": [_call(call) for call in message.calls],
                "failed": message.answers in failed,
                "answer": answers.get(place),
            }
            for place, message in enumerate(episode.messages)
        ],
        "turns": [
            {
                **{name: getattr(turn, name) for name in _OF_TURN},
                "turn": turn.index,
                "said": words,
                "calls": [_call(call) for call in turn.calls],
                "tokens": turn.count,
                "exact": bool(turn.token_ids),
                "seconds": round(turn.ended - turn.started, 3),
                "recalled": [place for place, one in enumerate(recalled) if one.get("message") in turn.shown],
                "goes_on": turn.index in carried_out,
            }
            for turn, words in zip(episode.turns, said, strict=True)
        ],
    }


def _call(call: Call) -> dict[str, Any]:
    return {"id": call.id, "name": call.name, "arguments": dict(call.arguments)}
