"""A teacher that says how likely each token is: who can be one, and that the student becomes more like it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import Agentfw

pytest.importorskip("peft")


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    file = tmp_path / "sums.jsonl"
    asked = [
        {"prompt": f"What is {one} + {other}?", "answer": str(one + other)} for one in range(8) for other in range(8)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in asked), "utf-8")
    return file


@pytest.mark.parametrize(
    ("teacher", "problem", "fix"),
    [
        ((), "learns from what a teacher thinks of each token", "--teacher transformers"),
        (("--teacher", "scripted"), 'the teacher "scripted" can\'t tell how likely given tokens are', "vllm"),
        (("--teacher", "openai", "--set", "teacher.base_url=http://127.0.0.1:1/v1"), "can't tell how likely", "vllm"),
    ],
)
def test_a_teacher_that_gives_no_logprobs_is_refused_before_a_model_is_loaded(
    agentfw: Agentfw, sums: Path, small_model: Path, tmp_path: Path, teacher: tuple[str, ...], problem: str, fix: str
) -> None:
    from safetensors.numpy import save_file

    model = shutil.copytree(small_model, tmp_path / "empty")
    save_file({}, model / "model.safetensors")  # which is noticed when it is loaded

    answer = agentfw("train", str(sums), "--model", str(model), "--optimizer", "distillation", *teacher)

    assert answer.code == 2
    assert problem in answer.err
    assert fix in answer.err


def test_a_teacher_plays_nothing_for_an_optimizer_that_learns_from_samples(
    agentfw: Agentfw, sums: Path, small_model: Path
) -> None:
    answer = agentfw("train", str(sums), "--model", str(small_model), "--optimizer", "sapo", "--teacher", "scripted")

    assert answer.code == 2
    assert "learns from samples of the policy itself" in answer.err


@pytest.mark.slow
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
        "tasks": 16,
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
    # Of 64 answers each: by chance, the last three of nine updates are the lowest once in 84 times.
    assert max(apart[-3:]) < min(apart[:3])
    assert sum(apart[-3:]) < 0.6 * sum(apart[:3])
