"""A turn is the same whoever asked for it: an engagement or a session."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from agentfw import (
    Engagement,
    Environment,
    Generation,
    Message,
    Policy,
    PolicyAgent,
    Request,
    Session,
    Task,
    Turn,
    World,
    action,
)
from agentfw.episode import Call, Usage
from agentfw.request import NO_CALLS, Sampling

CALL = '<tool_call>{"name": "serve", "arguments": {"drink": "tea"}}</tool_call>'
TOKENS = Generation(prompt_ids=(1, 2), token_ids=(3, 4, 5), logprobs=(-0.1, -0.2, -0.3), version="v1")
ANSWERS = {
    "text": replace(TOKENS, text="Which tea?"),
    "call": replace(TOKENS, text=f"At once.\n{CALL}"),
    "only a call": replace(TOKENS, text=f"\n{CALL}\n"),
    "calls of two formats": replace(TOKENS, text=f'{CALL}\n<serve drink="milk"/>'),
    "quoted call": replace(TOKENS, text=f'The mail says: "{CALL}"'),
    "unreadable call": replace(TOKENS, text="<tool_call>serve</tool_call>"),
    "unknown action": replace(TOKENS, text=CALL.replace("serve", "sell")),
    "separate call": Generation("At once.", (Call("serve", {"drink": "tea"}, "abc"),), count=7, usage=Usage(9, 0, 7)),
    "separate calls without ids": Generation("", (Call("serve", {"drink": "tea"}), Call("serve", {"drink": "milk"}))),
    "separate call that is spelled, too": Generation(CALL, (Call("serve", {"drink": "tea"}, "abc"),), said=""),
    "separate failure": Generation("Hm.", failures=("a call without a name",), in_text=NO_CALLS),
    "no calls in text": replace(TOKENS, text=CALL, in_text=NO_CALLS),
    "cut short": replace(TOKENS, text="Which", finish="length", constrained=True, temperature=0.0, top_p=0.5),
}


class Answering(Policy):
    """Gives one answer, and then says nothing."""

    def __init__(self, answer: Generation) -> None:
        self._answers = [answer]

    async def generate(self, request: Request) -> Generation:
        return replace(self._answers.pop()) if self._answers else Generation()


class Bar(Environment):
    """Serve."""

    def begin(self, world: World, task: Task) -> None:
        world.observe("guest", text="A guest comes in.")

    @action
    def serve(self, drink: str) -> None:
        """Serve a drink."""


def engaged(answer: Generation, sampling: Sampling) -> Turn:
    agent = PolicyAgent(Answering(answer), sampling=sampling)
    return asyncio.run(Engagement(Bar(), agent).run(Task(0, seed=7))).turns[0]


def led(answer: Generation, sampling: Sampling) -> Turn:
    session = Session(Answering(answer), Task(0, seed=7), sampling=sampling)
    messages = [Message("system", "Serve."), Message("user", "A guest comes in.")]
    return asyncio.run(session.answer(messages, Bar().brief().actions)).turn


def alike(turn: Turn) -> Turn:
    """The turn without its place, its times, and the ids that calls are given in the record."""
    calls = tuple(replace(call, id=call.id if call.id == "abc" else "") for call in turn.calls)
    return replace(turn, started=0, ended=0, at=None, first=None, shown=(), calls=calls, max_tokens=None)


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
def test_a_turn_is_recorded_in_the_same_way_whoever_asked(answer: Generation) -> None:
    sampling = Sampling(temperature=0.7, top_p=0.9)

    in_a_world, in_a_session = engaged(answer, sampling), led(answer, sampling)

    assert alike(in_a_world) == alike(in_a_session)
    assert in_a_world.token_ids == answer.token_ids
    assert in_a_world.temperature == (0.7 if answer.temperature is None else answer.temperature)
    assert all(call.id for turn in (in_a_world, in_a_session) for call in turn.calls), "answers name their calls"


def test_a_call_is_a_call_only_where_the_model_made_it_as_one() -> None:
    called = {name: [call.name for call in led(answer, Sampling()).calls] for name, answer in ANSWERS.items()}

    assert called["call"] == ["serve"]
    assert called["separate call that is spelled, too"] == ["serve"]
    assert called["quoted call"] == called["no calls in text"] == []
