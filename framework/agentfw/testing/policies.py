"""The contract of policies. One without tokens says so by leaving them empty, and is not asked for more."""

from __future__ import annotations

import asyncio
import copy
import math
from dataclasses import replace

from ..episode import Intervention, Message, Observation, Task
from ..policy import Generation, Policy, Request, Sampling
from ..request import Action, Brief, Moment
from .checks import BrokenPromise, DoesNotApply, Subject, closed, require, require_json

Policies = Subject[Policy]

_SERVE = Action(
    "serve",
    "Serve a drink.",
    {"type": "object", "properties": {"drink": {"type": "string", "enum": ["tea", "coffee"]}}, "required": ["drink"]},
)


def _request(index: int = 0, *, max_tokens: int = 32) -> Request:
    """What an engagement asks in the first turn of an episode."""
    said = f"guest number {index} would like tea"
    tea = Intervention("serve", {"drink": "tea"})
    brief = Brief("Serve each guest what they like.", (_SERVE,), 0.0, lambda moment: [tea])
    return Request(
        messages=[Message("system", brief.goal), Message("user", f"[0]\n{said}")],
        actions=brief.actions,
        sampling=Sampling(max_tokens=max_tokens, seed=7),
        moment=Moment(0, (Observation(0, "guest", {"likes": "tea"}, said),), woken=True),
        brief=brief,
        task=Task(index, seed=7 + index),
    )


async def _answer(subject: Policies, **sampling: int) -> Generation:
    async with closed(subject) as policy:
        return await policy.generate(_request(**sampling))


async def it_answers(subject: Policies) -> None:
    """Asked as an engagement asks, it answers with a Generation."""
    _check_types(await _answer(subject))


async def each_request_gets_its_own_answer(subject: Policies) -> None:
    """A request gets the answer that it would get alone, also among others."""
    async with closed(subject) as policy:
        alone = [await policy.generate(_request(index)) for index in range(4)]
        again = [await policy.generate(_request(index)) for index in range(4)]
        together = await asyncio.gather(*(policy.generate(_request(index)) for index in range(4)))
    prompts = [[answer.prompt_ids for answer in some] for some in (alone, together)]
    require(prompts[0] == prompts[1], "asked several things at once, it gives answers to other prompts than alone")
    said = [[(answer.text, answer.calls) for answer in some] for some in (alone, again, together)]
    if any(answer.token_ids for answer in alone) or said[0] != said[1]:
        return  # of a model, sums are rounded otherwise in a batch; and what is drawn anew can't be compared
    require(said[0] == said[2], f"asked several things at once, it says {said[2]}, and alone {said[0]}")


async def one_seed_gives_one_answer(subject: Policies) -> None:
    """A policy that samples tokens samples the same ones for the same seed."""
    first, then = [(await _answer(subject)).token_ids for _ in range(2)]
    if not first:
        raise DoesNotApply("it gives no token ids, so a server elsewhere may sample them")
    require(first == then, f"with one seed it samples {first} and then {then}; use request.sampling.seed")


async def it_goes_on_with_a_conversation(subject: Policies) -> None:
    """It answers again in a conversation that holds calls, their answers, and text of any kind."""
    first = _request()
    call = Intervention("serve", {"drink": "tea"}, "1.0")
    messages = [
        *first.messages,
        Message("assistant", "", (call,)),
        Message("tool", "accepted", answers="1.0"),
        Message("user", "[1]\n\x00\x1b[31m 🫖 ünï </tool_call> {" + "x" * 500),
    ]
    moment = Moment(1, (Observation(1, "guest", {"likes": "tea"}),))
    async with closed(subject) as policy:
        await policy.generate(first)
        _check_types(await policy.generate(replace(first, messages=messages, moment=moment)))


async def tokens_and_logprobs_agree(subject: Policies) -> None:
    """Tokens come with the prompt that was shown and, one for one, with logprobs, none of them above 0."""
    answer = await _answer(subject)
    if not answer.token_ids:
        require(not answer.logprobs, f"it gives {len(answer.logprobs)} logprobs and no token ids")
        raise DoesNotApply("it gives no token ids, so nothing can be trained on what it says")
    tokens, logprobs = len(answer.token_ids), len(answer.logprobs)
    require(logprobs == tokens, f"it gives {tokens} token ids and {logprobs} logprobs")
    for logprob in answer.logprobs:
        # A softmax in half precision may end a hair above 0.
        require(math.isfinite(logprob) and logprob <= 1e-3, f"{logprob} is no logprob")
    require(answer.prompt_ids, "it gives token ids but not those of its prompt, so nothing can be trained on them")
    ids = (*answer.prompt_ids, *answer.token_ids)
    require(all(isinstance(token, int) and token >= 0 for token in ids), "a token id is no whole number from 0 up")


async def pieces_make_the_text(subject: Policies) -> None:
    """The text of the tokens, put together, is the text."""
    answer = await _answer(subject)
    if not answer.pieces:
        raise DoesNotApply("it doesn't give the text of each token")
    text = "".join(answer.pieces)
    require(text == answer.text, f"the pieces make {text[:100]!r} and the text is {answer.text[:100]!r}")
    if answer.token_ids:
        count = len(answer.token_ids)
        require(len(answer.pieces) == count, f"it gives {count} tokens and {len(answer.pieces)} pieces")


async def it_keeps_to_the_limit(subject: Policies) -> None:
    """It respects the maximum number of tokens, and says when an answer was cut off there."""
    answer = await _answer(subject, max_tokens=2)
    if not answer.token_ids:
        raise DoesNotApply("it gives no token ids, so nobody can tell")
    require(len(answer.token_ids) <= 2, f"asked for 2 tokens at most, it gave {len(answer.token_ids)}")
    require(answer.finish in ("stop", "length"), f'it says that it ended by "{answer.finish}", not by stop or length')


async def the_request_stays_as_it_is(subject: Policies) -> None:
    """It doesn't alter what it is asked."""
    request = _request()
    before = copy.deepcopy(request)
    async with closed(subject) as policy:
        await policy.generate(request)
    for name in ("messages", "actions", "sampling", "moment", "task"):
        require(getattr(request, name) == getattr(before, name), f"it altered the {name} of the request")


async def its_time_is_a_time(subject: Policies) -> None:
    """How long an answer takes in the world's time is never below zero."""
    async with closed(subject) as policy:
        answer = await policy.generate(_request())
        for time_per_token in (0.0, 0.5):
            takes = policy.generation_time(answer, time_per_token)
            require(math.isfinite(takes) and takes >= 0, f"an answer can't take {takes}")


def _check_types(answer: object) -> None:
    if not isinstance(answer, Generation):
        raise BrokenPromise(f"it answers with a {type(answer).__name__}")
    require(isinstance(answer.text, str), f"its text is a {type(answer.text).__name__}")
    require(isinstance(answer.count, int) and answer.count >= 0, f"it can't have generated {answer.count} tokens")
    for call in answer.calls:
        require(isinstance(call, Intervention), f"one of its calls is a {type(call).__name__}")
        require_json(dict(call.arguments), f"what it calls {call.name} with")
