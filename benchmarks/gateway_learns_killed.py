"""A gateway that learns while it is killed: is a version served after each kill, and is all feedback there?

    python benchmarks/gateway_learns_killed.py --work FOLDER
    python benchmarks/gateway_learns_killed.py --work FOLDER --run RUN
    python benchmarks/gateway_learns_killed.py --work FOLDER --run RUN --phases compares publishes

Users talk with the gateway until it has learned a version and serves it. With --run, the run of a gateway that does so
already is copied instead, such as one of gateway_learns.py. Then most of them come to like other things,
so that newer versions can be better, and the kills begin, while users ask and rate all the time. The gateway and its
trainer are killed in turns (SIGKILL) at a random moment of each phase of the trainer, or of --phases: while it trains,
while it compares the new version, while that is published, and while a canary is judged. After a kill of the gateway it
is started again with --resume. Required: each time the version that the file names is served, its adapter is complete,
and no acknowledged thumb is lost.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
from choosing_users import Card, User, chosen, people
from learning_gateway import Service, answer_of, body_of, converse, learning_every, mention

from agentfw.runs import read_sessions
from agentfw.seeds import Seeds
from agentfw_benchmarks import TESTS, Options, tell
from agentfw_plugins.gateway.learning.version_file import named
from agentfw_plugins.rewards.measured import feedback_of

sys.path.insert(0, str(TESTS / "plugins" / "gateway"))

PHASES = {"trains": 4.0, "compares": 1.0, "publishes": 0.02, "on trial": 2.0}
"""The phases of a trainer, and within how many seconds of their beginning it is killed."""
PAUSE = 0.3
"""Seconds between two conversations of a user, in which the trainer has the processor."""
FOLLOWS = 10.0
"""Seconds in which a gateway follows its versions at the latest, on a busy machine."""
MORE_TASKS = 32
"""Answers of an update during the kills, so that a training has few of them."""
CARDS = 40
"""How many a user has. They come again after that."""


def phase_of(service: Service) -> str:
    """What the trainer does, as its files say."""
    file = service.file
    state, training = file.read(), file.folder / "training" / "runs"
    known = {one.adapter.partition("/")[0] for one in state.versions}
    versions = file.folder / "versions"
    if any(one.name not in known for one in (versions.iterdir() if versions.exists() else ())):
        return "publishes"
    if any(training.glob("*/summary.json")):
        return "compares"
    if any(training.glob("*/updates.jsonl")):
        return "trains"
    return "on trial" if state.canary else "at rest"


def begun(options: argparse.Namespace, users: Sequence[User]) -> Service:
    """The gateway before the kills."""
    during = learning_every(options.every, options.work, tasks=MORE_TASKS)
    if options.run:
        return Service.of(Path(shutil.copytree(options.run, options.work / Path(options.run).name)), *during)
    if not options.first:
        return Service(options.work, options.seed, *during)
    service = Service(options.work, options.seed, *learning_every(options.first, options.work))
    try:
        learn_first(service, users)
    finally:
        service.kill()
    service.learning = learning_every(options.every, options.work, tasks=MORE_TASKS)
    service.resume()
    return service


def rated_in(service: Service) -> set[str]:
    """The sessions that have a thumb."""
    return {one.task.query for one in read_sessions(service.run) if any(feedback_of(one))}


def learn_first(service: Service, users: Sequence[User]) -> None:
    """Users talk and rate until a version that was learned is served."""
    asyncio.run(mention(service.url, users, 0))
    for number in range(CARDS):
        asyncio.run(converse(service.url, users, number, 0))
        service.learned()
        if service.file.read().served:
            return
    raise SystemExit(f"no version was served after {CARDS} rounds: {service.file.read().said}")


class Load:
    """Users who go on asking and rating until the gateway is gone. They have changed their tastes."""

    def __init__(self, users: Sequence[User], service: Service) -> None:
        self.service, self.acknowledged = service, set[str]()
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


def measure(options: argparse.Namespace) -> dict[str, Any]:
    from killing import trainer_of  # type: ignore[import-not-found]

    seeds = Seeds(options.seed)
    draw = seeds.random("kills")
    users = people(seeds, options.users, CARDS, wrong=0, alike=1, mentioned=2)
    service = begun(options, users)
    load, answered, phases, learned = Load(users, service), Counter[str](), Counter[str](), Counter[str]()
    load.acknowledged.update(rated_in(service))
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
    for name, value in found.items():
        print(f"{name}: {value}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        work=(Path, "new folder for the run"),
        users=(20, "number of users"),
        kills=(20, "number of kills"),
        run=("", "run of a gateway that serves a version that it learned, to begin with a copy of it"),
        first=(200, "rated answers that a version takes before the kills; 0: they begin at once"),
        every=(60, "rated answers that a version takes during the kills"),
        phases=(list(PHASES), f"phases in which something is killed: {', '.join(PHASES)}"),
        longest=(60.0, "longest time that a phase is waited for, in seconds"),
        seed=7,
    ).parse_args(arguments)
    return tell(measure(options), options.json, show)


if __name__ == "__main__":
    main()
