"""A gateway that learns while it serves: do its users get more of what they like than with a memory alone?

    python benchmarks/gateway_learns.py --work FOLDER
    python benchmarks/gateway_learns.py --work FOLDER --conversations 400 --poison 0 --json

`agentfw serve` serves the model `tiny-assistant` (of agentfw-papers) to users with hidden tastes (choosing_users.py)
over HTTP, with a memory alone and with a memory and `--learn`. They say thumbs up or down, a tenth of them the wrong
way round, and half-way most tastes change. Shown is the share of liked answers by quarter. Then each version that was
served, and the one before it, answer what users asked who gave no thumbs.

At last one user rates everything the wrong way round, until versions have learned from it; then
`agentfw serve forget-feedback --user` takes it out.

Both gateways have the same users, cards and random draws of the policy. People take longer than a training, so the
users wait while a version is made. `gateway_learns_killed.py` kills such a gateway.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from choosing_users import User, chosen, people
from learning_gateway import Said, Service, converse, learning_every, mention

from agentfw import Episode, Host, Policy, Request, Task
from agentfw.host import HostOptions
from agentfw.request import Sampling
from agentfw.runs import read_sessions
from agentfw.seeds import Seeds
from agentfw_benchmarks import Options, difference_of, print_aligned, shown, tell, triple_of
from agentfw_plugins.gateway.learning.version_file import REJECTED, named


class Heard(NamedTuple):
    """The conversations with a gateway."""

    rated: list[list[Said]]
    """By round."""
    guests: tuple[list[Said], list[Said]]
    """Without thumbs, at the end of each half."""


def live(service: Service, users: Sequence[User], options: argparse.Namespace) -> Heard:
    """All conversations of all users, round by round."""
    rounds, learns = options.conversations // options.users, service.file.exists
    rated, guests = list[list[Said]](), (list[Said](), list[Said]())
    for change in (0, 1):
        asyncio.run(mention(service.url, users, change))
        for number in range(change * (rounds // 2), rounds if change else rounds // 2):
            rated.append(asyncio.run(converse(service.url, users, number, change)))
            if learns:
                service.learned()
        if learns:
            for number in range(rounds + change * options.guests, rounds + (change + 1) * options.guests):
                guests[change].extend(asyncio.run(converse(service.url, users, number, change, rate=False)))
    return Heard(rated, guests)


async def again(
    host: Host, shown_to: Mapping[str, Episode], adapter: Path | None, said: Sequence[Said], change: int
) -> list[bool]:
    """What a version answers to what others were asked, with the same recalled text and draws: is it liked?

    `shown_to` are the conversations by session. Without an adapter, it is the policy as it came.
    """
    settings: dict[str, Any] = {"model": "tiny-assistant", **({"adapter": str(adapter)} if adapter else {})}
    policy = host.create("policy", "tiny", settings)
    assert isinstance(policy, Policy)

    async def one(place: int, asked: Said) -> bool:
        episode = shown_to[asked.session]
        messages = [episode.messages[each] for each in episode.turns[-1].shown]
        sampling = Sampling(temperature=1.0, max_tokens=64, seed=asked.card.seed)
        task = Task(index=place, seed=asked.card.seed, query=asked.session)
        generation = await policy.generate(Request(task=task, messages=messages, sampling=sampling))
        return asked.card.liked(asked.user.tastes[change], chosen(generation.text))

    try:
        return list(await asyncio.gather(*(one(place, asked) for place, asked in enumerate(said))))
    finally:
        await policy.close()


def by_user(said: Sequence[Said], liked: Sequence[bool]) -> dict[str, float]:
    """The share of liked answers of each user."""
    found: dict[str, list[bool]] = {}
    for one, is_liked in zip(said, liked, strict=True):
        found.setdefault(one.user.name, []).append(is_liked)
    return {name: sum(each) / len(each) for name, each in found.items()}


def quarters(rated: Sequence[Sequence[Said]]) -> list[dict[str, float]]:
    size = len(rated) // 4
    parts = [[said for one in rated[first * size : (first + 1) * size] for said in one] for first in range(4)]
    return [by_user(part, [one.liked for one in part]) for part in parts]


class Laboratory:
    """The parts of the measurement. The poisoning goes on with the gateway that learned."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.seeds = options, Seeds(options.seed)
        rounds = options.conversations // options.users
        habits = {"wrong": options.wrong, "alike": options.alike, "mentioned": options.mentioned}
        self.users = people(self.seeds, options.users, rounds + 2 * options.guests, **habits)
        self.host = Host.load(HostOptions())

    def measure(self) -> dict[str, Any]:
        began, options = time.monotonic(), self.options
        alone = Service(options.work / "memory", options.seed)
        try:
            memory = quarters(live(alone, self.users, options).rated)
        finally:
            alone.kill()
        ours = Service(options.work / "learn", options.seed, *learning_every(options.every, options.work / "learn"))
        try:
            heard = live(ours, self.users, options)
            learned = quarters(heard.rated)
            found = {
                "seed": options.seed,
                "users": options.users,
                "conversations": options.conversations,
                "liked, by quarter": {
                    arm: [triple_of(list(one.values())) for one in each]
                    for arm, each in (("memory", memory), ("memory and --learn", learned))
                },
                "--learn beyond memory, by quarter": [
                    difference_of(*pair) for pair in zip(learned, memory, strict=True)
                ],
                "--learn beyond memory": difference_of(*(_whole(each) for each in (learned, memory))),
                "versions": self.versions(ours, heard),
            }
            if options.poison:
                found["poison"] = self.poison(ours, heard.guests[1])
        finally:
            ours.kill()
        return {**found, "minutes": (time.monotonic() - began) / 60}

    def versions(self, service: Service, heard: Heard) -> list[dict[str, Any]]:
        """Each version, and each that was served beside the one before it, by those tastes that it was made of."""
        found = list[dict[str, Any]]()
        rounds = [sorted({said.version for said in one}) for one in heard.rated]
        for one in service.file.read().versions:
            row = {"version": named(one.number), "outcome": one.outcome, "why": one.why, "ratings": one.ratings}
            if one.outcome != REJECTED:
                first = next((number for number, seen in enumerate(rounds) if row["version"] in seen), len(rounds))
                change = int(first > len(rounds) // 2)
                asked = heard.guests[change]
                pair = [self.again(service, number, asked, change) for number in (one.number, one.before)]
                row |= {"first round": first, "beyond the version before": difference_of(*pair)}
            found.append(row)
        return found

    def again(self, service: Service, number: int, asked: Sequence[Said], change: int) -> dict[str, float]:
        shown_to = {episode.task.query: episode for episode in read_sessions(service.run)}
        adapter = service.file.adapter(service.file.read().version(number)) if number else None
        return by_user(asked, asyncio.run(again(self.host, shown_to, adapter, asked, change)))

    def poison(self, service: Service, guests: Sequence[Said]) -> dict[str, Any]:
        """One user spoils the ratings. Versions that learned from it are taken back, and one is made without."""
        start = service.file.read()
        count = self.options.poison
        tastes = self.users[0].tastes
        (one,) = people(self.seeds.child("mallory"), 1, count, wrong=0, alike=1, mentioned=0)
        mallory = User("mallory", tastes, (), one.cards)
        for number in range(count):
            asyncio.run(converse(service.url, [mallory], number, 1, upside_down=True))
            if (number + 1) % self.options.every == 0:
                service.learned()
        spoiled = service.file.read()
        told = service.command("forget-feedback", "--user", "mallory")
        service.learned()
        rebuilt = service.file.read()
        last = rebuilt.versions[-1]
        shares = {
            what: self.again(service, number, guests, 1)
            for what, number in (("before", start.served), ("poisoned", spoiled.served), ("rebuilt", rebuilt.served))
        }
        taken = {f"mallory-{number}" for number in range(count)}
        return {
            "ratings": count,
            "left out": told["left_out"],
            "versions made of it": [named(one.number) for one in spoiled.versions if taken & set(one.sessions)],
            "served": [named(one.served) for one in (start, spoiled, rebuilt)],
            "withdrawn": told["withdrawn"],
            "served at once": told["served"],
            "the last version": {"version": named(last.number), "outcome": last.outcome, "why": last.why},
            "of poisoned sessions in it": len(taken & set(last.sessions)),
            "liked": {what: triple_of(list(share.values())) for what, share in shares.items()},
            "rebuilt beyond poisoned": difference_of(shares["rebuilt"], shares["poisoned"]),
            "rebuilt beyond before": difference_of(shares["rebuilt"], shares["before"]),
        }


def _whole(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: sum(part[name] for part in parts) / len(parts) for name in parts[0]}


def show(found: dict[str, Any]) -> None:
    rows = [[arm, *map(shown, row)] for arm, row in found["liked, by quarter"].items()]
    rows.append(["--learn beyond memory", *map(shown, found["--learn beyond memory, by quarter"])])
    print_aligned(["liked answers", "1st quarter", "2nd", "3rd", "4th"], rows)
    print(f"--learn beyond memory, over all: {shown(found['--learn beyond memory'])}")
    for one in found["versions"]:
        beyond = one.get("beyond the version before")
        text = f", beyond the one before {shown(beyond)}" if beyond else ""
        print(f"{one['version']} {one['outcome']} ({one['why']}){text}")
    for name, value in found.get("poison", {}).items():
        print(f"poison: {name}: {shown(value) if 'beyond' in name else value}")
    print(f"{found['minutes']:.1f} minutes")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        work=(Path, "new folder for the runs"),
        users=(50, "number of users"),
        conversations=(2000, "rated conversations with each gateway"),
        guests=(6, "conversations of each user without a thumb, in each half"),
        wrong=(0.1, "share of thumbs that are the wrong way round"),
        alike=(0.8, "share of tastes that are those of most users"),
        mentioned=(2, "scenarios of which a user mentions their taste"),
        every=(200, "rated answers that a version takes"),
        poison=(200, "ratings of the user who rates the wrong way round; 0: no such user"),
        seed=7,
    ).parse_args(arguments)
    return tell(Laboratory(options).measure(), options.json, show)


if __name__ == "__main__":
    main()
