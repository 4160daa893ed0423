"""The program as judge, the marks and rewards that follow from what was foreseen, and the paper's training by them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agentfw import Episode, Message, Request, RewardModel, Run, Task
from agentfw.episode import Measure
from agentfw.runs import parse_spec, resolve
from agentfw.runs.spec.start import start_of_training
from agentfw.runs.spec.weights import Progress, parse_schedule
from agentfw.testing import fresh_host
from agentfw_papers.worlds.proactive.conversations import asked_turns
from agentfw_papers.worlds.proactive.dataset import generated
from agentfw_papers.worlds.proactive.domains import load_domain
from agentfw_papers.worlds.proactive.judge import Listener, TimingJudge, TimingJudgeSettings
from agentfw_papers.worlds.proactive.prompting import dialogue_lines
from agentfw_rewardmodels.rubric import make_question

WISH = "1 customer: Hello, I want a cake for a birthday"
CAKE = "2 professional: Which cake?\n3 customer: With apple please"
DAY = "4 professional: When?\n5 customer: On Sunday"
LOOKED = "look-up-customer ready_to_trigger"


def marks(
    folder: Path, dialogue: str, answers: Sequence[str], workflows: tuple[str, ...] = (), **options: Any
) -> list[float]:
    """The marks of answers to one dialogue, through the question that a rubric asks."""
    prompt = [{"role": "system", "content": "Foresee."}, {"role": "user", "content": f"[3]\n{dialogue}"}]
    question = make_question([[*prompt, {"role": "assistant", "content": answer}] for answer in answers], **options)
    judge = TimingJudge(TimingJudgeSettings(domain=str(folder), workflows=workflows))
    request = Request([Message(one["role"], one["content"]) for one in question.messages])

    generation = asyncio.run(judge.generate(request))

    found = {row["id"]: row["score"] for row in json.loads(generation.text)["scores"]}
    return [found[place] for place in question.places]


def test_ready_in_time_stands_above_waiting_and_above_what_is_not_needed_not_known_or_done(bakery: Path) -> None:
    ready = f"{LOOKED}\norder-cake ready_to_trigger cake=apple day=Sunday"
    waiting = "look-up-customer pending\norder-cake pending"

    talk = "\n".join([WISH, CAKE.replace("apple ", "apple\u2028"), DAY])  # which JSON leaves in a line
    told = marks(bakery, talk, [ready, waiting, "cancel-order ready_to_trigger"])
    patient, hasty = marks(bakery, f"{WISH}\n{CAKE}", [LOOKED, f"{LOOKED}\norder-cake ready_to_trigger"])
    reported = marks(bakery, f"{WISH}\n2 action: The customer was looked up", ["nothing", LOOKED])

    assert told == [1.0, 0.0, 0.0]
    assert patient == 1
    # A hit that was possible two turns ago counts a third, against one false alarm: an input is missing.
    assert hasty == pytest.approx(0.5 + 0.5 * (1 / 3 - 1) / (1 / 3 + 1), abs=1e-6)
    assert reported == [0.5, 0.0]


def test_a_judge_of_some_workflows_marks_them_as_before_and_has_no_opinion_on_others(bakery: Path) -> None:
    answers = [LOOKED, "look-up-customer pending"]

    known = marks(bakery, WISH, answers, workflows=("birthday",))
    other = marks(bakery, WISH, answers, workflows=("cancelling",))

    assert known == marks(bakery, WISH, answers)
    assert known[0] > known[1]
    assert other == [0.5, 0.5]


def test_a_catalog_longer_than_the_judge_reads_does_not_hide_the_end_of_the_dialogue(bakery: Path) -> None:
    talk = [f"{number} customer: well, {'hm ' * 20}" for number in range(2, 80)]
    long = "\n".join([WISH, *talk, "80 customer: apple"])
    listened = Listener(load_domain(str(bakery)))

    cut = marks(bakery, f"{'catalog ' * 4000}\n{long}", ["nothing", "cancel-order ready_to_trigger"], longest=8000)

    assert listened.listen(long).turn == 80
    assert cut[0] >= cut[1]


@pytest.mark.parametrize("name", ["abcd", "home_loan"])
def test_the_judge_and_the_references_are_of_different_opinions(name: str) -> None:
    """A judge that restated the references would make training by it circular, and one that missed them pointless."""
    domain = load_domain(name)
    listener = Listener(domain)
    alike = total = found = expected = 0
    for example in generated(domain, "test", 7, 15):
        for turn in asked_turns(example.dialogue, "spoken"):
            possible = listener.listen(dialogue_lines(example.dialogue, 1, turn)).possible.keys()
            ready = {one.name for one in example.annotation.at(turn).opportunities if one.ready}
            alike, total = alike + (possible == ready), total + 1
            found, expected = found + len(possible & ready), expected + len(ready)

    assert 0.75 < alike / total < 0.95
    assert found / expected > 0.75


# -- the rewards of the proactive world, and the training of the paper with them ---------------------------------------

HOST = fresh_host("agentfw_papers.plugin:plugin", builtins=True, strict=False)
COMPONENTS = {"ac": "rac", "max_ac": "max_rac", "pt": "ptr", "ftr": "ftr_cost", "format": "format"}


@pytest.mark.parametrize(("name", "measure"), COMPONENTS.items())
def test_each_turn_earns_what_was_measured_at_it(name: str, measure: str) -> None:
    measures = [Measure(measure, value, 0, turn) for turn, value in ((1, 0.5), (2, 1.0))]
    model = HOST.create("reward", f"proactive_{name}", {})
    assert isinstance(model, RewardModel)

    scores = asyncio.run(model.score([Episode(Task(0, 7), outcome={"turns": 2.0}, measures=measures)]))

    assert {one.round: one.value for one in scores if one.component == f"proactive_{name}"} == {1: 0.5, 2: 1.0}


def run_of(folder: Path, **more: Any) -> list[dict[str, Any]]:
    """The records of the episodes of a run in the proactive world."""
    run = Run.create(parse_spec({"policy": "scripted", **more}), HOST, folder)
    asyncio.run(run.execute())
    return list(run.folder.metrics())


def test_a_turn_that_was_not_measured_has_no_score_and_is_counted(tmp_path: Path) -> None:
    talk = {"name": "proactive", "settings": {"unit": "dialogue", "dialogues": 5}}

    records = run_of(tmp_path, environment=talk, rewards=["proactive_pt"], episodes=2, horizon=4.5)

    # The fifth turn was still open when the time was over.
    assert [len(record["scores"]) for record in records] == [4, 4]
    assert [record["outcome"]["proactive_pt_unmeasured"] for record in records] == [1, 1]


def test_a_run_mixes_agreement_with_the_judge_for_each_sample_of_a_turn(tmp_path: Path) -> None:
    judge = {"name": "rubric", "weight": 0.5, "settings": {"policy": "timing_judge"}}
    rewards = [{"name": "proactive_ac", "weight": 0.5}, judge]
    world = {"name": "proactive", "settings": {"dialogues": 5, "answers": "lines"}}
    policy = {"name": "scripted", "settings": {"replies": ["search-faq ready_to_trigger", "nothing"]}}

    records = run_of(tmp_path, environment=world, policy=policy, rewards=rewards, episodes=4, samples=2)

    for record in records:
        found = {row[0]: row[2] for row in record["scores"]}
        assert found.keys() == {"proactive_ac", "rubric"}
        assert record["reward"] == pytest.approx(0.5 * found["proactive_ac"] + 0.5 * found["rubric"])


# -- the paper's training is a spec whose settings are the paper's -----------------------------------------------------


def resolved(name: str) -> Any:
    return resolve(parse_spec(start_of_training(HOST, name, None)), HOST)


def test_the_training_of_a_large_model_has_the_settings_of_the_paper() -> None:
    spec = resolved("proactive-llm")

    world, pool, learner = (choice.checked for choice in (spec.environment, spec.policy, spec.learner))
    server: Any = HOST.check_settings("policy", pool.policy.name, pool.policy.settings)
    optimizer = spec.optimizer.checked
    assert (world.unit, world.style, world.catalog) == ("turn", "reasoning", "full")
    assert (spec.samples, spec.evaluation.samples, spec.sampling.temperature) == (4, 2, 1.0)
    assert (learner.precision, learner.rank, learner.alpha) == ("nf4", 8, 16)
    assert learner.tokens == 4 * server.context
    # Steps of four samples: with a single step every ratio is 1, and its cap does nothing.
    assert spec.tasks * spec.samples / learner.minibatches == 4
    assert (learner.model, learner.precision) == (server.model, server.precision), "what is trained is what is served"
    assert (spec.optimizer.name, optimizer.ratio_cap, optimizer.kl) == ("turnwise", 10, 0)


def test_its_reward_passes_from_agreement_to_a_judge_with_two_rules_of_its_own() -> None:
    rewards = {one.name: one for one in resolved("proactive-llm").rewards}

    def weights(update: int) -> list[float]:
        at = Progress(update=update, updates=320)
        return [parse_schedule(rewards[name].weight)(at) for name in ("proactive_max_ac", "rubric")]

    judge = rewards["rubric"].checked
    assert weights(0) == [1, 0]
    assert [round(one, 3) for one in weights(319)] == [0.701, 0.299]
    assert judge.policy.name == "openai"
    assert len(judge.rules) == 2
