"""A gateway that learns while it serves: do its users get more of what they like, and does it survive being killed?

    python benchmarks/gateway_learns.py --work FOLDER
    python benchmarks/gateway_learns.py --work FOLDER --kills 20
    python benchmarks/gateway_learns.py --work FOLDER --kills 4 --run RUN --phases compares publishes

`agentfw serve` serves the model `tiny-assistant` (of agentfw-papers) to users with hidden tastes (`choosing_users` in
the library) over HTTP, with a memory alone and with a memory and `--learn`. They say thumbs up or down, a tenth of them
the wrong way round, and half-way most tastes change. Shown is the share of liked answers by quarter. Then each version
that was served, and the one before it, answer what users asked who gave no thumbs. Both gateways have the same users,
cards and random draws. People take longer than a training, so the users wait while a version is made.

With `--kills`, users talk until the gateway serves a version that it learned (or `--run` is copied, which does so).
Then they come to like other things, and go on asking and rating while the gateway and its trainer are killed in turns
(SIGKILL), at a random moment of each phase of the trainer. Required: each time the version that the file names is
served, its adapter is complete, and no acknowledged thumb is lost.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from agentfw import Episode, Host, Policy, Request, Task
from agentfw.host import HostOptions
from agentfw.request import Sampling
from agentfw.runs import read_sessions
from agentfw.seeds import Seeds
from agentfw_benchmarks import TESTS, Options, difference_of, print_aligned, shown, tell, triple_of
from agentfw_benchmarks.choosing_users import Card, User, chosen, people
from agentfw_benchmarks.learning_gateway import PATIENCE, Service, answer_of, body_of, learning_every
from agentfw_plugins.gateway.learning.version_file import REJECTED, named
from agentfw_plugins.rewards.measured import feedback_of

sys.path.insert(0, str(TESTS / "plugins" / "gateway"))

SERVES = ("--policy", "tiny", "--set", "policy.model=tiny-assistant")
MEMORY = ("--memory", "skillgraph", "--set", "memory.skillgraph.embedder=hash")
AT_ONCE = 16
PHASES = {"trains": 4.0, "compares": 1.0, "publishes": 0.02, "on trial": 2.0}
"""The phases of a trainer, and within how many seconds of their beginning it is killed."""
PAUSE = 0.3
"""Seconds between two conversations of a user, in which the trainer has the processor."""
FOLLOWS = 10.0
"""Seconds in which a gateway follows its versions at the latest, on a busy machine."""
MORE_TASKS = 32
"""Answers of an update during the kills, so that a training has few of them."""
CARDS = 40
"""How many a user has during the kills. They come again after that."""


class Said(NamedTuple):
    """An answer, and what its user thought of it."""

    session: str
    user: User
    card: Card
    version: str
    liked: bool


async def mention(url: str, users: Sequence[User], change: int) -> None:
    """Each user says some of their tastes in passing, and the memory has time to hear it."""
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as client:
        for user in users:
            path = f"/s/{user.name}-says-{change}/v1/chat/completions"
            (await client.post(path, json=body_of(user.name, user.says(change)))).raise_for_status()
        for user in users:
            while (await client.get("/memory", params={"user": user.name})).raise_for_status().json()["waiting"]:
                await asyncio.sleep(0.05)


async def converse(url: str, users: Sequence[User], number: int, change: int, *, rate: bool = True) -> list[Said]:
    """The conversations of all users with this number."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(client: httpx.AsyncClient, user: User) -> Said:
        session, card = f"{user.name}-{number}", user.cards[number]
        async with limit:
            body = body_of(user.name, str(card), card.seed)
            answer = await client.post(f"/s/{session}/v1/chat/completions", json=body)
            text = answer.raise_for_status().json()["choices"][0]["message"]["content"]
            liked = card.liked(user.tastes[change], chosen(text or ""))
            if rate:
                rating = {"value": "up" if liked != card.wrong_thumb else "down", "user": user.name}
                (await client.post(f"/s/{session}/feedback", json=rating)).raise_for_status()
            (await client.post(f"/s/{session}/end", json={"user": user.name})).raise_for_status()
        return Said(session, user, card, answer.headers.get("x-agentfw-version", ""), liked)

    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as client:
        return list(await asyncio.gather(*(one(client, user) for user in users)))


# -- beside a memory alone ---------------------------------------------------------------------------------------------


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
) -> dict[str, float]:
    """The share of a version's answers that each user likes, asked what others were, with the same recollections.

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
        return by_user(said, await asyncio.gather(*(one(place, asked) for place, asked in enumerate(said))))
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


def beside_memory(options: argparse.Namespace) -> dict[str, Any]:
    began, seeds = time.monotonic(), Seeds(options.seed)
    count = options.conversations // options.users + 2 * options.guests
    users = people(seeds, options.users, count, wrong=0.1, alike=0.8, mentioned=2)
    serves = (*SERVES, *MEMORY, "--set", f"seed={options.seed}")
    shares, versions = dict[str, list[dict[str, float]]](), list[dict[str, Any]]()
    for arm in ("memory", "memory and --learn"):
        home = options.work / arm.replace(" ", "")
        learning = learning_every(options.every or 200, home) if "learn" in arm else ()
        service = Service(home, *serves, learning=learning)
        try:
            heard = live(service, users, options)
            shares[arm] = quarters(heard.rated)
            if learning:
                versions = versions_of(service, heard)
        finally:
            service.kill()
    memory, learned = shares.values()
    whole = [{name: sum(part[name] for part in some) / 4 for name in some[0]} for some in (learned, memory)]
    return {
        "seed": options.seed,
        "liked, by quarter": {arm: [triple_of(list(one.values())) for one in some] for arm, some in shares.items()},
        "--learn beyond memory, by quarter": [difference_of(*pair) for pair in zip(learned, memory, strict=True)],
        "--learn beyond memory": difference_of(*whole),
        "versions": versions,
        "minutes": (time.monotonic() - began) / 60,
    }


def versions_of(service: Service, heard: Heard) -> list[dict[str, Any]]:
    """Each version, and each that was served beside the one before it, by those tastes that it was made of."""
    host, found = Host.load(HostOptions()), list[dict[str, Any]]()
    rounds = [sorted({said.version for said in one}) for one in heard.rated]
    shown_to = {episode.task.query: episode for episode in read_sessions(service.run)}
    state = service.file.read()
    for one in state.versions:
        row = {"version": named(one.number), "outcome": one.outcome, "why": one.why, "ratings": one.ratings}
        if one.outcome != REJECTED:
            first = next((number for number, seen in enumerate(rounds) if row["version"] in seen), len(rounds))
            change = int(first > len(rounds) // 2)
            pair = []
            for number in (one.number, one.before):
                adapter = service.file.adapter(state.version(number)) if number else None
                pair.append(asyncio.run(again(host, shown_to, adapter, heard.guests[change], change)))
            row |= {"first round": first, "beyond the version before": difference_of(*pair)}
        found.append(row)
    return found


# -- kills -------------------------------------------------------------------------------------------------------------


def phase_of(service: Service) -> str:
    """What the trainer does, as its files say."""
    file = service.file
    state, training, versions = file.read(), file.folder / "training" / "runs", file.folder / "versions"
    known = {one.adapter.partition("/")[0] for one in state.versions}
    if any(one.name not in known for one in (versions.iterdir() if versions.exists() else ())):
        return "publishes"
    if any(training.glob("*/summary.json")):
        return "compares"
    if any(training.glob("*/updates.jsonl")):
        return "trains"
    return "on trial" if state.canary else "at rest"


def begun(options: argparse.Namespace, users: Sequence[User]) -> Service:
    """The gateway before the kills: users talk and rate until a version that was learned is served."""
    during = learning_every(options.every or 60, options.work, tasks=MORE_TASKS)
    serves = (*SERVES, *MEMORY, "--set", f"seed={options.seed}")
    if options.run or not options.first:
        return Service(options.work, *serves, learning=during, copy=options.run)
    service = Service(options.work, *serves, learning=learning_every(options.first, options.work))
    try:
        asyncio.run(mention(service.url, users, 0))
        for number in range(CARDS):
            asyncio.run(converse(service.url, users, number, 0))
            service.learned()
            if service.file.read().served:
                break
        else:
            raise SystemExit(f"no version was served after {CARDS} rounds: {service.file.read().said}")
    finally:
        service.kill()
    service.learning = during
    service.resume()
    return service


class Load:
    """Users who go on asking and rating until the gateway is gone. They have changed their tastes."""

    def __init__(self, users: Sequence[User], service: Service) -> None:
        self.service, self.acknowledged = service, rated_in(service)
        self._asks: Iterator[tuple[int, User, Card]] = (
            (number, user, user.cards[number % CARDS]) for number in range(CARDS, 10**6) for user in users
        )
        self._threads: list[threading.Thread] = []
        self._stopped, self._lock = threading.Event(), threading.Lock()

    def start(self) -> None:
        self._stopped.clear()
        self._threads = [threading.Thread(target=self._ask) for _ in range(2)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        with contextlib.suppress(httpx.HTTPError), httpx.Client(base_url=self.service.url, timeout=60) as client:
            while not self._stopped.is_set():
                with self._lock:
                    number, user, card = next(self._asks)
                session = f"{user.name}-{number}"
                answer = client.post(f"/s/{session}/v1/chat/completions", json=body_of(user.name, str(card), card.seed))
                text = answer.raise_for_status().json()["choices"][0]["message"]["content"]
                thumb = "up" if card.liked(user.tastes[1], chosen(text or "")) else "down"
                rating = {"value": thumb, "user": user.name}
                client.post(f"/s/{session}/feedback", json=rating).raise_for_status()
                self.acknowledged.add(session)
                time.sleep(PAUSE)


def rated_in(service: Service) -> set[str]:
    """The sessions that have a thumb."""
    return {one.task.query for one in read_sessions(service.run) if any(feedback_of(one))}


def is_served(service: Service, session: str, answered: Counter[str]) -> bool:
    """Whether the version that the file names answers, and the adapters of all that are served are there."""
    end = time.monotonic() + FOLLOWS
    with httpx.Client(base_url=service.url, timeout=60) as client:
        while True:
            version = answer_of(client, session, "nobody", "?").headers["x-agentfw-version"]
            state = service.file.read()
            if version == named(state.for_session(session)) or time.monotonic() > end:
                break
            time.sleep(0.2)
    answered[version] += 1
    learned = [state.version(number) for number in {state.served, state.canary} - {0}]
    return version == named(state.for_session(session)) and all(service.file.adapter(one).exists() for one in learned)


def killed(options: argparse.Namespace) -> dict[str, Any]:
    from killing import trainer_of  # type: ignore[import-not-found]

    seeds = Seeds(options.seed)
    draw = seeds.random("kills")
    users = people(seeds, options.users, CARDS, wrong=0, alike=1, mentioned=2)
    service = begun(options, users)
    load, answered, phases, learned = Load(users, service), Counter[str](), Counter[str](), Counter[str]()
    trainers = unserved = 0
    phase = ""
    try:
        for number in range(options.kills):
            load.start()
            wanted = options.phases[number // 2 % len(options.phases)]
            # What a killed trainer has left looks like its phase, until the next one clears it.
            end, left, trainer = time.monotonic() + options.longest, phase, None
            while (phase != wanted or phase == left) and time.monotonic() < end:
                time.sleep(0.001)
                before, phase = phase, phase_of(service)
                left = left if phase == left else ""
                if phase not in (before, wanted):
                    trainer = trainer_of(service.run)  # now, because it takes longer than some phases
            time.sleep(draw.uniform(0, PHASES[wanted]))
            trainer = trainer or trainer_of(service.run)
            of_trainer = bool(number % 2 and trainer)
            if of_trainer:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(trainer, signal.SIGKILL)
            else:
                service.kill()
            state, phase = service.file.read(), phase_of(service)  # as the killed process has left it
            phases[phase] += 1
            learned["served"] += bool(state.served)
            learned["on trial"] += bool(state.canary)
            trainers += of_trainer
            load.stop()
            if not of_trainer:
                service.resume()
            unserved += not is_served(service, f"check-{number}", answered)
        rated, state = rated_in(service), service.file.read()
    finally:
        load.stop()
        service.kill()
    return {
        "seed": options.seed,
        "kills": options.kills,
        "of a trainer": trainers,
        "by phase": dict(phases),
        "with a learned version": dict(learned),
        "acknowledged thumbs": len(load.acknowledged),
        "lost": len(load.acknowledged - rated),
        "without a served version": unserved,
        "versions made": [f"{named(one.number)} {one.outcome}" for one in state.versions],
        "versions that answered after a kill": dict(sorted(answered.items())),
    }


def show(found: dict[str, Any]) -> None:
    if "kills" in found:
        for name, value in found.items():
            print(f"{name}: {value}")
        return
    rows = [[arm, *map(shown, row)] for arm, row in found["liked, by quarter"].items()]
    rows.append(["--learn beyond memory", *map(shown, found["--learn beyond memory, by quarter"])])
    print_aligned(["liked answers", "1st quarter", "2nd", "3rd", "4th"], rows)
    print(f"--learn beyond memory, over all: {shown(found['--learn beyond memory'])}")
    for one in found["versions"]:
        beyond = one.get("beyond the version before")
        text = f", beyond the one before {shown(beyond)}" if beyond else ""
        print(f"{one['version']} {one['outcome']} ({one['why']}){text}")
    print(f"{found['minutes']:.1f} minutes")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        work=(Path, "new folder for the runs"),
        users=(50, "number of users"),
        conversations=(2000, "rated conversations with each gateway"),
        guests=(6, "conversations of each user without a thumb, in each half"),
        every=(0, "rated answers that a version takes; 200, and 60 during the kills"),
        kills=(0, "number of kills"),
        run=("", "run of a gateway that serves a version that it learned, to begin the kills with a copy of it"),
        first=(200, "rated answers that a version takes before the kills; 0: they begin at once"),
        phases=(list(PHASES), f"phases in which something is killed: {', '.join(PHASES)}"),
        longest=(60.0, "longest time that a phase is waited for, in seconds"),
        seed=7,
    ).parse_args(arguments)
    return tell(killed(options) if options.kills else beside_memory(options), options.json, show)


if __name__ == "__main__":
    main()
