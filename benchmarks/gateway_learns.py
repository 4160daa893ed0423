"""A gateway that learns while it serves: do its users get more of what they like than with a memory alone?

    python benchmarks/gateway_learns.py --work FOLDER
    python benchmarks/gateway_learns.py --work FOLDER --parts arms --conversations 400 --json

`agentfw serve` serves the model `tiny-assistant` (of agentfw-papers) to users with hidden tastes (choosing_users.py)
over HTTP. They say thumbs up or down, a tenth of them the wrong way round, and half-way most tastes change.

    arms     without memory, with a memory, and with a memory and `--learn`: the share of liked answers by quarter. Then
             each version that was served answers again what it and the version before it were asked, by users who gave
             no thumbs
    poison   one user rates everything the wrong way round, until a version has learned from it; then
             `agentfw serve forget-feedback --user` takes it out
    kills    gateway or trainer are killed (SIGKILL) at random moments, and the gateway is started again with --resume

All arms have the same users, cards and random draws of the policy. People take longer than a training, so the users
wait while a version is made.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from choosing_users import Card, User, chosen, people

from agentfw import Host, Policy, Request, Task
from agentfw.host import HostOptions
from agentfw.request import Sampling
from agentfw.runs import read_sessions
from agentfw.seeds import Seeds
from agentfw_benchmarks import Options, difference_of, print_aligned, shown, tell, triple_of
from agentfw_plugins.gateway.learning.ratings import fresh, read_ratings
from agentfw_plugins.gateway.learning.version_file import REJECTED, VersionFile, named
from agentfw_plugins.rewards.feedback import feedback_of

PATIENCE = 600.0
POLICY = ("--policy", "tiny", "--set", "policy.model=tiny-assistant")
MEMORY = ("--memory", "skillgraph", "--set", "memory.skillgraph.embedder=hash")
ARMS: dict[str, tuple[str, ...]] = {"without memory": (), "memory": MEMORY, "memory and --learn": (*MEMORY, "--learn")}
SERVE = (sys.executable, "-m", "agentfw", "serve")
AT_ONCE = 16
SPEC = """
environment = { name = "from_feedback", settings = { answers = "rated" } }
policy = "tiny"
teacher = "scripted"
optimizer = "kto"
learner = { name = "sft", settings = { learning_rate = 2e-4 } }
rewards = ["feedback"]
updates = 10
tasks = 8
samples = 1
"""
"""The spec train-from-feedback-kto. Of nine trainings with the ratings of seed 1, it was one of two accepted."""


class Said(NamedTuple):
    """An answer, and what its user thought of it."""

    session: str
    user: User
    card: Card
    version: str
    liked: bool


class Service:
    """`agentfw serve`, which can be killed and started again on its run."""

    def __init__(self, runs: Path, options: Sequence[str], *again: str) -> None:
        """`again` are the options that a start with --resume takes, too."""
        self.runs, self.again = runs, again
        self._start(*options, *again)

    def _start(self, *words: str) -> None:
        command = [*SERVE, "--port", "0", "--runs", str(self.runs), "--json", "--model", "any", *words]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        text = ""
        while not text.rstrip().endswith("}"):
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit(f"the gateway didn't start: {' '.join(command)}")
            text += line
        ready = json.loads(text)
        self.url, self.run = ready["url"], Path(ready["folder"])
        self.file = VersionFile(self.run)

    def resume(self) -> None:
        self._start("--resume", str(self.run), *self.again)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def command(self, *words: str) -> Any:
        command = [*SERVE, *words, "--runs", str(self.runs), "--run", self.run.name, "--json"]
        return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)

    def trainer(self) -> int | None:
        """The process id of the trainer, if there is one."""
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if f"learning.trainer\0{self.run}".encode() in path.read_bytes():
                    return int(path.parent.name)
        return None

    def learned(self) -> None:
        """Wait until a version was made of all feedback that there is enough of, and answers if it is served."""
        state, end = self.file.read(), time.monotonic() + PATIENCE
        ratings = read_ratings(self.run, state.removals)
        while state.rebuild or fresh(ratings, state.seen) >= state.every:
            if time.monotonic() > end or self.process.poll() is not None:
                raise TimeoutError(f"no version was made of {len(ratings)} ratings: {state.said}")
            time.sleep(0.2)
            state = self.file.read()
        with httpx.Client(base_url=self.url, timeout=60) as client:
            while _answer(client, "nobody-0", "nobody", "?").headers["x-agentfw-version"] != named(state.served):
                time.sleep(0.2)


def _body(user: str, text: str, seed: int = 0) -> dict[str, Any]:
    said = [{"role": "user", "content": text}]
    return {"model": "any", "user": user, "temperature": 1, "max_tokens": 64, "seed": seed, "messages": said}


def _answer(client: httpx.Client, session: str, user: str, text: str) -> httpx.Response:
    return client.post(f"/s/{session}/v1/chat/completions", json=_body(user, text)).raise_for_status()


async def mention(url: str, users: Sequence[User], change: int) -> None:
    """Each user says some of their tastes in passing, and the memory has time to hear it."""
    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as client:
        for user in users:
            body = _body(user.name, user.says(change))
            answer = await client.post(f"/s/{user.name}-says-{change}/v1/chat/completions", json=body)
            answer.raise_for_status()
        for user in users:
            while (heard := await client.get("/memory", params={"user": user.name})).is_success and heard.json()[
                "waiting"
            ]:
                await asyncio.sleep(0.05)


async def _is_waiting(client: httpx.AsyncClient, user: str) -> bool:
    """Whether something that a user said isn't heard yet. A gateway without a memory refuses to say."""
    heard = await client.get("/memory", params={"user": user})
    return heard.is_success and bool(heard.json()["waiting"])


async def converse(
    url: str, users: Sequence[User], number: int, change: int, *, rate: bool = True, upside_down: bool = False
) -> list[Said]:
    """The conversations of all users with this number."""
    limit = asyncio.Semaphore(AT_ONCE)

    async def one(client: httpx.AsyncClient, user: User) -> Said:
        session, card = f"{user.name}-{number}", user.cards[number]
        async with limit:
            body = _body(user.name, str(card), card.seed)
            answer = await client.post(f"/s/{session}/v1/chat/completions", json=body)
            text = answer.raise_for_status().json()["choices"][0]["message"]["content"]
            liked = card.liked(user.tastes[change], chosen(text or ""))
            if rate:
                thumb = "up" if liked != (card.wrong_thumb or upside_down) else "down"
                rating = {"value": thumb, "user": user.name}
                (await client.post(f"/s/{session}/feedback", json=rating)).raise_for_status()
            (await client.post(f"/s/{session}/end", json={"user": user.name})).raise_for_status()
        return Said(session, user, card, answer.headers.get("x-agentfw-version", ""), liked)

    async with httpx.AsyncClient(base_url=url, timeout=PATIENCE) as client:
        return list(await asyncio.gather(*(one(client, user) for user in users)))


class Heard(NamedTuple):
    """The conversations of an arm."""

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


async def again(host: Host, service: Service, number: int, said: Sequence[Said], change: int) -> list[bool]:
    """What a version answers to what others were asked, with the same recalled text and draws: is it liked?"""
    shown_to = {episode.task.query: episode for episode in read_sessions(service.run)}
    state = service.file.read()
    settings: dict[str, Any] = {"model": "tiny-assistant"}
    if number:
        settings["adapter"] = str(service.file.adapter(state.version(number)))
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
    """The parts of the measurement. The poisoning goes on with the gateway that learned in the arms."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.seeds = options, Seeds(options.seed)
        rounds = options.conversations // options.users
        habits = {"wrong": options.wrong, "alike": options.alike, "mentioned": options.mentioned}
        self.users = people(self.seeds, options.users, rounds + 2 * options.guests, **habits)
        self.host = Host.load(HostOptions())
        spec = options.work / "spec.toml"
        options.work.mkdir(parents=True)
        spec.write_text(SPEC, "utf-8")
        self.learning = ["--learn-every", str(options.every), "--learn-spec", str(spec)]

    def serve(self, arm: str) -> Service:
        words = ARMS[arm]
        learns = ("--learn", *self.learning) if "--learn" in words else ()
        fixed = [word for word in words if word != "--learn"]
        seed = ["--set", f"seed={self.options.seed}"]
        return Service(self.options.work / arm.replace(" ", "-"), [*POLICY, *fixed, *seed], *learns)

    def arms(self) -> dict[str, Any]:
        heard, services = dict[str, Heard](), dict[str, Service]()
        try:
            for arm in ARMS:
                services[arm] = self.serve(arm)
                heard[arm] = live(services[arm], self.users, self.options)
            ours = services["memory and --learn"]
            shares = {arm: quarters(one.rated) for arm, one in heard.items()}
            _, memory, learned = shares.values()
            found = {
                "liked, by quarter": {arm: [triple_of(list(q.values())) for q in each] for arm, each in shares.items()},
                "--learn beyond memory, by quarter": [
                    difference_of(*pair) for pair in zip(learned, memory, strict=True)
                ],
                "--learn beyond memory": difference_of(*(_whole(each) for each in (learned, memory))),
                "versions": self.versions(ours, heard["memory and --learn"]),
            }
            if "poison" in self.options.parts:
                found["poison"] = self.poison(ours, heard["memory and --learn"].guests[1])
            return found
        finally:
            for service in services.values():
                service.kill()

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
        return by_user(asked, asyncio.run(again(self.host, service, number, asked, change)))

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

    def kills(self) -> dict[str, Any]:
        """Kills at random moments under load, with a start on the same run after each kill of the gateway."""
        draw, options = self.seeds.random("kills"), self.options
        learning = ["--learn-every", str(options.every_killed), *self.learning[2:]]
        service = Service(options.work / "kills", [*POLICY, *MEMORY], "--learn", *learning)
        load = Load(self.users, service)
        served, trainers, unserved = set[str](), 0, 0
        try:
            for number in range(options.kills):
                load.start()
                time.sleep(draw.uniform(0.5, 12))
                trainer = service.trainer()
                if number % 2 and trainer:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(trainer, signal.SIGKILL)
                    trainers += 1
                    load.stop()
                else:
                    service.kill()
                    load.stop()
                    service.resume()
                state = service.file.read()
                if state.served and not service.file.adapter(state.version(state.served)).exists():
                    unserved += 1
                with httpx.Client(base_url=service.url, timeout=60) as client:
                    served.add(_answer(client, f"check-{number}", "nobody", "?").headers["x-agentfw-version"])
            rated = {one.task.query for one in read_sessions(service.run) if any(feedback_of(one))}
            state = service.file.read()
        finally:
            load.stop()
            service.kill()
        return {
            "kills": options.kills,
            "of a trainer": trainers,
            "acknowledged thumbs": len(load.acknowledged),
            "lost": len(load.acknowledged - rated),
            "without a served version": unserved,
            "versions made": [f"{named(one.number)} {one.outcome}" for one in state.versions],
            "versions that answered after a kill": sorted(served),
        }


class Load:
    """Users who go on asking and rating until the gateway is gone."""

    def __init__(self, users: Sequence[User], service: Service) -> None:
        self.service, self.acknowledged = service, set[str]()
        self._asks: Iterator[tuple[int, User, Card]] = (
            (number, user, user.cards[number % len(user.cards)]) for number in range(10**6) for user in users
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
                answer = client.post(f"/s/{session}/v1/chat/completions", json=_body(user.name, str(card), card.seed))
                text = answer.raise_for_status().json()["choices"][0]["message"]["content"]
                thumb = "up" if card.liked(user.tastes[0], chosen(text or "")) else "down"
                rating = {"value": thumb, "user": user.name}
                client.post(f"/s/{session}/feedback", json=rating).raise_for_status()
                self.acknowledged.add(session)


def _whole(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    return {name: sum(part[name] for part in parts) / len(parts) for name in parts[0]}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    began, laboratory = time.monotonic(), Laboratory(options)
    found: dict[str, Any] = {"seed": options.seed, "users": options.users, "conversations": options.conversations}
    if "arms" in options.parts:
        found |= laboratory.arms()
    if "kills" in options.parts:
        found["kills"] = laboratory.kills()
    return {**found, "minutes": (time.monotonic() - began) / 60}


def show(found: dict[str, Any]) -> None:
    if "versions" in found:
        rows = [[arm, *map(shown, row)] for arm, row in found["liked, by quarter"].items()]
        rows.append(["--learn beyond memory", *map(shown, found["--learn beyond memory, by quarter"])])
        print_aligned(["liked answers", "1st quarter", "2nd", "3rd", "4th"], rows)
        print(f"--learn beyond memory, over all: {shown(found['--learn beyond memory'])}")
        for one in found["versions"]:
            beyond = one.get("beyond the version before")
            text = f", beyond the one before {shown(beyond)}" if beyond else ""
            print(f"{one['version']} {one['outcome']} ({one['why']}){text}")
    for part in ("poison", "kills"):
        for name, value in found.get(part, {}).items():
            print(f"{part}: {name}: {shown(value) if 'beyond' in name else value}")
    print(f"{found['minutes']:.1f} minutes")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        work=(Path, "new folder for the runs"),
        parts=(["arms", "poison", "kills"], "what to measure; poison needs arms"),
        users=(50, "number of users"),
        conversations=(2000, "rated conversations of each arm"),
        guests=(6, "conversations of each user without a thumb, in each half"),
        wrong=(0.1, "share of thumbs that are the wrong way round"),
        alike=(0.8, "share of tastes that are those of most users"),
        mentioned=(2, "scenarios of which a user mentions their taste"),
        every=(100, "rated answers that a version takes"),
        every_killed=(30, "the same while there are kills"),
        poison=(200, "ratings of the user who rates the wrong way round"),
        kills=(20, "number of kills"),
        seed=7,
    ).parse_args(arguments)
    return tell(measure(options), options.json, show)


if __name__ == "__main__":
    main()
