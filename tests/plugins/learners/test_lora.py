"""The learners `lora` and `sft`: what an update leaves, how it goes on, and what a demonstration becomes."""

from __future__ import annotations

import asyncio
import json
import math
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from transformers_asking import own_logprobs

from agentfw.episode import Call, Episode, Message, Task, Turn
from agentfw.errors import UsageError
from agentfw.learner import Batch
from agentfw.optimizer import Advantage, Loss
from agentfw.seeds import Seeds
from agentfw_plugins.learners.lessons import Lesson, split
from agentfw_plugins.learners.settings import SftSettings
from agentfw_plugins.learners.token_tree import TurnTokens
from agentfw_plugins.models import Chat, Start
from agentfw_plugins.optimizers.imitation import Imitation, ImitationSettings

from .conftest import updated

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from safetensors.torch import load_file  # noqa: E402

from agentfw_plugins.learners.model_learner import LoraLearner, SftLearner  # noqa: E402

Make = Callable[..., LoraLearner]
MakeBatch = Callable[..., Batch]
PROMPT = (10, 11, 12, 13)
GOOD, BAD = (20, 21, 22), (30, 31, 32)
PAIR = ([(PROMPT, GOOD, 1.0)], [(PROMPT, BAD, -1.0)])


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_was_better_than_expected_becomes_likelier(learner_of: Make, make_batch: MakeBatch) -> None:
    learner = learner_of(optimizer="adamw_8bit")
    before = [sum(learner.logprobs(PROMPT, answer)) for answer in (GOOD, BAD)]

    for _ in range(3):
        learner.update(make_batch(*PAIR))

    after = [sum(learner.logprobs(PROMPT, answer)) for answer in (GOOD, BAD)]
    assert after[0] > before[0] + 0.1
    assert after[1] < before[1] - 0.1
    base = [sum(learner.logprobs(PROMPT, answer, base=True)) for answer in (GOOD, BAD)]
    assert base == pytest.approx(before, abs=1e-4)


@pytest.mark.parametrize("form", [{}, {"layers": (1,), "rank_stabilised": True, "dora": True}])
def test_an_adapter_is_one_that_peft_loads(
    learner_of: Make, make_batch: MakeBatch, small_model: Path, tmp_path: Path, form: dict[str, Any]
) -> None:
    from peft import PeftModel
    from safetensors import safe_open
    from transformers import AutoModelForCausalLM

    (named := tmp_path / "named").symlink_to(small_model)
    learner = learner_of(model=str(named), **form)
    update = updated(learner, make_batch(*PAIR))
    config = json.loads((update.adapter / "adapter_config.json").read_text("utf-8"))
    assert config["base_model_name_or_path"] == str(named), "wherever that is: another machine makes the same version"
    with safe_open(update.adapter / "adapter_model.safetensors", "pt") as file:
        layers = {int(name.split(".layers.")[1].split(".")[0]) for name in file.keys()}  # noqa: SIM118
    assert layers == set(form.get("layers", (0, 1)))
    served = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(small_model), update.adapter)

    assert update.version == Start.at(str(update.adapter), small_model).version == "policy@1"
    assert own_logprobs(served, PROMPT, GOOD) == pytest.approx(list(learner.logprobs(PROMPT, GOOD)), abs=1e-5)


def test_steps_that_are_too_small_for_bf16_add_up_in_its_masters(
    learner_of: Make, make_batch: MakeBatch, small_model: Path
) -> None:
    """Of the largest weights, a step is about 1e-5; the next number in bf16 is at least 2e-3 of it away."""
    from agentfw_plugins.models import load_base

    name, base = "model.layers.0.mlp.down_proj.weight", load_base(small_model, "fp32", "cpu")
    start = base.state_dict()[name].clone()
    large = start.abs() > start.abs().quantile(0.99)
    rate = 1e-5 * float(start[large].abs().min())
    learner = learner_of(weights="all", precision="bf16", learning_rate=rate)

    for _ in range(10):
        update = updated(learner, make_batch(*PAIR))

    assert torch.equal(start[large].bfloat16() + rate, start[large].bfloat16())
    moved = (load_file(update.adapter / "model.safetensors")[name] - start)[large].abs() / rate
    assert 5 < moved.median() <= 10.1
    assert torch.equal(base.state_dict()[name], start), "whoever else has loaded the model keeps it"


def test_an_adapter_of_a_base_in_bf16_is_computed_as_it_is_served_and_learns_in_fp32(
    learner_of: Make, make_batch: MakeBatch
) -> None:
    """Half of the distance from a weight to the next number in bf16 takes many steps of this size."""
    from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings

    rate = 1e-5
    learner = learner_of(precision="bf16", learning_rate=rate)
    first = updated(learner, make_batch(*PAIR))
    start = load_file(first.adapter / "adapter_model.safetensors")
    for _ in range(10):
        update = updated(learner, make_batch(*PAIR))

    weights = load_file(update.adapter / "adapter_model.safetensors")
    large = {name: start[name].abs() > 0.05 for name in weights if "lora_A" in name}
    moved = torch.cat([(weights[name] - start[name])[some].abs() / rate for name, some in large.items()])
    assert {weight.dtype for weight in weights.values()} == {torch.float32}
    assert 5 < moved.median() <= 10.1
    policy = TransformersPolicy(TransformersSettings(model=learner.settings.model, precision="bf16"))
    asyncio.run(policy.publish(update.adapter, update.version))
    served = asyncio.run(policy.logprobs(PROMPT, GOOD))
    assert served == pytest.approx(list(learner.logprobs(PROMPT, GOOD)), abs=0.02)


@pytest.mark.parametrize(
    "changes", [{"weights": "all", "precision": "bf16"}, {"optimizer": "adamw_8bit", "rank": 64}, {"steps": 2}]
)
def test_to_go_on_after_a_break_is_to_go_on_to_the_last_bit(
    learner_of: Make, tmp_path: Path, make_batch: MakeBatch, changes: dict[str, Any]
) -> None:
    changes = {"minibatches": 2, "warmup": 3, **changes}
    batch = make_batch(
        *PAIR, [(PROMPT[:2], (5, 6), 0.5), ((*PROMPT, *GOOD, 9), (7,), -0.5)], loss=Loss(kl=0.01), tasks=2
    )
    whole = learner_of(**changes)
    whole.open(tmp_path / "whole")
    for number in (1, 2, 3):
        whole.update(Batch(batch.episodes, batch.advantages, batch.loss, tmp_path / "whole" / f"{number}"))

    broken = tmp_path / "broken"
    state: Mapping[str, Any] = {}
    for number in (1, 2, 3):
        learner = learner_of(**changes)
        learner.open(broken)
        learner.restore(json.loads(json.dumps(state)))
        # What a killed update leaves behind.
        (broken / f"{number}.unfinished").mkdir(parents=True)
        (broken / f"{number}.unfinished" / "torn").write_text("half a li")
        update = updated(learner, Batch(batch.episodes, batch.advantages, batch.loss, broken / f"{number}"))
        state = learner.state()
        if number == 1:  # a run's folder may be moved
            shutil.move(broken, tmp_path / "moved")
            broken = tmp_path / "moved"

    assert update.version == "policy@3"
    assert files(broken / "3") == files(tmp_path / "whole" / "3")
    assert sorted(path.name for path in broken.iterdir()) == ["1", "2", "3"]


def test_figures_say_what_was_done(learner_of: Make, make_batch: MakeBatch) -> None:
    learner = learner_of()
    own = list(learner.logprobs(PROMPT, GOOD))
    batch = make_batch(*PAIR, [(PROMPT, (40, 41), 0.0)], [(PROMPT, (50,), 1.0)], logprobs=None)
    for episode, logprobs in zip(batch.episodes, (own, [v - 0.5 for v in learner.logprobs(PROMPT, BAD)]), strict=False):
        episode.turns[0].logprobs = tuple(logprobs)
    batch.episodes[3].turns[0].logprobs = ()
    told: list[tuple[int, int, float]] = []
    some = Batch(batch.episodes, batch.advantages[:3], batch.loss, batch.folder, tell=lambda *news: told.append(news))

    metrics = updated(learner, some).metrics

    assert [(done, of, memory > 0) for done, of, memory in told[-1:]] == [(len(told), len(told), True)]
    assert metrics["tokens_trained"] == 6
    assert metrics["tokens_masked"] == 2  # an advantage of zero teaches nothing
    assert metrics["tokens_dropped"] == 1  # no advantage at all
    assert metrics["tokens_computed"] == 4 + 2 + 2
    assert metrics["tokens_plain"] == 2 * 6
    assert metrics["mismatch"] == pytest.approx(0.25, abs=1e-4)
    assert metrics["mismatch_largest"] == pytest.approx(0.5, abs=1e-4)
    assert metrics["ratio"] == 1
    assert 0 < metrics["entropy"] <= math.log(384)
    assert metrics["gradient_norm"] > 0
    assert metrics["tokens_per_second"] > 0
    assert metrics["peak_memory_mb"] > 0


@pytest.mark.parametrize("loss", [Loss(), Loss(kl=0.04)], ids=["nothing acts", "a penalty at its start"])
def test_a_batch_that_changes_no_weight_gives_no_version(learner_of: Make, make_batch: MakeBatch, loss: Loss) -> None:
    learner, undisturbed = learner_of(), learner_of()
    empty = make_batch([(PROMPT, GOOD, 0.0)], loss=loss)

    assert learner.update(empty) is None
    update = updated(learner, make_batch(*PAIR))

    assert not empty.folder.exists()
    assert update.version == "policy@1"
    other = updated(undisturbed, make_batch(*PAIR))
    assert files(update.adapter) == files(other.adapter), "neither momentum nor the number of steps has moved"


def test_the_learning_rate_rises_and_falls(learner_of: Make, make_batch: MakeBatch) -> None:
    """To 0.01 in two steps, in half a cosine to a tenth of that after six, and there it stays."""
    learner = learner_of(warmup=2, decay=6)

    rates = [updated(learner, make_batch(*PAIR)).metrics["learning_rate"] for _ in range(8)]

    fall = 0.0045 * math.sqrt(0.5)
    assert rates == pytest.approx([0.005, 0.01, 0.01, 0.0055 + fall, 0.0055, 0.0055 - fall, 0.001, 0.001])


def test_a_batch_in_minibatches_has_the_same_scale_and_ratios_to_before_its_first_step(
    learner_of: Make, make_batch: MakeBatch
) -> None:
    """Two tasks that are alike, in one step each: what one teaches alone is what both teach."""
    learner, pair = learner_of(minibatches=2, learning_rate=1e-4), ([(PROMPT, GOOD, 1.0)], [(PROMPT, BAD, -0.5)])

    alone = updated(learner, make_batch(*pair)).metrics
    both = updated(learner, make_batch(*(one for one in pair for _ in range(2)), tasks=2)).metrics

    assert [each["steps"] for each in (alone, both)] == [1, 2]
    assert [each["on_policy"] for each in (alone, both)] == [1.0, 0.0]
    assert both["gradient_norm"] == pytest.approx(alone["gradient_norm"], rel=0.2)
    assert alone["ratio_largest"] == 1 < both["ratio_largest"]
    assert both["loss"] == pytest.approx(alone["loss"], rel=0.1)


def test_minibatches_have_whole_tasks_or_where_these_are_few_whole_turns_of_them() -> None:
    def lessons(tasks: int) -> list[Lesson]:
        places = [(task, turn, f"{task}-{sample}") for task in range(tasks) for sample in (0, 1) for turn in (0, 1)]
        return [Lesson(TurnTokens((1,), (2,)), 1.0, (), *place) for place in places]

    whole, other = (split(lessons(8), 4, Seeds(seed)) for seed in (1, 2))
    few = split(lessons(2), 4, Seeds(1))

    assert sorted(repr(one) for part in whole for one in part) == sorted(map(repr, lessons(8)))
    assert [len(part) for part in whole] == [8] * 4
    assert len({(place, one.task) for place, part in enumerate(whole) for one in part}) == 8
    assert whole == split(lessons(8), 4, Seeds(1)) != other
    assert sorted(sorted({(one.task, one.turn) for one in part}) for part in few) == [
        [(0, 0)],
        [(0, 1)],
        [(1, 0)],
        [(1, 1)],
    ]
    assert split(lessons(2), 1, Seeds(1)) == [lessons(2)]


def test_weights_decay_and_a_gradient_is_clipped_after_it_was_measured(learner_of: Make, make_batch: MakeBatch) -> None:
    """The first step moves A by its decay alone, because B is 0. Adam adds 1e-8 to the size of a gradient."""
    plain, other = (
        updated(learner_of(learning_rate=0.1, **changes), make_batch(*PAIR))
        for changes in ({}, {"weight_decay": 0.5, "gradient_clip": 1e-12})
    )

    before, after = (load_file(each.adapter / "adapter_model.safetensors") for each in (plain, other))
    assert other.metrics["gradient_norm"] == plain.metrics["gradient_norm"]
    assert all(torch.allclose(after[name], 0.95 * before[name]) for name in before if "lora_A" in name)
    assert max(float(after[name].abs().max()) for name in after if "lora_B" in name) < 1e-4


def test_whoever_goes_back_to_an_earlier_version_goes_on_from_there(
    learner_of: Make, make_batch: MakeBatch, tmp_path: Path
) -> None:
    learner = learner_of(name="tea")
    made, states = [], [learner.state()]
    for _ in range(2):
        made.append(updated(learner, make_batch(*PAIR)))
        states.append(learner.state())

    for place in (1, 0):
        learner.restore(states[place])
        again = updated(learner, make_batch(*PAIR))

        assert again.version == made[place].version == f"tea@{place + 1}"
        assert files(again.adapter.parent) == files(made[place].adapter.parent)
    other = learner_of(adapter=str(made[0].adapter))
    updated(other, make_batch(*PAIR))
    other.start(tmp_path / "start")
    places = tmp_path / "start" / "adapter", made[0].adapter
    begun, given = (load_file(place / "adapter_model.safetensors") for place in places)
    assert all(torch.equal(begun[name], given[name]) for name in given), "also after an update"


def test_nothing_is_overwritten(learner_of: Make, make_batch: MakeBatch) -> None:
    learner = learner_of()
    batch = make_batch(*PAIR)
    learner.update(batch)
    before = files(batch.folder)

    with pytest.raises(UsageError, match="already exists and is not overwritten"):
        learner.update(batch)

    assert files(batch.folder) == before


# -- demonstrations ----------------------------------------------------------------------------------------------------


ACTION: dict[str, Any] = {
    "name": "serve",
    "description": "Serve a drink",
    "parameters": {"type": "object", "properties": {}},
}


def demonstration(**turn: Any) -> Episode:
    episode = Episode(Task(0, 7), actions={"": [ACTION]})
    episode.messages = [Message("system", "Serve tea."), Message("user", "a guest comes in")]
    episode.turns = [Turn(0, 0, 1, shown=(0, 1), **turn)]
    return episode


def batch_of(folder: Path, episode: Episode) -> Batch:
    return Batch([episode], [Advantage(episode.id, 0, 1.0)], Imitation(ImitationSettings()).loss(), folder)


@pytest.fixture
def learner(small_model: Path) -> SftLearner:
    return SftLearner(SftSettings(model=str(small_model), learning_rate=1e-2, epochs=8))


def test_a_demonstration_is_learned_as_the_policy_would_be_asked(
    learner: SftLearner, small_model: Path, tmp_path: Path
) -> None:
    from agentfw.request import Action

    episode = demonstration(text="I serve green tea.", temperature=0.0, constrained=True)  # however it was drawn
    chat = Chat(small_model)
    prompt, answer = chat.prompt(episode.messages, [Action(**ACTION)]), chat.answer("I serve green tea.")
    before = sum(learner.logprobs(prompt, answer))

    metrics = updated(learner, batch_of(tmp_path / "update", episode)).metrics

    assert metrics["tokens_trained"] == len(answer)
    assert metrics["steps"] == 8
    assert sum(learner.logprobs(prompt, answer)) > before + 5


def test_a_demonstration_is_prompted_with_the_actions_of_its_seat_and_exact_tokens_are_taken_as_they_are(
    learner: SftLearner,
) -> None:
    own, guest = demonstration(text="tea"), demonstration(text="tea", seat="guest")
    exact = demonstration(text="tea", prompt_ids=(1, 2), token_ids=(3, 4))

    found = [learner.tokens(each, each.turns[0]) for each in (own, guest, exact)]

    assert ["serve" in learner._chat.text(each.prompt) for each in found if each is not None] == [True, False, False]
    assert found[2] == ((1, 2), (3, 4))
    own.messages[1] = Message("user", "tea " * 2048)
    assert learner.tokens(own, own.turns[0]) is None, "more than the model reads"


def test_calls_without_a_text_are_written_as_models_write_them(learner: SftLearner) -> None:
    episode = demonstration(calls=(Call("serve", {"drink": "</tool_call>tea"}),))

    found = learner.tokens(episode, episode.turns[0])

    assert found is not None
    text = learner._chat.text(found.sampled)
    assert text == '<tool_call>{"name": "serve", "arguments": {"drink": "<\\/tool_call>tea"}}</tool_call>'
    both = [demonstration(text=said, calls=episode.turns[0].calls) for said in ("Here you are.", text)]
    told = [learner.tokens(each, each.turns[0]) for each in both]
    assert [learner._chat.text(each.sampled) for each in told if each is not None] == [f"Here you are.\n{text}", text]


@pytest.mark.parametrize("finish", ["length", "interrupted"])
def test_an_answer_that_was_cut_off_does_not_teach_to_end_there(learner: SftLearner, finish: str) -> None:
    whole, cut = demonstration(text="I serve green"), demonstration(text="I serve green", finish=finish)

    ended, open_ended = (learner.tokens(each, each.turns[0]) for each in (whole, cut))

    assert ended is not None
    assert open_ended is not None
    assert ended.sampled[-1] in learner._chat.end_ids
    assert open_ended.sampled == ended.sampled[:-1]


def test_a_model_is_made_from_a_plan_alone(make_model: Callable[..., Path], tmp_path: Path) -> None:
    folder = make_model(tmp_path / "plan", weights=False)
    learner = SftLearner(SftSettings(model=str(folder), weights="all", learning_rate=1e-2, epochs=3))

    update = updated(learner, batch_of(tmp_path / "update", demonstration(text="tea")))

    made = SftLearner(SftSettings(model=str(update.adapter)))
    assert made.logprobs((1, 2), (3,)) == pytest.approx(learner.logprobs((1, 2), (3,)), abs=1e-6)
