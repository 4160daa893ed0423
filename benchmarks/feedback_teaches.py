"""Feedback teaches: do users with hidden tastes get more of what they like, by thumbs alone, through the gateway?

    python benchmarks/feedback_teaches.py --work FOLDER

Each user has 30 conversations over HTTP with `agentfw serve`'s gateway, as an OpenAI client: they ask for a place, the
agent offers one of six (each is a tool), and they say thumbs up or down. They like two of the six kinds of places, and
tell nobody. What is measured is how often a place of a kind that they like is offered.

    without memory           the agent alone
    memory                   with the skill graph, which learns from each conversation when it ends
    memory and training      the same, with weights trained from the thumbs of other users: `agentfw train --from`, kto

The agent is a softmax with two weights (offering_agent.py). The users of the training have other kinds of places, other
places and other words than those who are measured. All arms have the same users, questions and random draws.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from agentfw import Host, Run
from agentfw.runs import LiveRun, apply_assignments, parse_spec
from agentfw.runs.spec.start import start_from_runs
from agentfw.seeds import Seeds
from agentfw.testing import fresh_host
from agentfw_benchmarks import Options, print_aligned, shown, tell, triple_of
from agentfw_plugins.gateway.app import Gateway
from agentfw_plugins.gateway.sessions.session_finder import LiveSessionFinder
from agentfw_plugins.serving import serving

LIKED = 2
"""Number of kinds that a user likes."""


class Town(NamedTuple):
    """What some users may be offered, and how they ask."""

    kinds: tuple[str, ...]
    places: tuple[str, ...]
    questions: tuple[str, ...]


TRAINING = Town(
    ("quiet", "lively", "outdoor", "cheap", "elegant", "spacious"),
    ("cafe", "bar", "museum", "cinema", "bakery", "library", "market", "park"),
    ("Which {} could I visit today?", "Find me a {}.", "I would go to a {}, but where?"),
)
MEASURED = Town(
    ("rustic", "modern", "sunny", "artistic", "familial", "vegan"),
    ("restaurant", "theatre", "bistro", "gallery", "brewery", "garden", "teahouse", "bookshop"),
    ("Where is a nice {}?", "We look for a {} tonight.", "Any {} around here?"),
)


class Asked(NamedTuple):
    """One conversation of a user."""

    question: str
    offers: tuple[str, ...]
    liked: frozenset[str]
    wrong_thumb: bool


def conversations(town: Town, seeds: Seeds, count: int, wrong: float) -> list[Asked]:
    """The conversations of one user, who is wrong about this share of the thumbs."""
    draw = seeds.random("conversations")
    liked = set(draw.sample(town.kinds, LIKED))
    found = []
    for _ in range(count):
        place, kinds = draw.choice(town.places), draw.sample(town.kinds, len(town.kinds))
        tools = {f"offer_{kind}_{place}": kind in liked for kind in kinds}
        question = draw.choice(town.questions).format(place)
        good = frozenset(name for name, is_liked in tools.items() if is_liked)
        found.append(Asked(question, tuple(tools), good, draw.random() < wrong))
    return found


async def lead(url: str, client: httpx.AsyncClient, user: str, number: int, asked: Asked) -> bool:
    """One conversation: ask, rate what is offered, and leave. Returns whether a liked place was offered."""
    session = f"{url}/s/{user}-{number}"
    tools = [
        {"type": "function", "function": {"name": name, "description": "", "parameters": {"type": "object"}}}
        for name in asked.offers
    ]
    body = {"model": "offering", "user": user, "messages": [{"role": "user", "content": asked.question}]}
    answer = await client.post(f"{session}/v1/chat/completions", json={**body, "tools": tools})
    answer.raise_for_status()
    (call,) = answer.json()["choices"][0]["message"]["tool_calls"]
    liked = call["function"]["name"] in asked.liked
    thumb = "up" if liked != asked.wrong_thumb else "down"
    (await client.post(f"{session}/feedback", json={"value": thumb, "user": user})).raise_for_status()
    (await client.post(f"{session}/end", json={"user": user})).raise_for_status()
    return liked


async def live(folder: Path, host: Host, spec: dict[str, Any], users: dict[str, list[Asked]]) -> tuple[Path, Any]:
    """All conversations of all users with one gateway. Returns its run, and by user what was offered."""
    found: dict[str, list[bool]] = {user: [] for user in users}
    async with LiveRun.create(parse_spec(spec), host, folder) as run:
        gateway = Gateway(LiveSessionFinder(run))
        async with serving(gateway.app, "127.0.0.1", 0) as url, httpx.AsyncClient(timeout=60) as client:
            for number in range(len(next(iter(users.values())))):
                for user, asked in users.items():
                    found[user].append(await lead(url, client, user, number, asked[number]))
        return run.folder.path, found


def gateway_spec(seed: int, agent: dict[str, Any], *, memory: bool) -> dict[str, Any]:
    graph = {"name": "skillgraph", "settings": {"embedder": "hash", "seed": seed}}
    return {
        "environment": "sessions",
        "policy": {"name": "offering", "settings": agent},
        "rewards": ["feedback"],
        "memories": [graph] if memory else [],
        "seed": seed,
    }


def train(folder: Path, host: Host, seed: int, recorded: Path, updates: int, start: dict[str, Any]) -> Path:
    """`agentfw train --from RUN --optimizer kto` with this policy. Returns the trained weights."""
    values = start_from_runs([str(recorded)], folder, "kto")(host, None, None)
    agent = {"name": "offering", "settings": start}
    plain = {"policy": agent, "learner": agent, "updates": updates, "tasks": 48, "seed": seed}
    values = apply_assignments({**values, **plain}, {"evaluation": {"every": updates}})
    run = Run.create(parse_spec(values), host, folder)
    asyncio.run(run.execute())
    return run.folder.path / "learner" / f"{updates:05d}" / "weights.json"


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    host, seeds, began = (
        fresh_host("offering_agent", builtins=True, strict=False),
        Seeds(options.seed),
        time.monotonic(),
    )

    def users(town: Town, what: str) -> dict[str, list[Asked]]:
        names = [f"{what}{number}" for number in range(options.users)]
        return {name: conversations(town, seeds.child(name), options.conversations, options.wrong) for name in names}

    start = {"named": options.trust, "alike": 2 * options.trust}
    spec = gateway_spec(options.seed, start, memory=True)
    recorded, _ = asyncio.run(live(folder / "recorded", host, spec, users(TRAINING, "teacher")))
    weights = train(folder / "training", host, options.seed, recorded, options.updates, start)
    trained = {"weights": str(weights)}
    arms = {"without memory": (start, False), "memory": (start, True), "memory and training": (trained, True)}
    guests = users(MEASURED, "guest")
    shares = dict[str, tuple[list[float], list[float]]]()
    for name, (agent, memory) in arms.items():
        spec = gateway_spec(options.seed, agent, memory=memory)
        _, offered = asyncio.run(live(folder / name.replace(" ", "-"), host, spec, guests))
        third = options.conversations // 3
        first = [sum(one[:third]) / third for one in offered.values()]
        shares[name] = first, [sum(one[-third:]) / third for one in offered.values()]
    rows = {
        name: {"first third": triple_of(first), "last third": triple_of(last), "rise": _beyond(last, first)}
        for name, (first, last) in shares.items()
    }
    last = {name: ends for name, (_, ends) in shares.items()}
    rise = {name: [b - a for a, b in zip(*both, strict=True)] for name, both in shares.items()}
    return {
        "users": options.users,
        "conversations": options.conversations,
        "wrong thumbs": options.wrong,
        "trust": options.trust,
        "seed": options.seed,
        "weights": json.loads(weights.read_text("utf-8")),
        "arms": rows,
        "rise, memory beyond none": _beyond(rise["memory"], rise["without memory"]),
        "last third, memory beyond none": _beyond(last["memory"], last["without memory"]),
        "last third, training beyond memory": _beyond(last["memory and training"], last["memory"]),
        "seconds": time.monotonic() - began,
    }


def _beyond(ours: list[float], theirs: list[float]) -> list[float]:
    return triple_of([one - other for one, other in zip(ours, theirs, strict=True)])


def show(found: dict[str, Any]) -> None:
    rows = [[name, *map(shown, row.values())] for name, row in found["arms"].items()]
    print_aligned(["liked places offered", "first third", "last third", "rise"], rows)
    for name in (name for name in found if " beyond " in name):
        print(f"{name}: {shown(found[name])}")
    print(f"trained weights: {found['weights']}; {found['seconds']:.0f} s")


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        work=(Path, "new folder for the runs"),
        users=(20, "number of users, of the training and of each arm"),
        conversations=(30, "number of conversations of each user"),
        updates=(20, "updates of the training"),
        wrong=(0.0, "share of thumbs that are the wrong way round"),
        trust=(1.0, "how far the agent trusts its memory at the start"),
        seed=7,
    ).parse_args(arguments)
    return tell(measure(options, options.work), options.json, show)


if __name__ == "__main__":
    main()
