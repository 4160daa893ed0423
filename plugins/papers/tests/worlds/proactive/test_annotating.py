"""Annotation and rating by a policy: what it reads, retries, failures, and going on where it stopped.

And the commands around them: from a YAML file to validated data.
"""

from __future__ import annotations

import asyncio
import gc
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from chat_server import completion, serving
from click.testing import CliRunner

import agentfw
from agentfw import Generation, Policy, Request, Run
from agentfw.boundary.secrets import strike
from agentfw.errors import AgentfwError, EndpointError, UsageError
from agentfw.runs import RunFolder, parse_spec
from agentfw.testing import fresh_host
from agentfw_papers.timing import annotation_row, turn_row
from agentfw_papers.worlds.proactive.annotating import Annotations, Annotator, Unit
from agentfw_papers.worlds.proactive.asking import Asker
from agentfw_papers.worlds.proactive.command import proactive
from agentfw_papers.worlds.proactive.dataset import Example, generated
from agentfw_papers.worlds.proactive.domains import domain_file, load_domain
from agentfw_papers.worlds.proactive.environment import read_turn
from agentfw_papers.worlds.proactive.policy_options import chosen_policy
from agentfw_papers.worlds.proactive.proactiveness import Predictions, Rater, Ratings, read_predictions

DOMAIN = load_domain("home_loan")


class Hindsight(Policy):
    """Answers with the references that it was given."""

    def __init__(self, examples: tuple[Example, ...]) -> None:
        self.references = {one.id: one.annotation for one in examples}
        self.asked = list[tuple[str, tuple[int, ...]]]()

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        about = request.moment.observations[0].data
        self.asked.append((about["dialogue"], about["turns"]))
        await asyncio.sleep(0)
        return Generation(self.answer(about["dialogue"], about["turns"], about["attempt"], request), count=7)

    def answer(self, dialogue: str, turns: tuple[int, ...], attempt: int, request: Request) -> str:
        rows = [turn_row(self.references[dialogue].at(turn)) for turn in turns]
        return json.dumps(rows[0] if len(rows) == 1 else {"turns": rows})


def run(policy: Policy, examples: tuple[Example, ...], folder: Path, domain: Any = DOMAIN, **how: Any) -> Annotations:
    annotator = Annotator(domain, Asker(policy, name="test", jobs=4), **{"unit": "turn", "observed": False, **how})
    return asyncio.run(annotator.annotate([one.dialogue for one in examples], folder))


@pytest.mark.parametrize("unit", ["turn", "dialogue"])
def test_answers_become_annotations_in_the_order_of_the_dialogues(tmp_path: Path, unit: Unit) -> None:
    examples = generated(DOMAIN, "train", 1, 5)
    policy = Hindsight(examples)

    found = run(policy, examples, tmp_path, unit=unit)

    assert [annotation_row(one) for one in found.complete] == [annotation_row(one.annotation) for one in examples]
    spoken = sum(len(one.dialogue.turns) for one in examples)
    assert len(policy.asked) == found.answers == (spoken if unit == "turn" else 5)
    assert (found.failed, found.tokens) == ({}, 7 * found.answers)


def test_the_annotator_reads_the_whole_dialogue_but_not_what_was_triggered(tmp_path: Path) -> None:
    seen = []

    class Reader(Hindsight):
        def answer(self, dialogue: str, turns: tuple[int, ...], attempt: int, request: Request) -> str:
            seen.append(request.messages[-1].content)
            return "[]"

    domain = load_domain("abcd")
    [example] = generated(domain, "train", 1, 1)
    entry = next(turn.text for turn in example.dialogue.turns if turn.speaker == "action")

    run(Reader((example,)), (example,), tmp_path / "hidden", domain=domain)
    run(Reader((example,)), (example,), tmp_path / "shown", domain=domain, observed=True)

    spoken = [turn.text for turn in example.dialogue.turns if turn.speaker != "action"]
    assert all(text in seen[0] for text in spoken)
    assert entry not in seen[0]
    assert entry in seen[-1]
    assert len(seen) == 2 * len(spoken)


def test_answers_that_cannot_be_used_are_asked_for_again_and_failures_are_counted(tmp_path: Path) -> None:
    damaged = Counter[str]()

    class Damaged(Hindsight):
        """Damages three answers of ten, and never mends those about one dialogue's second turn."""

        def answer(self, dialogue: str, turns: tuple[int, ...], attempt: int, request: Request) -> str:
            right = super().answer(dialogue, turns, attempt, request)
            draw = random.Random(f"{dialogue} {turns} {attempt}")
            if dialogue == hopeless and turns == (2,):
                damaged["hopeless"] += 1
                return '{"opportunities": [{"name": "dance", "status": "pending"}]}'
            if attempt == 0 and draw.random() < 0.3:
                damaged["once"] += 1
                return draw.choice(["", "no idea", "{", '[{"name": "dance"}]', '{"answer": 3}'])
            if attempt:
                assert "can't be used" in request.messages[-1].content
            return right

    examples = generated(DOMAIN, "train", 1, 12)
    hopeless = examples[3].id

    found = run(Damaged(examples), examples, tmp_path)

    assert damaged["hopeless"] == 4
    assert list(found.failed) == [hopeless]
    assert 'there is no action "dance"' in found.failed[hopeless]
    assert found.retried == damaged["once"] + 1 > found.answers / 5
    expected = [annotation_row(one.annotation) for one in examples if one.id != hopeless]
    assert [annotation_row(one) for one in found.complete] == expected


def test_an_answer_that_was_cut_off_is_asked_for_again(tmp_path: Path) -> None:
    class Long(Hindsight):
        async def generate(self, request: Request) -> Generation:
            generation = await super().generate(request)
            assert request.moment is not None
            if request.moment.observations[0].data["attempt"] == 0:
                generation.finish = "length"  # what is left of it could be read, but may lack actions
            return generation

    examples = generated(DOMAIN, "train", 1, 1)
    found = run(Long(examples), examples, tmp_path)

    assert found.retried == found.answers
    assert [annotation_row(one) for one in found.complete] == [annotation_row(one.annotation) for one in examples]


def test_a_server_that_is_gone_stops_the_work_and_keeps_what_there_is(tmp_path: Path) -> None:
    class Gone(Hindsight):
        def answer(self, dialogue: str, turns: tuple[int, ...], attempt: int, request: Request) -> str:
            if len(self.asked) > 30:
                raise EndpointError("nobody answers")
            return super().answer(dialogue, turns, attempt, request)

    examples = generated(DOMAIN, "train", 1, 3)

    with pytest.raises(EndpointError, match="nobody answers"):
        run(Gone(examples), examples, tmp_path)
    policy = Hindsight(examples)
    found = run(policy, examples, tmp_path)

    assert found.from_before >= 26
    assert len(policy.asked) == found.answers - found.from_before


# -- `agentfw proactive rate`: what the judge reads, and what becomes of its ratings -----------------------------------

HOST = fresh_host("agentfw_papers.plugin:plugin", builtins=True, strict=False)


class Judge(Policy):
    """Answers what a function makes of the dialogue and the predictions in the question."""

    def __init__(self, answer: Callable[[dict[str, Any]], str]) -> None:
        self.answer, self.read = answer, list[dict[str, Any]]()

    async def generate(self, request: Request) -> Generation:
        material = json.loads(request.messages[1].content)
        self.read.append(material)
        return Generation(self.answer(material), count=1)


def rating(value: object) -> str:
    return json.dumps({"why": "it was foreseeable", "rating": value})


def by_length(material: dict[str, Any]) -> str:
    """The later the turn, the lower the rating; the first two turns can't be judged."""
    turns = len(material["dialogue"])
    return rating(-1 if turns < 3 else 5 if turns < 8 else 2)


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    talks = {"name": "proactive", "settings": {"unit": "dialogue", "dialogues": 20}}
    spec = {"environment": talks, "policy": "scripted", "episodes": 3}
    made = Run.create(parse_spec(spec), HOST, tmp_path_factory.mktemp("runs"))
    asyncio.run(made.execute())
    return RunFolder.open(made.folder.path)


@pytest.fixture(scope="module")
def predicted(played: RunFolder) -> Predictions:
    return read_predictions(played, HOST)


def rate(predicted: Predictions, judge: Policy, folder: Path, *, most: int | None = None) -> Ratings:
    rater = Rater(predicted, Asker(judge, name="test"), most=most)
    return asyncio.run(rater.rate(folder / "ratings.jsonl"))


def test_the_rating_is_the_mean_of_dialogues_over_turns_that_are_judged(predicted: Predictions, tmp_path: Path) -> None:
    found = rate(predicted, Judge(by_length), tmp_path)

    means, turns = [], 0
    for [episode] in predicted.episodes.values():
        values = [5 if turn.round < 8 else 2 for turn in episode.turns if turn.round >= 3]
        means.append(sum(values) / len(values))
        turns += len(episode.turns)
    assert found.mean is not None
    assert found.mean.estimate == pytest.approx(sum(means) / len(means))
    assert found.mean.count == 3
    assert found.answers == sum(found.counts.values()) == turns
    assert found.counts[-1] >= 3


def test_the_judge_reads_the_dialogue_so_far_and_what_was_foreseen(predicted: Predictions, tmp_path: Path) -> None:
    judge = Judge(by_length)

    rate(predicted, judge, tmp_path, most=1)

    name = next(iter(predicted.episodes))
    spoken = predicted.examples[name].dialogue.turns
    asked = {len(material["dialogue"]): material for material in judge.read}
    for turn in predicted.turns(name):
        shown = asked[turn.round]
        said = read_turn(turn, predicted.environment.catalog).opportunities
        assert [one["text"] for one in shown["dialogue"]] == [one.text for one in spoken[: turn.round]]
        assert [one["name"] for one in shown["predictions"]] == [one.name for one in said]
        assert shown.keys() == {"dialogue", "predictions"}
    assert len(asked) == len(predicted.turns(name))


def test_secrets_of_a_policy_are_struck_for_as_long_as_it_is_asked() -> None:
    given = ("policy.model=m", "policy.base_url=http://127.0.0.1:1/v1", "policy.extra_body.api_key=hush-hush-123")

    chosen = chosen_policy("openai", given)
    gc.collect()

    assert "hush-hush" not in strike(chosen.name), "it is written into files"


def test_the_command_asks_a_model_server_once(played: RunFolder) -> None:
    with serving(completion(rating(4))) as (address, judge):
        command = ["rate", str(played.path), "--policy", "openai", "--most", "2", "--json"]
        command += ["--set", f"policy.base_url={address}", "--set", "policy.model=judge"]

        first, second = (CliRunner().invoke(proactive, command, catch_exceptions=False) for _ in range(2))

    found, again = json.loads(first.stdout), json.loads(second.stdout)
    assert found["pr"] == {"mean": 4, "low": 4, "high": 4}
    assert found["dialogues"] == 2
    assert found["counts"]["4"] == found["answers"] == len(judge.bodies)
    assert again == {**found, "from_before": found["answers"]}
    assert {body["temperature"] for body in judge.bodies} == {0.1}
    assert (played.path / "ratings.jsonl").exists()


# -- `agentfw proactive`: from a YAML file to validated data, and what goes wrong on the way ---------------------------

SAMPLE = domain_file("abcd").parent / "abcd_sample.json"


def call(*arguments: object) -> Any:
    words = [*map(str, arguments), "--json"]
    return json.loads(CliRunner().invoke(proactive, words, catch_exceptions=False, standalone_mode=False).stdout)


def test_a_third_domain_needs_no_python(bakery: Path, tmp_path: Path) -> None:
    made = call("make", "--domain", bakery, "--dialogues", 40, "--out", tmp_path / "made")
    annotated = call("annotate", tmp_path / "made", "--domain", bakery, "--rule", "--out", tmp_path / "annotated")
    report = call("validate", tmp_path / "annotated", "--keep", 0.8, "--out", tmp_path / "kept")
    kept = json.loads((tmp_path / "kept" / "MANIFEST.json").read_text())

    assert made["dialogues"] == annotated["dialogues"] == {"train": 32, "validation": 4, "test": 4}
    assert made["catalog"] == annotated["catalog"] == kept["catalog"]
    assert report["margins"][0]["share"] == 1
    assert sum(kept["dialogues"].values()) == report["kept"] == 40
    assert kept["kept_above"] == 0.8

    settings = {"environment.domain": str(bakery), "environment.data": str(tmp_path / "kept")}
    played = agentfw.run("proactive", episodes=4, settings=settings, runs=tmp_path / "runs")

    # The run repeats the references of the turn before, so it agrees but for what has just changed.
    means = {name: figure.estimate for name, figure in played.figures.items()}
    assert (means["format"], means["ftr"], means["unknown_names"]) == (1, 0, 0)
    assert 0.5 < means["ac"] < 1


def test_a_policy_that_is_installed_annotates(bakery: Path, tmp_path: Path) -> None:
    call("make", "--domain", bakery, "--dialogues", 3, "--out", tmp_path / "made")
    nobody = ("model=m", "base_url=http://127.0.0.1:9/v1", "retries=0")
    chosen = ["--policy", "openai", *(word for one in nobody for word in ("--set", f"policy.{one}"))]

    # Nobody listens there: the command stops, and what was answered so far stays on disk.
    with pytest.raises(AgentfwError):
        call("annotate", tmp_path / "made", "--domain", bakery, *chosen, "--out", tmp_path / "annotated")
    assert (tmp_path / "annotated" / "answers.jsonl").exists()
    assert not (tmp_path / "annotated" / "MANIFEST.json").exists()


def test_the_public_sample_is_imported_annotated_and_validated_unless_too_much_is_left_out(tmp_path: Path) -> None:
    call("import", "abcd", SAMPLE, "--out", tmp_path / "whole")
    call("annotate", tmp_path / "whole", "--rule", "--from", 1, "--most", 1, "--out", tmp_path / "one")
    call("annotate", tmp_path / "whole", "--rule", "--out", tmp_path / "all")

    one, all = (call("validate", tmp_path / name)["margins"] for name in ("one", "all"))
    assert [row["triggers"] for row in one] == [2] * 5
    assert [row["passed"] for row in all] == [9, 9, 7, 4, 4]
    for command, *words in (("annotate", "--rule"), ("validate",)):
        with pytest.raises(UsageError, match="all is the data itself"):
            call(command, tmp_path / "all", *words, "--out", tmp_path / "all")

    rows = json.loads(SAMPLE.read_text("utf-8"))
    rows[0]["original"].pop()
    (tmp_path / "data.json").write_text(json.dumps(rows))

    with pytest.raises(AgentfwError, match="33% of the conversations are left out") as caught:
        call("import", "abcd", tmp_path / "data.json", "--out", tmp_path / "data")
    lenient = call("import", "abcd", tmp_path / "data.json", "--lenient", "--out", tmp_path / "lenient")

    assert caught.value.exit_code == 1
    assert lenient["left_out"] == {"original and delexed differ in length": ["3592"]}
    kept, again = ((tmp_path / name / "dialogues.jsonl.gz").read_bytes() for name in ("data", "lenient"))
    assert kept == again


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("make", "--domain", "abdc", "--out", "OUT"), 'no domain is called "abdc"'),
        (("make", "--domain", "abcd", "--set", 'flows=["refunds"]', "--out", "OUT"), 'no flow or workflow "refunds"'),
        (("import", "abdc", "FILE", "--out", "OUT"), 'no data format is called "abdc"'),
        (("import", "abcd", "FILE", "--out", "OUT"), "can't be read"),
        (("annotate", "OUT", "--rule", "--out", "OUT"), "is not a folder of dialogues"),
        (("annotate", "OUT", "--rule", "--policy", "openai", "--out", "OUT"), "pass either --policy or --rule"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    places = {"OUT": tmp_path / "out", "FILE": tmp_path / "file.json"}

    with pytest.raises(UsageError) as caught:
        call(*(places.get(one, one) for one in arguments))

    assert message in caught.value.message
    assert caught.value.fix
    assert not (tmp_path / "out" / "MANIFEST.json").exists()
