"""A model in this process: exact tokens, many at once, and one seed one answer."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import methodcaller
from pathlib import Path
from typing import Any

import pytest
from transformers_asking import WORDS, in_turn, make, request, together, using

from agentfw.episode import Message, Task, Usage
from agentfw.errors import AgentfwError, SettingsError
from agentfw.policy import Generation, Request, Sampling
from agentfw.request import Action

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from agentfw_plugins.models import load_base  # noqa: E402
from agentfw_plugins.policies.local.transformers_engine import Engine  # noqa: E402
from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy  # noqa: E402

Make = Callable[..., Path]
SERVE = Action("serve", "Serve a drink.", {"type": "object", "properties": {"drink": {"type": "string"}}})


# -- exact tokens ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.4, 1.0), (1.5, 1.0), (0.7, 0.6), (0.0, 1.0)])
def test_logprobs_are_those_of_the_distribution_that_was_sampled_from(
    small_model: Path, temperature: float, top_p: float
) -> None:
    """Computed by transformers: logits divided by the temperature, and only the likeliest tokens up to top_p.

    At temperature 0 they are the model's own.
    """
    ask = request(1, max_tokens=12, temperature=temperature, top_p=top_p)

    answer = using(make(small_model), lambda policy: policy.generate(ask))

    ids = [*answer.prompt_ids, *answer.token_ids]
    with torch.no_grad():
        logits = load_base(small_model, "fp32", "cpu")(torch.tensor([ids])).logits[0].double()
    chances = (logits[len(answer.prompt_ids) - 1 : -1] / (temperature or 1.0)).softmax(-1)
    ordered, order = chances.sort(descending=True)
    kept = torch.zeros_like(chances).scatter(-1, order, ordered * (ordered.cumsum(-1) - ordered < top_p))
    expected = (kept / kept.sum(-1, keepdim=True)).log()[range(len(answer.token_ids)), list(answer.token_ids)]
    assert list(answer.logprobs) == pytest.approx(expected.tolist(), abs=1e-5)
    assert (answer.temperature, answer.top_p) == (temperature, top_p)
    assert answer.usage == Usage(prompt=len(answer.prompt_ids), sampled=len(answer.token_ids))


def test_the_policy_says_of_its_answer_what_it_said_when_it_gave_it(small_model: Path) -> None:
    async def use(policy: TransformersPolicy) -> tuple[Generation, Sequence[float]]:
        answer = await policy.generate(request(4, max_tokens=20, temperature=1.0))
        return answer, await policy.logprobs(answer.prompt_ids, answer.token_ids)

    answer, again = using(make(small_model), use)

    assert list(again) == pytest.approx(list(answer.logprobs), abs=1e-5)


def test_several_answers_are_scored_as_each_alone(small_model: Path) -> None:
    """More than go through the model in one pass, and of lengths that fill blocks and that don't."""
    draw = random.Random(7)
    lengths = [(1, 1), (15, 1), (16, 16), (40, 90), (3, 60), (200, 2), (31, 33)]

    def drawn(length: int) -> list[int]:
        return [draw.randrange(10, 380) for _ in range(length)]

    answers = [(drawn(prompt), drawn(answer)) for prompt, answer in lengths for _ in "ab"]

    async def use(policy: TransformersPolicy) -> tuple[Sequence[Sequence[float]], list[Sequence[float]]]:
        return await policy.score(answers), [await policy.logprobs(*answer) for answer in answers]

    several, alone = using(make(small_model), use)

    assert [list(one) for one in several] == [list(one) for one in alone]
    assert [len(one) for one in several] == [len(answer) for _, answer in answers]


@pytest.mark.slow
def test_tokens_come_as_often_as_their_probability_says(small_model: Path) -> None:
    draws = 400
    ask = [Message("user", "tea")]
    requests = [Request(ask, sampling=Sampling(1.0, max_tokens=1, seed=seed)) for seed in range(draws)]

    answers = using(make(small_model), lambda policy: together(policy, requests))

    for token in {answer.token_ids[0] for answer in answers}:
        same = [answer for answer in answers if answer.token_ids[0] == token]
        chance = 2.718281828 ** same[0].logprobs[0]
        # Five standard deviations: 384 tokens are looked at.
        assert abs(len(same) - draws * chance) <= 5 * (draws * chance) ** 0.5 + 1


def test_top_p_leaves_out_what_is_unlikely_and_no_temperature_takes_the_likeliest(small_model: Path) -> None:
    ask = [Message("user", "tea")]
    narrow = [Request(ask, sampling=Sampling(3.0, 0.3, 1, seed)) for seed in range(60)]
    cold = [Request(ask, sampling=Sampling(0.0, 1.0, 1, seed)) for seed in range(3)]

    answers = using(make(small_model), lambda policy: together(policy, [*narrow, *cold]))

    logits = load_base(small_model, "fp32", "cpu")(torch.tensor([answers[0].prompt_ids])).logits[0, -1]
    ordered = (logits / 3.0).softmax(-1).sort(descending=True)
    nucleus = ordered.indices[: int((ordered.values.cumsum(-1) < 0.3).sum()) + 1].tolist()
    assert {answer.token_ids[0] for answer in answers[:60]} <= set(nucleus)
    assert {answer.token_ids[0] for answer in answers[60:]} == {int(logits.argmax())}


def test_an_answer_ends_at_its_end_token(make_model: Make, tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model", eos_token_id=list(range(200)))  # every other token ends an answer
    requests = [request(number, max_tokens=40, temperature=1.0) for number in range(8)]

    answers = using(make(folder), lambda policy: together(policy, requests))

    stopped = [answer for answer in answers if answer.finish == "stop"]
    assert stopped
    for answer in stopped:
        assert answer.token_ids[-1] < 200 or len(answer.token_ids) == 40
        assert all(token >= 200 for token in answer.token_ids[:-1])


# -- many at once ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_answer_depends_on_nobody_beside_it(small_model: Path) -> None:
    requests = [request(number) for number in range(24)]

    async def staggered(policy: TransformersPolicy) -> list[Generation]:
        async def later(one: Request, delay: float) -> Generation:
            await asyncio.sleep(delay)
            return await policy.generate(one)

        shuffled = random.Random(3)
        return await asyncio.gather(*(later(one, shuffled.random() / 4) for one in requests))

    alone = using(make(small_model, batch=1), lambda policy: in_turn(policy, requests))
    few = using(make(small_model, batch=5), lambda policy: together(policy, requests))
    many = using(make(small_model, batch=64), staggered)

    # To the last bit: a training that is taken up again meets other neighbours, and has to be the same training.
    assert alone == few == many


def test_short_answers_are_the_same_beside_a_long_one(small_model: Path) -> None:
    """To the last bit, though alone they are computed with fewer keys."""
    long = Request([Message("user", " ".join(WORDS * 40))], sampling=Sampling(1.0, max_tokens=30, seed=7))
    short = [
        Request([Message("user", word)], sampling=Sampling(1.0, max_tokens=20, seed=number))
        for number, word in enumerate(WORDS[:4])
    ]

    long_answer, *beside = using(make(small_model), lambda policy: together(policy, [long, *short]))
    alone = using(make(small_model), lambda policy: in_turn(policy, short))

    assert beside == alone
    assert max(len(answer.prompt_ids) + len(answer.token_ids) for answer in alone) <= 128 < len(long_answer.prompt_ids)


def test_long_answers_are_the_same_beside_others(small_model: Path) -> None:
    """To the last bit, also those that grow beyond the keys that many rows are computed with at once."""
    requests = [
        Request([Message("user", " ".join(WORDS * times))], sampling=Sampling(1.0, max_tokens=60, seed=times))
        for times in (20, 21, 22, 30, 60)
    ]

    beside = using(make(small_model, context=2048), lambda policy: together(policy, requests))
    alone = using(make(small_model, context=2048), lambda policy: in_turn(policy, requests))

    assert beside == alone
    assert any(len(one.prompt_ids) < 512 < len(one.prompt_ids) + len(one.token_ids) for one in alone)


def test_a_large_head_gives_the_logits_that_transformers_computes(make_model: Make, tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model", vocab_size=5000)
    asked = [request(number, max_tokens=5) for number in range(3)]

    answers = using(make(folder), lambda policy: together(policy, asked))

    model = load_base(folder, "fp32", "cpu")
    for ask, answer in zip(asked, answers, strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([[*answer.prompt_ids, *answer.token_ids]])).logits[0]
        own = logits[len(answer.prompt_ids) - 1 : -1].div(ask.sampling.temperature or 1.0).log_softmax(-1)
        expected = own[range(len(answer.token_ids)), list(answer.token_ids)].tolist()
        assert answer.logprobs == pytest.approx(expected, abs=1e-5)


def test_samples_of_one_task_differ_and_each_comes_again(small_model: Path) -> None:
    ask = [Message("user", "tea")]
    requests = [Request(ask, sampling=Sampling(max_tokens=8, seed=1), task=Task(0, 1, sample=n)) for n in range(6)]

    first, second = (using(make(small_model), lambda policy: together(policy, requests)) for _ in range(2))

    assert first == second
    assert len({answer.token_ids for answer in first}) > 1


def test_a_common_beginning_is_computed_once(small_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []
    planned = Engine._planned

    def watched(engine: Engine) -> Any:
        found = planned(engine)
        computed.append(sum(segment.length for segment in found[3].segments))
        return found

    monkeypatch.setattr(Engine, "_planned", watched)
    ask = [Message("system", "Serve what they like. " * 40), Message("user", "tea")]
    group = [Request(ask, sampling=Sampling(max_tokens=3), task=Task(0, 1, sample=n)) for n in range(8)]

    async def use(policy: TransformersPolicy) -> list[Generation]:
        answers = await together(policy, group)
        said = [*ask, Message("assistant", answers[0].text), Message("user", "And one more.")]
        return [*answers, await policy.generate(Request(said, sampling=Sampling(max_tokens=3), before=answers[0]))]

    *answers, later = using(make(small_model), use)

    prompt = len(answers[0].prompt_ids)
    assert prompt > 300
    assert later.prompt_ids[: prompt + len(answers[0].token_ids) - 1] == (
        *answers[0].prompt_ids,
        *answers[0].token_ids[: len(answers[0].token_ids) - 1],
    )
    # Eight samples and a second turn: the prompt once, and then what is new, in blocks of 16.
    assert sum(computed) <= prompt + 16 + len(later.prompt_ids) - prompt + 32


def test_questions_that_share_nothing_are_answered_beyond_the_rows_that_are_there(small_model: Path) -> None:
    """Each takes a row of its own, so the 17th needs more rows than were made at first."""
    words = [random.Random(number).choices(WORDS, k=30) for number in range(20)]
    asked = [
        Request([Message("user", " ".join(said))], sampling=Sampling(max_tokens=6, seed=7), task=Task(number, 1))
        for number, said in enumerate(words)
    ]

    answers = using(make(small_model, batch=32), lambda policy: in_turn(policy, asked))

    alone = [using(make(small_model), methodcaller("generate", one)) for one in asked[-4:]]
    assert [one.token_ids for one in answers[-4:]] == [one.token_ids for one in alone]


@pytest.mark.slow
def test_a_large_batch_takes_no_more_memory_than_the_answers_that_are_asked_for(small_model: Path) -> None:
    """A policy may answer 64 at once by default, and long prompts of 64 don't fit everywhere."""

    async def play(policy: TransformersPolicy) -> tuple[list[Generation], int, int]:
        few = await together(policy, [request(number) for number in range(3)])
        rows = [len(keys) for keys, _ in policy._engine._rows._layers.values()]
        many = await together(policy, [request(number) for number in range(3, 24)])
        return [*few, *many], max(rows), len(policy._engine._rows._layers[0][0])

    answers, few, many = using(make(small_model, batch=64), play)
    alone = using(make(small_model, batch=1), lambda policy: in_turn(policy, [request(number) for number in range(24)]))

    assert answers == alone
    assert few == 16 < many <= 32


@pytest.mark.slow
def test_the_program_goes_on_while_tokens_are_made(small_model: Path) -> None:
    async def use(policy: TransformersPolicy) -> int:
        beats = 0
        answer = asyncio.ensure_future(policy.generate(request(1, max_tokens=200, temperature=1.0)))
        while not answer.done():
            await asyncio.sleep(0)
            beats += 1
        return beats

    assert using(make(small_model), use) > 10


def test_a_request_that_is_given_up_leaves_room(small_model: Path) -> None:
    async def use(policy: TransformersPolicy) -> Generation:
        given_up = [asyncio.ensure_future(policy.generate(request(n, max_tokens=1500))) for n in range(4)]
        await asyncio.sleep(0.2)
        for one in given_up:
            one.cancel()
        return await policy.generate(request(5))

    assert using(make(small_model, batch=2), use) == using(
        make(small_model, batch=2), lambda policy: policy.generate(request(5))
    )


# -- what can be wrong -------------------------------------------------------------------------------------------------


def test_a_prompt_that_is_too_long_is_told_with_its_task(small_model: Path) -> None:
    async def use(policy: TransformersPolicy) -> Generation:
        with pytest.raises(AgentfwError, match=r"task 00002-1: the prompt has \d+ tokens.*reads at most 40"):
            await policy.generate(request(5))
        return await policy.generate(Request([Message("user", "tea")], sampling=Sampling(max_tokens=100, seed=1)))

    answer = using(make(small_model, context=40), use)

    assert len(answer.prompt_ids) + len(answer.token_ids) <= 40
    with pytest.raises(SettingsError, match="the model reads at most 2048 tokens"):
        make(small_model, context=5000)


def test_no_memory_left_says_what_to_lower(small_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = make(small_model)

    def full(engine: Engine) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")

    monkeypatch.setattr(Engine, "_step", full)

    with pytest.raises(AgentfwError, match="out of memory while generating") as caught:
        using(policy, lambda policy: policy.generate(request(1)))
    assert "policy.batch" in caught.value.fix


def test_a_model_with_windows_answers_as_transformers_does(make_model: Make, tmp_path: Path) -> None:
    """Also beyond a window, with prompts in one piece or cached in part, and to the last bit among others."""
    folder = make_model(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 40}
    (folder / "config.json").write_text(json.dumps(config))
    long = Request([Message("user", " ".join(WORDS * 40))], sampling=Sampling(1.0, max_tokens=20, seed=7))
    asked = [long, *(request(number, max_tokens=20) for number in range(8))]

    answers = using(make(folder, batch=4), lambda policy: together(policy, asked))
    alone = using(make(folder), lambda policy: in_turn(policy, asked))
    scored = using(make(folder), lambda policy: policy.logprobs(answers[0].prompt_ids, answers[0].token_ids))

    assert min(len(answer.prompt_ids) for answer in answers) > 40
    assert max(len(answer.prompt_ids) for answer in answers) > 512  # more than one stretch of keys
    assert [(one.token_ids, one.logprobs) for one in answers] == [(one.token_ids, one.logprobs) for one in alone]
    model = load_base(folder, "fp32", "cpu")
    for ask, answer in zip(asked, answers, strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([[*answer.prompt_ids, *answer.token_ids]])).logits[0]
        own = logits[len(answer.prompt_ids) - 1 : -1].div(ask.sampling.temperature or 1.0).log_softmax(-1)
        expected = own[range(len(answer.token_ids)), list(answer.token_ids)].tolist()
        assert answer.logprobs == pytest.approx(expected, abs=1e-4)
    assert scored == pytest.approx(answers[0].logprobs, abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("window", [100, 300, 520])
def test_an_answer_within_its_window_is_the_same_beside_one_beyond_it(
    make_model: Make, tmp_path: Path, window: int
) -> None:
    """To the last bit, though alone it is computed with all keys, and beside the other with those of a window."""
    folder = make_model(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": window}
    (folder / "config.json").write_text(json.dumps(config))
    texts = [" ".join(WORDS * count) for count in (1, 2, 4, 10, 24, 40)]
    sampling = Sampling(1.0, max_tokens=24, seed=7)
    asked = [Request([Message("user", text)], sampling=sampling) for text in texts]

    answers = using(make(folder), lambda policy: together(policy, asked))
    alone = using(make(folder), lambda policy: in_turn(policy, asked))

    assert [(one.token_ids, one.logprobs) for one in answers] == [(one.token_ids, one.logprobs) for one in alone]
    within = [len(one.prompt_ids) + len(one.token_ids) <= window for one in answers]
    assert {True, False} == set(within)


def test_positions_never_depend_on_the_longest_answer_of_a_batch(make_model: Make, tmp_path: Path) -> None:
    """With longrope, one token beyond the original length would change those of all rows."""
    folder = make_model(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    factors = {"short_factor": [1.0] * 4, "long_factor": [9.0] * 4, "rope_theta": 10000.0}
    config |= {"rope_parameters": {"rope_type": "longrope", "original_max_position_embeddings": 64, **factors}}
    (folder / "config.json").write_text(json.dumps(config))
    asked = [Request([Message("user", "tea " * n)], sampling=Sampling(1.0, max_tokens=90, seed=7)) for n in (1, 3, 12)]

    answers = using(make(folder), lambda policy: together(policy, asked))
    alone = using(make(folder), lambda policy: in_turn(policy, asked))

    assert [(one.token_ids, one.logprobs) for one in answers] == [(one.token_ids, one.logprobs) for one in alone]
    assert max(len(answer.prompt_ids) + len(answer.token_ids) for answer in answers) == 64
    with pytest.raises(SettingsError, match="reads at most 64 tokens"):
        make(folder, context=65)


def test_tokens_that_the_model_does_not_know_are_refused(small_model: Path) -> None:
    for prompt, answer in (((1, 2), (384,)), ((), (1,)), ((1,), ()), ((-1,), (1,))):
        with pytest.raises(SettingsError, match="can't score these"):
            using(make(small_model), methodcaller("logprobs", prompt, answer))


def test_a_closed_policy_says_so(small_model: Path) -> None:
    policy = make(small_model)
    using(policy, lambda policy: policy.generate(request(1)))

    with pytest.raises(AgentfwError, match="closed"):
        asyncio.run(policy.generate(request(1)))


# -- where an answer ends ----------------------------------------------------------------------------------------------


def test_an_answer_ends_with_the_text_that_was_asked_to_end_it(small_model: Path) -> None:
    asked = request(3, max_tokens=20)

    async def both(policy: TransformersPolicy) -> tuple[Generation, Generation]:
        whole = await policy.generate(asked)
        ending = next(piece for piece in whole.pieces[2:] if piece)
        return whole, await policy.generate(replace(asked, stop=("not there", ending)))

    whole, ended = using(make(small_model), both)
    assert whole.finish == "length"
    assert ended.finish == "stop"
    assert 0 < len(ended.token_ids) < len(whole.token_ids)
    assert ended.token_ids == whole.token_ids[: len(ended.token_ids)]
    assert ended.logprobs == whole.logprobs[: len(ended.token_ids)]
