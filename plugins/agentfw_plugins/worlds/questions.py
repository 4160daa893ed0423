"""The environment `questions`: prompts in a file, whose answers a reward function scores.

    agentfw train tasks.jsonl --model Qwen/Qwen3-0.6B --reward rewards.py:correct

A task is a line of JSON. What is asked is its `prompt` or `question`, a text or a list of messages, or `messages`. All
keys of the task are columns, which the reward function is given by name (`agentfw.host.reward_functions`). Without one,
an answer that equals the column `answer` is worth 1. The conversation goes on with each text in the column
`follow_ups`, and then with whatever the function of the setting `reply` returns, until that is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from agentfw import Message, Session, Settings, Task
from agentfw.errors import SettingsError
from agentfw.host.plugin_loading import function_named
from agentfw.host.reward_functions import COLUMNS, call_function, taken
from agentfw.printing.out import counted
from agentfw.turns.session import SessionEnvironment

from ..protocols import BadRequest, Body
from ..protocols.chat import read_chat
from ..task_files import TASKS_SETTING, Row, read_tasks, tasks_of


class QuestionsSettings(Settings):
    tasks: str = Field(
        min_length=1,
        description=f"{TASKS_SETTING} Without it, two of ten tasks are held out, one for validation and one for test.",
    )
    system: str = Field("", description="System message before each prompt that has none.")
    reply: str = Field(
        "",
        description="Function that goes on with the conversation, as FILE.py:FUNCTION or package.module:function. It "
        "is given the `messages` and the columns, by name, and returns what the user says next, or None at the end.",
    )
    max_turns: int = Field(8, ge=1, description="Maximum number of answers in a conversation.")


class Questions(SessionEnvironment):
    """Answer questions."""

    headline = "reward"
    calls_tools = True

    def __init__(self, settings: QuestionsSettings) -> None:
        self.settings = settings
        self._reply = function_named(settings.reply, "environment.reply") if settings.reply else None

    def tasks(self, count: int, seed: int, split: str) -> Sequence[Task]:
        rows = self._rows(split)
        for number, row in enumerate(rows[:count], start=1):
            _asked(row, f"task {number} of the split {split}")
        return tasks_of(rows, count, seed, split)

    def describe(self, tasks: Sequence[Task]) -> str:
        return counted(len({task.index for task in tasks}), "question")

    async def play(self, session: Session) -> None:
        task = session.episode.task
        row = self._rows(task.split)[task.index]
        session.note(*COLUMNS, row)
        messages = _asked(row, f"task {task.id}")
        if self.settings.system and messages[0].role != "system":
            messages.insert(0, Message("system", self.settings.system))
        follow_ups = list(row.get("follow_ups") or ())
        for _ in range(self.settings.max_turns):
            answer = (await session.answer(messages)).message
            messages.append(answer)
            said: Any = follow_ups.pop(0) if follow_ups else None
            if said is None and self._reply is not None:
                told = [{"role": message.role, "content": message.content} for message in messages]
                said = await call_function(self._reply, **taken(self._reply, {**row, "messages": told}))
            if said is None:
                break
            messages.append(Message("user", str(said)))
        right = row.get("answer")
        session.episode.utility = float(right is not None and answer.content.strip() == str(right).strip())
        session.end("finished")

    def _rows(self, split: str) -> Sequence[Row]:
        return read_tasks(self.settings.tasks, split, held_out=True)


def _asked(row: Row, where: str) -> list[Message]:
    """The messages that the policy is shown first."""
    key, asked = next(((key, row[key]) for key in ("prompt", "messages", "question") if row.get(key)), ("", None))
    if isinstance(asked, str):
        return [Message("user", asked)]
    if not isinstance(asked, list | None):
        wrong = f"environment.tasks: {where}: its {key} is {asked!r:.80}"
        raise SettingsError(wrong, fix="write a text, or messages as OpenAI has them")
    try:
        messages = list(read_chat(Body({"model": "any", "messages": asked or []})).messages)
    except BadRequest as error:
        raise SettingsError(f"environment.tasks: {where}: {error}", fix="write messages as OpenAI has them") from None
    while messages and messages[-1].role == "assistant":
        messages.pop()
    if not messages:
        raise SettingsError(f"environment.tasks: {where} asks nothing", fix="give it a prompt, a question or messages")
    return messages
