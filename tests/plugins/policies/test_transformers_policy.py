"""A model in this process: exact tokens, many at once, and one seed one answer."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import shutil
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers_asking import WORDS, in_turn, make, own_logprobs, request, together, using

from agentfw.engine import LocalEngine, Plan
from agentfw.episode import Message, Task, Usage
from agentfw.errors import AgentfwError, RequestRefusedError, SettingsError
from agentfw.policy import Generation, Request, Sampling
from agentfw.testing import fresh_host

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("peft")

from agentfw_plugins.models import Chat, load_base, locate  # noqa: E402
from agentfw_plugins.policies.local.sampling import Telling  # noqa: E402
from agentfw_plugins.policies.local.transformers_engine import Engine  # noqa: E402
from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings  # noqa: E402

Make = Callable[..., Path]


@pytest.mark.parametrize(("temperature", "top_p"), [(0.4, 1.0), (3.0, 0.3), (0.0, 1.0)])
def test_logprobs_are_those_of_the_distribution_that_was_sampled_from(
    small_model: Path, temperature: float, top_p: float
) -> None:
    """Computed by transformers: logits divided by the temperature, and only the likeliest tokens up to top_p.

    At temperature 0 they are the model's own, and the likeliest are taken.
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
    assert list(answer.logprobs) == pytest.approx(expected.tolist(), abs=1e-5), "minus infinity beyond top_p"
    if not temperature:
        assert list(answer.token_ids) == order[:, 0].tolist()
    assert (answer.temperature, answer.top_p) == (temperature, top_p)
    assert answer.usage == Usage(prompt=len(answer.prompt_ids), sampled=len(answer.token_ids))


# -- many at once ------------------------------------------------------------------------------------------------------


def test_an_answer_depends_on_nobody_beside_it(small_model: Path) -> None:
    requests = [request(number) for number in range(16)]

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


def test_a_common_beginning_is_computed_once(small_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []
    planned = Engine._planned

    def watched(engine: Engine, adapter: str) -> Any:
        found = planned(engine, adapter)
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
    assert len({answer.token_ids for answer in answers}) > 4, "samples differ"
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

    alone = using(make(small_model), lambda policy: in_turn(policy, asked[-4:]))
    assert [one.token_ids for one in answers[-4:]] == [one.token_ids for one in alone]


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


def test_an_error_in_a_pass_keeps_nothing_of_it_in_memory(small_model: Path) -> None:
    computed = list[Any]()

    def broken(_head: Any, _inputs: Any, output: Any) -> None:
        computed.append(weakref.ref(output))
        raise RuntimeError("the device has an error")

    async def use(policy: TransformersPolicy) -> None:
        model = await asyncio.wrap_future(policy._engine.call(policy._engine.model))
        model.get_output_embeddings().register_forward_hook(broken)
        with pytest.raises(RuntimeError, match="the device has an error"):
            await policy.generate(request(1))
        await asyncio.wrap_future(policy._engine.call(gc.collect))
        assert [reference() for reference in computed] == [None]

    using(make(small_model), use)


def test_a_prompt_that_is_too_long_is_told_with_its_task(small_model: Path, tmp_path: Path) -> None:
    async def use(policy: TransformersPolicy) -> Generation:
        with pytest.raises(AgentfwError, match=r"task 00002-1: the prompt has \d+ tokens.*reads at most 40"):
            await policy.generate(request(5))
        with pytest.raises(AgentfwError, match="the prompt has no token"):
            await policy.generate(Request([Message("user", "<|end|>")], plain=True))
        return await policy.generate(Request([Message("user", "tea")], sampling=Sampling(max_tokens=100, seed=1)))

    answer = using(make(small_model, context=40), use)

    assert len(answer.prompt_ids) + len(answer.token_ids) <= 40
    with pytest.raises(SettingsError, match="the model reads at most 2048 tokens"):
        make(small_model, context=5000)
    # Beyond what it was first made for, such a model turns the places of all tokens of a pass.
    stretched = Path(shutil.copytree(small_model, tmp_path / "stretched"))
    config = json.loads((stretched / "config.json").read_text())
    factors = {"short_factor": [1.0] * 4, "long_factor": [2.0] * 4, "rope_theta": 10000.0}
    places = {"rope_type": "longrope", "original_max_position_embeddings": 512, **factors}
    (stretched / "config.json").write_text(json.dumps({**config, "rope_parameters": places}))
    with pytest.raises(SettingsError, match="the model reads at most 512 tokens"):
        make(stretched, context=600)


def test_a_model_with_windows_answers_as_transformers_does(make_model: Make, tmp_path: Path) -> None:
    """Within a window and beyond it, with prompts in one piece or cached in part, and to the last bit among others."""
    folder = make_model(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 520}
    (folder / "config.json").write_text(json.dumps(config))
    long = Request([Message("user", " ".join(WORDS * 40))], sampling=Sampling(1.0, max_tokens=20, seed=7))
    asked = [long, *(request(number, max_tokens=20) for number in range(8))]

    answers = using(make(folder, batch=4), lambda policy: together(policy, asked))
    alone = using(make(folder), lambda policy: in_turn(policy, asked))
    scored = using(make(folder), lambda policy: policy.logprobs(answers[0].prompt_ids, answers[0].token_ids))

    assert {len(answer.prompt_ids) + len(answer.token_ids) <= 520 for answer in answers} == {True, False}
    assert max(len(answer.prompt_ids) for answer in answers) > 512  # more than one stretch of keys
    assert [(one.token_ids, one.logprobs) for one in answers] == [(one.token_ids, one.logprobs) for one in alone]
    model = load_base(folder, "fp32", "cpu")
    for ask, answer in zip(asked, answers, strict=True):
        expected = own_logprobs(model, answer.prompt_ids, answer.token_ids, ask.sampling.temperature or 1.0)
        assert answer.logprobs == pytest.approx(expected, abs=1e-4)
    assert scored == pytest.approx(answers[0].logprobs, abs=1e-4)


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


def test_a_character_of_several_tokens_is_told_when_it_is_complete() -> None:
    class Counted(Chat):
        def text(self, ids: Sequence[int]) -> str:
            read.append(len(ids))
            return super().text(ids)

    chat, told, read = Counted(locate("tiny")), list[str](), list[int]()
    telling = Telling(chat, told.append)
    ids = chat.answer("Tea \u2615 \U0001f9cb!" * 9)

    for token in ids:
        telling.hear([token])

    assert "".join(told) == "Tea \u2615 \U0001f9cb!" * 9
    assert len(told) < len(ids) - 3
    assert max(read) < 12, "what was told isn't read again"


def test_it_plays_on_the_card_that_is_planned_for_it_unless_it_names_one(small_model: Path) -> None:
    class Planned(LocalEngine):
        plan = Plan(plays="cuda:1")

    settings = TransformersSettings(model=str(small_model))
    with pytest.raises(SettingsError, match="device is cuda:1, but torch finds no GPU"):
        TransformersPolicy(settings, engine=Planned())
    TransformersPolicy(settings.model_copy(update={"device": "cpu"}), engine=Planned())


@pytest.mark.parametrize(("settings", "said"), [({}, True), ({"model": "tiny"}, False)])
def test_the_model_that_nobody_chose_is_named(settings: dict[str, str], said: bool) -> None:
    host = fresh_host(builtins=True)

    host.create("policy", "transformers", settings)

    assert any("tiny" in note and "--model" in note for note in host.notes) == said


def test_answers_follow_their_schema_with_the_logprobs_of_what_it_left_and_a_wrong_one_fails_alone(
    small_model: Path,
) -> None:
    pytest.importorskip("llguidance")
    colour = {"type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"]}
    schema = {**colour, "additionalProperties": False}

    def asked(number: int, schema: dict[str, Any] = schema) -> Request:
        sampling = Sampling(temperature=1.0, max_tokens=100, seed=number)
        return Request([Message("user", "Which colour?")], sampling=sampling, schema=schema, task=Task(number, seed=1))

    async def use(policy: TransformersPolicy) -> tuple[Any, list[Any]]:
        requests = [asked(0, {"type": "nonsense"}), *map(asked, range(20))]
        answers = await asyncio.gather(*map(policy.generate, requests), return_exceptions=True)
        return policy._constraint(schema), answers

    constraint, (wrong, *answers) = using(make(small_model), use)

    assert isinstance(wrong, RequestRefusedError)
    assert {json.loads(answer.text)["colour"] for answer in answers} == {"red", "blue"}  # a random model says either
    assert all(answer.finish == "stop" and answer.constrained for answer in answers)
    one, found = answers[5], []
    with torch.inference_mode():
        ids = torch.tensor([[*one.prompt_ids, *one.token_ids]])
        logits = load_base(small_model, "fp32", "cpu")(ids).logits[0].double()
    for place, token in enumerate(one.token_ids, len(one.prompt_ids) - 1):
        left = logits[place].masked_fill(~constraint.allowed(logits.shape[-1]), float("-inf"))
        found.append(left.log_softmax(-1)[token].item())
        constraint.take(token)
    assert one.logprobs == pytest.approx(found, abs=1e-4)
