"""A gateway that learns while it serves a pretrained model: do its users get more of what they like?

    python benchmarks/gateway_learns_real.py --work FOLDER
    python benchmarks/gateway_learns_real.py --work FOLDER --model path/to/model --json

The users and the model are those of real_circle.py: they like answers of at most --words words, and nobody tells the
model. `agentfw serve --learn` gets their thumbs, one round after the other, until a version has passed its test and its
trial. Each round has other questions. Before and after that, others ask about other things without a thumb. Shown is
what they like, and what became of each version.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from learning_gateway import Service, learning_every
from real_circle import ASKED, converse, questions
from real_model import folder_of

from agentfw_benchmarks import Options, difference_of, shown, tell, triple_of
from agentfw_plugins.gateway.learning.ratings import fresh, read_ratings
from agentfw_plugins.gateway.learning.version_file import named

FOLLOWS = 20.0
"""Seconds in which the gateway follows, on a busy machine: it loads the model once more."""
MORE_ASKED = (
    "How do {} sleep?",
    "When are {} awake?",
    "What are {} afraid of?",
    "How do {} find food?",
    "How big are {}?",
    "What do {} look like?",
    "Who looks after {}?",
    "How do young {} learn?",
    "What do {} need?",
    "How fast are {}?",
    "What are {} good at?",
    "How do {} spend the winter?",
)
"""So that each round has questions of its own."""


def serves_a_version(service: Service) -> bool:
    """Wait until the gateway has made of the feedback what it can. Returns whether it serves a version to all."""
    while True:
        state = service.file.read()
        if state.served:
            return True
        if fresh(read_ratings(service.file.episodes(), state.removals), state.since) < state.every:
            return False
        time.sleep(1)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    began = time.monotonic()
    draw, count = random.Random(options.seed), options.conversations
    rated, held_out = questions(draw, count * options.rounds, options.measured, (*ASKED, *MORE_ASKED))
    model = ("--policy", "transformers", "--set", f"policy.model={folder_of(options.model)}")
    training = {"policy": "transformers", "rate": options.rate, "updates": options.updates, "tasks": options.tasks}
    learning = learning_every(options.every, options.work, **training)
    service = Service(options.work, options.seed, *learning, serves=(*model, "--set", "policy.template=plain"))
    thumbs = list[float]()
    try:
        before, _ = converse(service.url, held_out, options, rate=False, name="before")
        for number in range(options.rounds):
            asked = rated[number * count :][:count]
            liked, _ = converse(service.url, asked, options, rate=True, name=f"round-{number}")
            thumbs.append(sum(liked) / len(liked))
            if serves_a_version(service):
                break
        time.sleep(FOLLOWS)
        after, texts = converse(service.url, held_out, options, rate=False, name="after")
        state = service.file.read()
    finally:
        service.kill()
    return {
        "seed": options.seed,
        "thumbs up, by round": thumbs,
        "versions": [f"{named(one.number)} {one.outcome}: {one.why}" for one in state.versions],
        "tests": [one.test for one in state.versions],
        "served": named(state.served),
        "before": triple_of(before),
        "after": triple_of(after),
        "difference": difference_of(after, before),
        "answers after": texts[:5],
        "minutes": (time.monotonic() - began) / 60,
    }


def show(found: dict[str, Any]) -> None:
    print("thumbs up, by round:", ", ".join(f"{share:.2f}" for share in found["thumbs up, by round"]))
    for one, test in zip(found["versions"], found["tests"], strict=True):
        print(f"{one} (test: {test})")
    print(f"liked answers before: {shown(found['before'])}   after, of {found['served']}: {shown(found['after'])}")
    print(f"difference: {shown(found['difference'])}, p = {found['difference']['p']:.2g}")
    print("answers after:", "; ".join(found["answers after"]))
    print(f"{found['minutes']:.1f} minutes")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        model=("", "folder or GGUF file of the model"),
        work=(Path, "new folder for the run"),
        conversations=(60, "conversations with thumbs in a round"),
        rounds=(4, "most rounds"),
        every=(40, "rated answers that a version takes"),
        measured=(50, "held-out conversations, before and after"),
        words=(4, "most words of an answer that is liked"),
        tokens=(16, "most tokens of an answer"),
        updates=(6, "updates of a training"),
        tasks=(16, "answers of an update"),
        rate=(2e-4, "learning rate"),
        seed=7,
    ).parse_args(arguments)
    return tell(measure(options), options.json, show)


if __name__ == "__main__":
    main()
