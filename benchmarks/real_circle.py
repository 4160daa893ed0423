"""The circle with a pretrained model: it is served, people say thumbs, it is trained on these, and served again.

    python benchmarks/real_circle.py --work FOLDER
    python benchmarks/real_circle.py --work FOLDER --model path/to/model --json

Everything goes through the command line and HTTP, as a user would do it:

    agentfw serve --set policy.model=MODEL --set policy.template=plain
    agentfw train --from RUN --optimizer kto
    agentfw serve --policy RUN

Simulated users ask short questions, and like answers of at most --words words, which nobody tells the model: two of the
four examples in the prompt are long. What is measured is the share of liked answers of users whose questions were not
trained on, before and after. The model is that of real_model.py.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
from real_model import folder_of

from agentfw_benchmarks import Options, difference_of, shown, tell, triple_of

SHOWN = """Question: What do cows eat?
Answer: Cows eat grass, hay and other plants that grow on a farm.
Question: What colour is the sky?
Answer: Blue
Question: Where do fish live?
Answer: Fish live in rivers, in lakes and in all the oceans.
Question: What is the capital of Italy?
Answer: Rome
"""
THINGS = [
    "dogs",
    "cats",
    "birds",
    "horses",
    "sheep",
    "bees",
    "bears",
    "lions",
    "owls",
    "frogs",
    "ducks",
    "mice",
    "wolves",
    "whales",
    "snakes",
    "ants",
    "goats",
    "pigs",
    "foxes",
    "deer",
    "rabbits",
    "eagles",
    "sharks",
    "camels",
    "monkeys",
    "turtles",
    "spiders",
    "penguins",
    "elephants",
    "tigers",
]
ASKED = ("What do {} like?", "Where do {} live?", "What do {} eat?", "Why do people like {}?")


def questions(
    draw: random.Random, trained: int, held_out: int, patterns: Sequence[str] = ASKED
) -> tuple[list[str], list[str]]:
    """Questions for the training, and about other things for the measurement."""
    things = draw.sample(THINGS, len(THINGS))
    middle = len(things) // 2
    parts = [
        [pattern.format(thing) for thing in some for pattern in patterns] for some in (things[:middle], things[middle:])
    ]
    if max(trained, held_out) > len(parts[0]):
        raise SystemExit(f"there are {len(parts[0])} questions for each; ask for fewer conversations")
    return draw.sample(parts[0], trained), draw.sample(parts[1], held_out)


@contextlib.contextmanager
def served(runs: Path, options: Sequence[str]) -> Iterator[tuple[str, str]]:
    """`agentfw serve` with these options: its address and its run."""
    command = [
        sys.executable,
        "-m",
        "agentfw",
        "serve",
        "--port",
        "0",
        "--runs",
        str(runs),
        "--json",
        "--model",
        "any",
        *options,
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = process.stdout.readline()
            if not line:
                raise SystemExit("the gateway didn't start")
            text += line
        ready = json.loads(text)
        yield ready["url"], ready["folder"]
    finally:
        process.send_signal(signal.SIGINT)  # ends all sessions
        process.communicate()


def converse(
    url: str, asked: Sequence[str], options: argparse.Namespace, *, rate: bool, name: str = "talk"
) -> tuple[list[float], list[str]]:
    """One user for each question. Returns what each liked, 0 or 1, and was answered. Sessions begin with the name."""

    def one(number: int) -> tuple[float, str]:
        session = f"{url}/s/{name}-{number}"
        user = f"user-{number}"
        body = {
            "model": "base",
            "user": user,
            "messages": [{"role": "user", "content": f"{SHOWN}Question: {asked[number]}\nAnswer:"}],
            "max_tokens": options.tokens,
            "stop": ["\n"],
        }
        with httpx.Client(timeout=1800, trust_env=False) as client:
            answer = client.post(f"{session}/v1/chat/completions", json=body)
            answer.raise_for_status()
            text = str(answer.json()["choices"][0]["message"]["content"]).strip()
            liked = 0 < len(text.split()) <= options.words
            if rate:
                said = {"value": "up" if liked else "down", "user": user}
                client.post(f"{session}/feedback", json=said).raise_for_status()
        return float(liked), text

    with ThreadPoolExecutor(32) as pool:
        found = list(pool.map(one, range(len(asked))))
    return [liked for liked, _ in found], [text for _, text in found]


def train(runs: Path, recorded: str, policy: Sequence[str], options: argparse.Namespace) -> str:
    """`agentfw train --from RUN --optimizer kto`. Returns its run."""
    settings = {"learner.learning_rate": options.rate, "tasks": options.tasks, "evaluation.every": options.updates}
    changes = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "agentfw", "train", "--from", recorded, "--optimizer", "kto", "--runs", str(runs)]
    done = subprocess.run(
        [*command, "--updates", str(options.updates), "--json", "--seed", str(options.seed), *policy, *changes],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return str(json.loads(done.stdout)["folder"])


def circle(options: argparse.Namespace) -> dict[str, Any]:
    runs, began = options.work / "runs", time.monotonic()
    policy = ["--set", f"policy.model={folder_of(options.model)}", "--set", "policy.template=plain"]
    trained, held_out = questions(random.Random(options.seed), options.conversations, options.measured)
    with served(runs, policy) as (url, _):
        before, _ = converse(url, held_out, options, rate=False)
    with served(runs, policy) as (url, recorded):
        thumbs, _ = converse(url, trained, options, rate=True)
    served_after = time.monotonic()
    training = train(runs, recorded, policy, options)
    trained_after = time.monotonic()
    with served(runs, ["--policy", training]) as (url, _):
        after, texts = converse(url, held_out, options, rate=False)
    return {
        "thumbs up": sum(thumbs) / len(thumbs),
        "before": triple_of(before),
        "after": triple_of(after),
        "difference": difference_of(after, before),
        "answers after": texts[:5],
        "minutes of training": (trained_after - served_after) / 60,
        "minutes": (time.monotonic() - began) / 60,
    }


def show(found: dict[str, Any]) -> None:
    print(f"thumbs up in the recorded conversations: {found['thumbs up']:.2f}")
    print(f"liked answers before: {shown(found['before'])}   after: {shown(found['after'])}")
    print(f"difference: {shown(found['difference'])}, p = {found['difference']['p']:.2g}")
    print("answers after:", "; ".join(found["answers after"]))
    print(f"{found['minutes']:.1f} minutes, {found['minutes of training']:.1f} of them for the training")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        model=("", "folder or GGUF file of the model"),
        work=(Path("real-circle"), "folder of the runs"),
        conversations=(60, "conversations with thumbs"),
        measured=(60, "held-out conversations, before and after"),
        words=(4, "most words of an answer that is liked"),
        tokens=(24, "most tokens of an answer"),
        updates=(12, "updates of the training"),
        tasks=(16, "answers of an update"),
        rate=(1e-4, "learning rate"),
        seed=7,
    ).parse_args(arguments)
    return tell(circle(options), options.json, show)


if __name__ == "__main__":
    main()
