"""The circle with a pretrained model: it is served, people say thumbs, it is trained on these, and served again.

    python benchmarks/real_circle.py --work FOLDER                # serve, then train, then serve what was trained
    python benchmarks/real_circle.py --work FOLDER --learn        # it learns while it serves
    python benchmarks/real_circle.py --work FOLDER --model path/to/model --json

Everything goes through the command line and HTTP, as a user would do it:

    agentfw serve --set policy.model=MODEL --set policy.template=plain --memory none
    agentfw train --from RUN --optimizer kto
    agentfw serve --policy RUN --memory none

Simulated users ask short questions, and like answers of at most --words words, which nobody tells the model: two of the
four examples in the prompt are long. What is measured is the share of liked answers of users whose questions were not
trained on, before and after. With `--learn`, rated conversations come in rounds, each with other questions, until a
version has passed its test and its trial. The model is that of additions.py.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
from additions import folder_of

from agentfw_benchmarks import Options, difference_of, shown, tell, triple_of
from agentfw_benchmarks.gateways import serve
from agentfw_plugins.gateway.learning.ratings import fresh, read_ratings
from agentfw_plugins.gateway.learning.version_file import VersionFile, named

SHOWN = """Question: What do cows eat?
Answer: Cows eat grass, hay and other plants that grow on a farm.
Question: What colour is the sky?
Answer: Blue
Question: Where do fish live?
Answer: Fish live in rivers, in lakes and in all the oceans.
Question: What is the capital of Italy?
Answer: Rome
"""
THINGS = """
dogs cats birds horses sheep bees bears lions owls frogs ducks mice wolves whales snakes ants goats pigs foxes deer
rabbits eagles sharks camels monkeys turtles spiders penguins elephants tigers
"""
ASKED = ("What do {} like?", "Where do {} live?", "What do {} eat?", "Why do people like {}?")
MORE_ASKED = (
    *("How do {} sleep?", "When are {} awake?", "What are {} afraid of?", "How do {} find food?", "How big are {}?"),
    *("What do {} look like?", "Who looks after {}?", "How do young {} learn?", "What do {} need?"),
    *("How fast are {}?", "What are {} good at?", "How do {} spend the winter?"),
)
"""So that each round has questions of its own."""
FOLLOWS = 20.0
"""Seconds in which the gateway follows, on a busy machine: it loads the model once more."""


SPEC = """
environment = {{ name = "from_feedback", settings = {{ answers = "rated" }} }}
policy = "transformers"
teacher = "scripted"
optimizer = "kto"
learner = {{ name = "sft", settings = {{ learning_rate = {rate} }} }}
rewards = ["feedback"]
updates = {updates}
tasks = {tasks}
samples = 1
"""
"""The spec train-from-feedback-kto, for `--learn`."""


class Service:
    """A gateway in a process of its own, with these options of `agentfw serve`."""

    def __init__(self, runs: Path, *serves: str) -> None:
        options = ("--served-name", "any", "--memory", "none", *serves)
        self.process, self.url, self.run = serve(runs, *options)
        self.file = VersionFile(self.run)

    def end(self) -> None:
        """End it with all its sessions."""
        self.process.send_signal(signal.SIGINT)
        self.process.communicate()

    def waits_for_more(self) -> bool:
        """Whether a version was made of all feedback that there is enough of."""
        state = self.file.read()
        ratings = read_ratings(self.file.episodes(), state.removals)
        return not state.rebuilds and fresh(ratings, state.since) < state.every


def questions(draw: random.Random, trained: int, held_out: int, patterns: Sequence[str]) -> tuple[list[str], list[str]]:
    """Questions for the training, and about other things for the measurement."""
    things = THINGS.split()
    draw.shuffle(things)
    middle = len(things) // 2
    parts = [[each.format(one) for one in some for each in patterns] for some in (things[:middle], things[middle:])]
    if max(trained, held_out) > len(parts[0]):
        raise SystemExit(f"there are {len(parts[0])} questions for each; ask for fewer conversations")
    return draw.sample(parts[0], trained), draw.sample(parts[1], held_out)


def converse(
    url: str, asked: Sequence[str], options: argparse.Namespace, *, rate: bool, name: str
) -> tuple[list[float], list[str]]:
    """One user for each question. Returns what each liked, 0 or 1, and was answered. Sessions begin with the name."""

    def one(number: int) -> tuple[float, str]:
        session, user = f"{url}/s/{name}-{number}", f"user-{number}"
        said = [{"role": "user", "content": f"{SHOWN}Question: {asked[number]}\nAnswer:"}]
        body = {"model": "base", "user": user, "messages": said, "max_tokens": options.tokens, "stop": ["\n"]}
        with httpx.Client(timeout=1800, trust_env=False) as client:
            answer = client.post(f"{session}/v1/chat/completions", json=body).raise_for_status()
            text = str(answer.json()["choices"][0]["message"]["content"]).strip()
            liked = 0 < len(text.split()) <= options.words
            if rate:
                thumb = {"value": "up" if liked else "down", "user": user}
                client.post(f"{session}/feedback", json=thumb).raise_for_status()
        return float(liked), text

    with ThreadPoolExecutor(32) as pool:
        found = list(pool.map(one, range(len(asked))))
    return [liked for liked, _ in found], [text for _, text in found]


def train(runs: Path, recorded: Path, policy: Sequence[str], options: argparse.Namespace) -> str:
    """`agentfw train --from RUN --optimizer kto`. Returns its run."""
    settings = {"learner.learning_rate": options.rate, "tasks": options.tasks, "evaluation.every": options.updates}
    changes = [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]
    command = [sys.executable, "-m", "agentfw", "train", "--from", str(recorded), "--optimizer", "kto"]
    command += ["--runs", str(runs), "--updates", str(options.updates), "--json", "--seed", str(options.seed)]
    done = subprocess.run([*command, *policy, *changes], stdout=subprocess.PIPE, text=True, check=True)
    return str(json.loads(done.stdout)["folder"])


def circle(options: argparse.Namespace, policy: Sequence[str]) -> dict[str, Any]:
    runs = options.work / "runs"
    trained, held_out = questions(random.Random(options.seed), options.conversations, options.measured, ASKED)

    def served(asked: Sequence[str], name: str, *words: str) -> tuple[list[float], list[str], Path]:
        service = Service(runs, *words)
        try:
            return *converse(service.url, asked, options, rate=name == "rated", name=name), service.run
        finally:
            service.end()

    before, _, _ = served(held_out, "before", *policy)
    thumbs, _, recorded = served(trained, "rated", *policy)
    after, texts, _ = served(held_out, "after", "--policy", train(runs, recorded, policy, options))
    return {"thumbs up": [sum(thumbs) / len(thumbs)], **compared(before, after, texts)}


def while_it_serves(options: argparse.Namespace, policy: Sequence[str]) -> dict[str, Any]:
    draw, count = random.Random(options.seed), options.conversations
    rated, held_out = questions(draw, count * options.rounds, options.measured, (*ASKED, *MORE_ASKED))
    options.work.mkdir(parents=True, exist_ok=True)
    spec = options.work / "spec.toml"
    spec.write_text(SPEC.format(rate=options.rate, updates=options.updates, tasks=options.tasks), "utf-8")
    serves = ("--policy", "transformers", *policy, "--set", f"seed={options.seed}")
    learns = ("--learn", "--learn-every", str(options.every), "--learn-spec", str(spec))
    service = Service(options.work, *serves, *learns)
    thumbs = list[float]()
    try:
        before, _ = converse(service.url, held_out, options, rate=False, name="before")
        for number in range(options.rounds):
            asked = rated[number * count :][:count]
            liked, _ = converse(service.url, asked, options, rate=True, name=f"round-{number}")
            thumbs.append(sum(liked) / len(liked))
            while not (served := service.file.read().served) and not service.waits_for_more():
                time.sleep(1)
            if served:
                break
        time.sleep(FOLLOWS)
        after, texts = converse(service.url, held_out, options, rate=False, name="after")
        state = service.file.read()
    finally:
        service.end()
    return {
        "thumbs up": thumbs,
        "versions": [f"{named(one.number)} {one.outcome}: {one.why} (test: {one.test})" for one in state.versions],
        "served": named(state.served),
        **compared(before, after, texts),
    }


def compared(before: Sequence[float], after: Sequence[float], texts: Sequence[str]) -> dict[str, Any]:
    return {
        "before": triple_of(before),
        "after": triple_of(after),
        "difference": difference_of(after, before),
        "answers after": texts[:5],
    }


def show(found: dict[str, Any]) -> None:
    print("thumbs up, by round:", ", ".join(f"{share:.2f}" for share in found["thumbs up"]))
    for one in found.get("versions", ()):
        print(one)
    print(f"liked answers before: {shown(found['before'])}   after: {shown(found['after'])}")
    print(f"difference: {shown(found['difference'])}, p = {found['difference']['p']:.2g}")
    print("answers after:", "; ".join(found["answers after"]))
    print(f"{found['minutes']:.1f} minutes")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        model=("", "folder or GGUF file of the model"),
        work=(Path("real-circle"), "folder of the runs"),
        learn=(False, "learn while it serves"),
        conversations=(60, "conversations with thumbs, in each round"),
        rounds=(4, "most rounds, with --learn"),
        every=(40, "rated answers that a version takes, with --learn"),
        measured=(60, "held-out conversations, before and after"),
        words=(4, "most words of an answer that is liked"),
        tokens=(16, "most tokens of an answer"),
        updates=(8, "updates of a training"),
        tasks=(16, "answers of an update"),
        rate=(2e-4, "learning rate"),
        seed=7,
    ).parse_args(arguments)
    began = time.monotonic()
    policy = ["--set", f"policy.model={folder_of(options.model)}", "--set", "policy.template=plain"]
    found = (while_it_serves if options.learn else circle)(options, policy)
    return tell({"seed": options.seed, **found, "minutes": (time.monotonic() - began) / 60}, options.json, show)


if __name__ == "__main__":
    main()
