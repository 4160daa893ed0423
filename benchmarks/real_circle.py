"""The circle with a pretrained model: it is served, people say thumbs, it is trained on these, and served again.

    python benchmarks/real_circle.py --work FOLDER                # serve, then train, then serve what was trained
    python benchmarks/real_circle.py --work FOLDER --learn        # it learns while it serves
    python benchmarks/real_circle.py --work FOLDER --own          # who gets a version of their own (--learn-own)

Everything goes through the command line and HTTP, as a user would do it: `agentfw serve`, `agentfw train --from RUN
--optimizer kto`, `agentfw serve --policy RUN`.

Simulated users ask short questions, and like answers of at most --words words, which nobody tells the model: two of the
four examples in the prompt are long. What is measured is the share of liked answers of users whose questions were not
trained on, before and after. With `--learn`, rated conversations come in rounds, each with other questions, until a
version has passed its test and its trial. The model is that of additions.py.

With `--own`, the model is tiny-assistant, and a third of the people likes the opposite of the others: answers that
don't say they are done. No prompt shows it. Each rates --conversations answers, the trainer does its work, and all of
it is done a second time. What it brings is measured on fresh questions, which each person asks under their own name,
and once more as somebody who gets what all others get. Then half of those people are forgotten. Are the answers that
they had rated likelier to the served versions, compared with the policy as it came, than answers to strangers that
nobody rated? 0.5 is chance.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
from additions import folder_of

from agentfw_benchmarks import Options, difference_of, tell, triple_of
from agentfw_benchmarks.gateways import serve
from agentfw_plugins.gateway.learning.ratings import Rating, fresh, read_ratings
from agentfw_plugins.gateway.learning.trainer import Making, attempt
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
DONE = 'done="true"'
"""What most people like, with `--own`. About half of the answers have it."""
FOLLOWS = 20.0
"""Seconds in which the gateway follows, on a busy machine: it loads the model once more."""


SERVED = ("--served-name", "any", "--memory", "none")
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

    def __init__(self, runs: Path, *options: str) -> None:
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


def written_spec(options: argparse.Namespace) -> Path:
    options.work.mkdir(parents=True, exist_ok=True)
    spec: Path = options.work / "spec.toml"
    spec.write_text(SPEC.format(rate=options.rate, updates=options.updates, tasks=options.tasks), "utf-8")
    return spec


def questions(draw: random.Random, trained: int, held_out: int, patterns: Sequence[str]) -> tuple[list[str], list[str]]:
    """Questions for the training, and about other things for the measurement."""
    things = THINGS.split()
    draw.shuffle(things)
    middle = len(things) // 2
    parts = [[each.format(one) for one in some for each in patterns] for some in (things[:middle], things[middle:])]
    if max(trained, held_out) > len(parts[0]):
        raise SystemExit(f"there are {len(parts[0])} questions for each; ask for fewer conversations")
    return draw.sample(parts[0], trained), draw.sample(parts[1], held_out)


def answered(session: str, body: dict[str, Any], likes: Callable[[str], bool], *, rate: bool) -> tuple[float, str, str]:
    """Whether the user likes the answer, 0 or 1, the answer, and the version that gave it."""
    with httpx.Client(timeout=1800, trust_env=False) as client:
        answer = client.post(f"{session}/v1/chat/completions", json=body).raise_for_status()
        text = str(answer.json()["choices"][0]["message"]["content"]).strip()
        if rate:
            thumb = {"value": "up" if likes(text) else "down", "user": body["user"]}
            client.post(f"{session}/feedback", json=thumb).raise_for_status()
    return float(likes(text)), text, answer.headers.get("x-agentfw-version", "")


def converse(
    url: str, asked: Sequence[str], options: argparse.Namespace, *, rate: bool, name: str
) -> tuple[list[float], list[str]]:
    """One user for each question. Returns what each liked, and was answered. Sessions begin with the name."""

    def one(number: int) -> tuple[float, str, str]:
        said = [{"role": "user", "content": f"{SHOWN}Question: {asked[number]}\nAnswer:"}]
        body = {"model": "base", "user": f"user-{number}", "messages": said}
        body |= {"max_tokens": options.tokens, "stop": ["\n"]}
        return answered(
            f"{url}/s/{name}-{number}", body, lambda text: 0 < len(text.split()) <= options.words, rate=rate
        )

    with ThreadPoolExecutor(32) as pool:
        found = list(pool.map(one, range(len(asked))))
    return [liked for liked, _, _ in found], [text for _, text, _ in found]


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
        service = Service(runs, *SERVED, *words)
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
    spec = written_spec(options)
    serves = ("--policy", "transformers", *policy, "--set", f"seed={options.seed}")
    learns = ("--learn", "--learn-every", str(options.every), "--learn-spec", str(spec))
    service = Service(options.work, *SERVED, *serves, *learns)
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


class Company:
    """People with two tastes, and a gateway that learns when it is told to."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.draw, self.asked = options, random.Random(options.seed), 0
        self.people = [f"person-{number}" for number in range(options.people)]
        self.contrary = set(self.people[: options.people // 3])
        self.spec, self.seconds, self.trained = written_spec(options), 0.0, 0
        self.runs = options.work / "runs"
        policy = ("--policy", "transformers", "--set", "policy.model=tiny-assistant", "--set", f"seed={options.seed}")
        first = Service(self.runs, "--memory", "none", *policy)
        first.file.create()
        with first.file.change() as state:
            state.every, state.owns = 1, True
        first.end()
        self.service = Service(self.runs, "--resume", str(first.run))
        self.file = self.service.file

    def talk(self, asking: Mapping[str, str], count: int, *, rate: bool) -> dict[str, list[tuple[float, str]]]:
        """Conversations of people, each under a name. Returns whether they like what they hear, and its version."""
        jobs = list[tuple[str, str, str, int]]()
        for _ in range(count):
            what = f"{self.draw.choice(['tea', 'bread', 'rice', 'milk'])} {self.draw.randint(1, 10**4)}"
            jobs += [(name, person, what, self.asked + place) for place, (name, person) in enumerate(asking.items())]
            self.asked += len(asking)

        def one(job: tuple[str, str, str, int]) -> tuple[str, float, str]:
            name, person, what, number = job
            body: dict[str, Any] = {"model": "agentfw", "temperature": 1, "max_tokens": 60, "user": name}
            body["messages"] = [{"role": "user", "content": what}]
            session = f"{self.service.url}/s/c{number}"
            liked, _, version = answered(
                session, body, lambda text: (DONE in text) != (person in self.contrary), rate=rate
            )
            return name, liked, version

        found: dict[str, list[tuple[float, str]]] = {name: [] for name in asking}
        with ThreadPoolExecutor(32) as pool:
            for name, liked, version in pool.map(one, jobs):
                found[name].append((liked, version))
        return found

    def train(self) -> None:
        """Let the trainer do its work. It takes part in the measurement, so it is not in a process of its own."""
        while True:
            began, before = time.process_time(), self.file.read()
            attempt(self.file, self.spec)
            state = self.file.read()
            self.seconds += time.process_time() - began
            everybodys = [sum(not one.user for one in each.versions) for each in (before, state)]
            self.trained += len(state.tried.items() - before.tried.items()) + everybodys[1] - everybodys[0]
            if not state.rebuilds:
                break
        time.sleep(FOLLOWS / 4)

    def likelier(self, versions: Sequence[str], members: Sequence[Rating], others: Sequence[Rating]) -> list[float]:
        """For each of `members`, the share of `others` that versions have learned less of: 0.5 where nobody learned it.

        Those are compared that are alike in whether they would be liked. What was liked should have become likelier.
        """
        making = Making(self.file, self.file.read(), self.spec)
        adapters, asked = making.adapters({named(0), *versions}), [*members, *others]
        logprobs = asyncio.run(making.logprobs(adapters, dict.fromkeys(adapters, asked)))

        def area(one: Rating, version: str) -> float:
            learned = {each: logprobs[version][each] - logprobs[named(0)][each] for each in (one, *others)}
            sign = 1 if one.liked else -1
            less = [sign * (learned[one] - learned[each]) for each in others if each.liked == one.liked]
            return sum((each > 0) + 0.5 * (each == 0) for each in less) / len(less)

        return [sum(area(one, version) for version in versions) / len(versions) for one in members]


def own_versions(options: argparse.Namespace) -> dict[str, Any]:
    company = Company(options)
    alone = {person: person for person in company.people}
    as_others = {f"as-others-{person}": person for person in company.people}
    try:
        rounds = list[dict[str, Any]]()
        for number in range(2):
            company.talk(alone, options.conversations, rate=True)
            if not number:
                company.talk(as_others, options.conversations // 3, rate=False)  # what nobody learns from
            company.train()
            own = company.file.read().own
            now = company.talk({**alone, **as_others}, options.measured, rate=False)
            for name, heard in now.items():
                expected = own[name].name if name in own else named(company.file.read().served)
                assert {version for _, version in heard} == {expected}, (name, heard, expected)
            rows = list[dict[str, Any]]()
            for kind, is_contrary in (("like the opposite", True), ("agree with most", False)):
                people = [one for one in company.people if (one in company.contrary) == is_contrary]
                theirs = [liked for one in people for liked, _ in now[one]]
                others = [liked for one in people for liked, _ in now[f"as-others-{one}"]]
                rows.append(
                    {"people": kind, "of": len(people), "own": sum(one in own for one in people)}
                    | {"others": triple_of(others), "theirs": triple_of(theirs), "gain": difference_of(theirs, others)}
                )
            rounds.append({"served": named(company.file.read().served), "rows": rows})
        sizes = [sum(each.stat().st_size for each in company.file.adapter(one).iterdir()) for one in own.values()]
        forgotten = sorted(company.contrary)[: max(1, len(company.contrary) // 2)]
        episodes = {one.task.query: one for one in company.file.episodes()}
        members = [
            one
            for one in read_ratings(episodes.values())
            if one.user in forgotten and one.version == named(0) and one.whole and not one.held_out
        ]
        strangers = [
            Rating(one.task.query, "", 0.0, DONE not in turn.text, "", turn.prompt_ids, turn.token_ids, False)
            for one in episodes.values()
            for turn in one.turns
            if one.task.user in as_others and turn.version == named(0) and turn.finish == "stop"
        ]
        before = [
            area
            for user in forgotten
            if user in own
            for area in company.likelier([own[user].name], [one for one in members if one.user == user], strangers)
        ]
    finally:
        company.service.end()
    for person in forgotten:
        command = [sys.executable, "-m", "agentfw", "serve", "forget", person, "--yes", "--runs", str(company.runs)]
        subprocess.run([*command, "--run", str(company.file.run)], check=True, stdout=subprocess.PIPE)
    company.train()
    state = company.file.read()
    served = [named(state.served)] if state.served else []
    served += [one.name for one in state.own.values()]
    rest = company.likelier(served, members, strangers) if served else []
    return {
        "rounds": rounds,
        "CPU seconds": company.seconds / max(1, company.trained),
        "bytes": max(sizes, default=0),
        "forgotten": forgotten,
        "served after": served,
        "before": triple_of(before or [0.5]),  # the policy as it came has learned from nobody
        "after": triple_of(rest or [0.5]),
    }


def compared(before: Sequence[float], after: Sequence[float], texts: Sequence[str]) -> dict[str, Any]:
    figures = {"before": triple_of(before), "after": triple_of(after), "difference": difference_of(after, before)}
    return {**figures, "answers after": texts[:5]}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        model=("", "folder or GGUF file of the model"),
        work=(Path("real-circle"), "folder of the runs"),
        learn=(False, "learn while it serves"),
        own=(False, "with versions of single users"),
        people=(12, "people, with --own"),
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
    if options.own:
        found = own_versions(options)
    else:
        policy = ["--set", f"policy.model={folder_of(options.model)}", "--set", "policy.template=plain"]
        found = (while_it_serves if options.learn else circle)(options, policy)
    return tell({"seed": options.seed, **found, "minutes": (time.monotonic() - began) / 60}, options.json)


if __name__ == "__main__":
    main()
