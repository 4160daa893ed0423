"""Teaches a small chat model the sums in the solutions of GSM8K, with a reward function written for TRL.

python benchmarks/gsm8k_sums.py path/to/gsm8k/train.jsonl --updates 8
"""

import json
import re
import sys

import agentfw


def sums(file):
    for line in open(file):
        for left, right in re.findall(r"<<([-+*/.\d]+)=(\d+)>>", json.loads(line)["answer"])[:1]:
            yield {"prompt": f"What is {left}? Answer with the number only.", "answer": right}


def correct(completions, answer, **columns):
    return [float(re.findall(r"\d+", text)[-1:] == [gold]) for text, gold in zip(completions, answer)]


if __name__ == "__main__":
    settings = {"tasks": 16, "samples": 8, "sampling.max_tokens": 16, "evaluation.tasks": 100}
    print(agentfw.train(tasks=sums(sys.argv[1]), model="smollm2", reward=correct, updates=8, settings=settings))
