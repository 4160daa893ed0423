"""Teaches a small chat model the sums in the solutions of GSM8K, with a reward function written for TRL.

python benchmarks/gsm8k_sums.py path/to/gsm8k/train.jsonl
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import agentfw


def sums(file: str) -> Iterator[dict[str, str]]:
    for line in Path(file).read_text("utf-8").splitlines():
        for left, right in re.findall(r"<<(\d+[-+*/]\d+)=(\d+)>>", json.loads(line)["answer"])[:1]:
            yield {"prompt": f"What is {left}? Answer with the number only.", "answer": right}


def correct(completions: list[str], answer: list[str], **columns: object) -> list[float]:
    return [float(re.findall(r"\d+", text)[-1:] == [gold]) for text, gold in zip(completions, answer, strict=True)]


if __name__ == "__main__":
    settings = {"samples": 8, "learner.learning_rate": 5e-4, "evaluation.tasks": 100}
    settings |= {"sampling.max_tokens": 12, "sampling.temperature": 0.7}
    print(agentfw.train(tasks=sums(sys.argv[1]), model="smollm2", reward=correct, updates=10, settings=settings))
