"""Whole trainings of a chat model on sums of GSM8K, by agentfw and by TRL: what an update costs, and what is learned.

Both have the same sums, prompts, rate, rank and temperature, and the same number of samples. `trl_side_by_side.py` runs
each training in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from .repetitions import worked
from .runs import once

MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
SAMPLES = 8
"""Of each task."""
QUIET: dict[str, Any] = {"max_grad_norm": 1.0, "save_strategy": "no", "report_to": [], "disable_tqdm": True}
"""Of TRL: as agentfw clips, and nothing that is saved or told."""
HELD_OUT, TASKS_OF_A_BATCH = 200, 8
SHORT = 16
"""Tokens of an answer up to which it is asked for the number only."""
PIECES = 4
"""TRL computes a batch of longer answers in so many pieces: whole, 64 of 128 tokens need more than 24 GB."""


def sums_of(options: argparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Distinct sums from the solutions, as held out and to be trained on."""
    seen: dict[str, str] = {}
    for line in Path(options.whole).read_text("utf-8").splitlines():
        for left, right in re.findall(r"<<(\d+[-+*/]\d+)=(\d+)>>", json.loads(line)["answer"])[:1]:
            seen.setdefault(left, right)
    pairs = [*seen.items()]
    random.Random(5).shuffle(pairs)
    asked = "Answer with the number only." if options.answer <= SHORT else "Explain each step."
    rows = [
        {"prompt": [{"role": "user", "content": f"What is {left}? {asked}"}], "answer": right} for left, right in pairs
    ]
    return rows[:HELD_OUT], rows[HELD_OUT:]


def correct(completions: Sequence[Any], answer: Sequence[str], **columns: object) -> list[float]:
    texts = [said if isinstance(said, str) else said[-1]["content"] for said in completions]
    return [float(re.findall(r"\d+", text)[-1:] == [gold]) for text, gold in zip(texts, answer, strict=True)]


def train_whole(options: argparse.Namespace) -> dict[str, Any]:
    """The processor's time after each update, and which held-out sums are right."""
    import torch

    torch.set_num_threads(options.threads)
    held_out, rows = sums_of(options)
    with tempfile.TemporaryDirectory() as folder:
        marks, adapter = (whole_trl if options.side == "trl" else whole_agentfw)(options, rows, Path(folder))
        found = {"updates": [after - before for before, after in pairwise(marks)][1:]}
        if not options.adapter:
            return found
        before = once(Path(options.adapter), lambda: answers(options.model, None, held_out, options))
        return found | {"before": before, "right": answers(options.model, adapter, held_out, options)}


def whole_agentfw(options: argparse.Namespace, rows: list[dict[str, Any]], folder: Path) -> tuple[list[float], Path]:
    import agentfw
    from agentfw.tracker import Tracker

    marks: list[float] = []

    class Marks(Tracker):
        def log(self, step: int, metrics: Any) -> None:
            if not step or "learner/loss" in metrics:  # not after the last evaluation, which TRL doesn't have
                marks.append(worked())

    settings = {"tasks": TASKS_OF_A_BATCH, "samples": SAMPLES, "learner.learning_rate": 5e-4, "learner.rank": 8}
    settings |= {"learner.alpha": 16, "learner.seed": options.seed, "optimizer.kl": 0.0}
    settings |= {"sampling.max_tokens": options.answer, "sampling.temperature": 0.7, "evaluation.tasks": 8}
    settings |= {"evaluation.every": options.updates + 1}
    done = agentfw.train(
        tasks=rows,
        model=options.model,
        reward=correct,
        optimizer="grpo",
        updates=options.updates,
        settings=settings,
        seed=options.seed,
        runs=folder,
        tracker=Marks(),
    )
    files = done.path.rglob("adapter_model.safetensors")
    return marks, max(files, key=lambda path: path.stat().st_mtime_ns).parent


def whole_trl(options: argparse.Namespace, rows: list[dict[str, Any]], folder: Path) -> tuple[list[float], Path]:
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import AutoTokenizer, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    marks: list[float] = []
    pieces = 1 if options.answer <= SHORT else PIECES

    class Marks(TrainerCallback):  # type: ignore[misc]
        def on_train_begin(self, *_: Any, **__: Any) -> None:
            marks.append(worked())

        def on_step_end(self, *_: Any, **__: Any) -> None:
            marks.append(worked())

    trainer = GRPOTrainer(
        model=options.model,
        reward_funcs=correct,
        args=GRPOConfig(
            output_dir=str(folder),
            per_device_train_batch_size=TASKS_OF_A_BATCH * SAMPLES // pieces,
            gradient_accumulation_steps=pieces,
            num_generations=SAMPLES,
            max_completion_length=options.answer,
            max_steps=options.updates,
            learning_rate=5e-4,
            lr_scheduler_type="constant",
            temperature=0.7,
            top_k=0,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            **QUIET,
            seed=options.seed,
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(options.model),
        peft_config=LoraConfig(r=8, lora_alpha=16, target_modules=MODULES, task_type="CAUSAL_LM"),
        callbacks=[Marks()],
    )
    trainer.train()
    trainer.model.save_pretrained(folder / "adapter")
    return marks, folder / "adapter"


def answers(model: str, adapter: Path | None, rows: list[dict[str, Any]], options: argparse.Namespace) -> list[float]:
    """Which of these are right, by transformers alone, whoever trained."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")
    asked: Any = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    if adapter is not None:
        asked = PeftModel.from_pretrained(asked, adapter)
    torch.manual_seed(1)
    right: list[float] = []
    for at in range(0, len(rows), 50):
        part = rows[at : at + 50]
        prompts = [row["prompt"] for row in part]
        ids = tokenizer.apply_chat_template(
            prompts, add_generation_prompt=True, padding=True, return_tensors="pt", return_dict=True
        )
        said = asked.generate(**ids, max_new_tokens=options.answer, do_sample=True, temperature=0.7, top_k=0, top_p=1.0)
        texts = tokenizer.batch_decode(said[:, ids["input_ids"].shape[1] :], skip_special_tokens=True)
        right += correct(texts, [row["answer"] for row in part])
    return right
