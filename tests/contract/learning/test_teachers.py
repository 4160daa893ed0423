"""A signal for each token: from the model itself, shown what people say of an answer, or from another as teacher."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from command_line import Agentfw

from agentfw import Episode, Learner, Task, Turn
from agentfw.episode import Event, Message
from agentfw.errors import UsageError
from agentfw.learner import Batch
from agentfw.optimizer import Optimizer, Scored

from .conftest import chosen

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

SHORTER, WANTED = "\n\nFeedback on an earlier answer: {}", "\n\nA better answer to this: {}"
ASKED = ("Which tea is good for a cold?", "And for a long evening?")
ANSWERS = ("Ginger tea, with honey and a slice of lemon.", "A black one.")
BOUND = 0.03


def answered(number: int, comment: str = "", correction: str = "") -> Episode:
    """A conversation about tea, and what was said of the answer."""
    episode = Episode(Task(number, 7), messages=[Message("system", "Be kind."), Message("user", ASKED[number])])
    episode.turns = [Turn(0, 0, 1, shown=(0, 1), text=ANSWERS[number])]
    said = {"value": -1.0, "turn": 0, "correction": correction, "text": comment or correction}
    episode.events = [Event(1, "observation", "feedback", said)]
    return episode


def batch_of(hint: Optimizer, episodes: Sequence[Episode], folder: Path) -> Batch:
    advantages = hint.advantages([[Scored(episode, (), -1.0)] for episode in episodes])
    return Batch(episodes, advantages, hint.loss(), folder)


@pytest.mark.parametrize("teacher", ["frozen", "moving"])
def test_a_step_follows_the_model_that_is_shown_the_hint(
    learner_of: Callable[..., Learner],
    small_model: Path,
    make_adapter: Callable[..., Path],
    tmp_path: Path,
    teacher: str,
) -> None:
    """Two updates of two steps, against the same in plain torch, without anything of the learner's."""
    from peft import PeftModel, get_peft_model_state_dict
    from safetensors.torch import load_file
    from transformers import AutoModelForCausalLM

    from agentfw_plugins.models import Chat

    adapter = make_adapter(small_model, tmp_path / "adapter")
    hint = chosen("hint", {"teacher": teacher, "bound": BOUND})
    episodes = [answered(0, comment="Viel kürzer!"), answered(1, correction="Rooibos, for it keeps nobody awake.")]
    learner = learner_of("sft", adapter=str(adapter), rank=4, alpha=8.0, learning_rate=1e-2, epochs=2)
    updates = [learner.update(batch_of(hint, episodes, tmp_path / name)) for name in ("first", "second")]

    model = PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(small_model, local_files_only=True, dtype=torch.float32),
        adapter,
        is_trainable=True,
    ).eval()
    start = get_peft_model_state_dict(model)
    start = {name: value.detach().clone() for name, value in start.items()}
    chat = Chat(small_model)
    hints = (SHORTER.format("Viel kürzer!"), WANTED.format("Rooibos, for it keeps nobody awake."))
    rows = []
    for asked, answer, said in zip(ASKED, ANSWERS, hints, strict=True):
        shown = [Message("system", "Be kind."), Message("user", asked)]
        told = [shown[0], Message("user", asked + said)]
        rows.append((chat.prompt(shown), chat.prompt(told), chat.answer(answer)))

    def logprobs(prompt: Sequence[int], tokens: Sequence[int]) -> Any:
        logits = model(torch.tensor([[*prompt, *tokens]])).logits[0, len(prompt) - 1 : -1]
        return torch.log_softmax(logits, -1).gather(-1, torch.tensor(tokens)[:, None])[:, 0]

    def taught() -> list[Any]:
        with torch.no_grad():
            return [logprobs(told, tokens) for _, told, tokens in rows]

    parameters = [one for one in model.parameters() if one.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-2, weight_decay=0.0)
    frozen, bounded = taught(), 0
    for update in updates:
        teachers, losses = (frozen if teacher == "frozen" else taught()), []
        for _ in range(2):
            optimizer.zero_grad()
            value = surrogate = torch.zeros(())
            for (prompt, _, tokens), known in zip(rows, teachers, strict=True):
                now = logprobs(prompt, tokens)
                signal = (known - now.detach()).clip(-BOUND, BOUND)
                bounded += int((signal.abs() == BOUND).sum())
                value = value - signal.mean() / 2
                surrogate = surrogate - (signal * now).mean() / 2
            surrogate.backward()
            torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            losses.append(float(value))
        assert update is not None
        assert update.metrics["loss"] == pytest.approx(sum(losses) / 2, abs=1e-6)
    assert bounded, "the case is one in which the bound takes part"
    learned = load_file(updates[-1].adapter / "adapter_model.safetensors")  # type: ignore[union-attr]
    expected = {name: value.detach() for name, value in get_peft_model_state_dict(model).items()}
    apart = sum(float((learned[name] - expected[name]).square().sum()) for name in expected)
    moved = sum(float((start[name] - expected[name]).square().sum()) for name in expected)
    assert apart < 1e-3 * moved


def test_a_hint_longer_than_the_model_reads_is_counted(learner_of: Callable[..., Learner], tmp_path: Path) -> None:
    hint, episodes = chosen("hint"), [answered(0, comment="shorter " * 1300), answered(1, comment="shorter")]

    update = learner_of("sft").update(batch_of(hint, episodes, tmp_path / "update"))

    assert update is not None
    assert update.metrics["turns_without_tokens"] == 1


def test_a_learner_without_a_chat_template_names_another(learner_of: Callable[..., Learner], tmp_path: Path) -> None:
    episode = answered(0, comment="shorter")
    episode.turns[0] = replace(episode.turns[0], prompt_ids=(1, 2, 3), token_ids=(4, 5))

    with pytest.raises(UsageError, match="no chat template") as caught:
        learner_of().update(batch_of(chosen("hint"), [episode], tmp_path / "update"))
    assert caught.value.fix == "--learner sft"


# -- distillation ------------------------------------------------------------------------------------------------------


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    file = tmp_path / "sums.jsonl"
    asked = [
        {"prompt": f"What is {one} + {other}?", "answer": str(one + other)} for one in range(8) for other in range(8)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in asked), "utf-8")
    return file


@pytest.mark.parametrize(
    ("words", "problem", "fix"),
    [
        (("distillation",), "learns from what a teacher thinks of each token", "--teacher transformers"),
        (("distillation", "--teacher", "scripted"), 'teacher "scripted" can\'t tell how likely given tokens', "vllm"),
        (("sapo", "--teacher", "scripted"), "learns from samples of the policy itself", ""),
    ],
)
def test_a_teacher_that_is_of_no_use_is_refused_before_a_model_is_loaded(
    agentfw: Agentfw, sums: Path, small_model: Path, tmp_path: Path, words: tuple[str, ...], problem: str, fix: str
) -> None:
    from safetensors.numpy import save_file

    model = shutil.copytree(small_model, tmp_path / "empty")
    save_file({}, model / "model.safetensors")  # which is noticed when it is loaded

    answer = agentfw("train", str(sums), "--model", str(model), "--optimizer", *words)

    assert answer.code == 2
    assert problem in answer.err
    assert fix in answer.err


def test_a_student_becomes_more_like_its_teacher(
    agentfw: Agentfw, sums: Path, make_adapter: Callable[..., Path], tmp_path: Path
) -> None:
    """The model that ships, spoiled by a drawn adapter, has itself as it was for its teacher."""
    from agentfw_plugins.models import locate

    spoiled = make_adapter(locate("tiny-sums"), tmp_path / "adapter", scale=0.06)
    settings = {
        "teacher.model": "tiny-sums",
        "learner.adapter": spoiled,
        "learner.rank": 4,
        "learner.alpha": 8,
        "learner.learning_rate": 1e-3,
        "tasks": 8,
        "samples": 4,
        "sampling.max_tokens": 8,
        "evaluation.every": 9,
        "evaluation.tasks": 2,
    }
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    answer = agentfw(
        *("train", str(sums), "--model", "tiny-sums", "--optimizer", "distillation", "--teacher", "transformers"),
        *("--updates", "9", "--json", *words),
    )

    assert answer.code == 0, answer.err
    lines = (Path(json.loads(answer.out)["folder"]) / "updates.jsonl").read_text("utf-8").splitlines()
    apart = [json.loads(line)["learner"]["reverse_kl"] for line in lines]
    # Of 32 answers each: by chance, the last three of nine updates are the lowest once in 84 times.
    assert max(apart[-3:]) < min(apart[:3])
    assert sum(apart[-3:]) < 0.6 * sum(apart[:3])
