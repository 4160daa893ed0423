"""Whether earlier messages of a person and their team say where the next one belongs, and three questions beside it.

    python benchmarks/cases.py --banking77 train.csv --people 24 --messages 80        # the nearest case alone
    python benchmarks/cases.py --banking77 train.csv --every 4 --model FILE           # and a frozen language model
    python benchmarks/cases.py --banking77 train.csv --every 4 --model FILE --train FOLDER
    python benchmarks/cases.py --posts Posts.xml
    python benchmarks/cases.py --tau tau-bench [--tape]

Each person files messages of many subjects into eight folders with names of their own, and half of the people exchange
the meaning of two folders half-way. Teams of four share a convention; of the last one of each team a newcomer's first
messages are told apart. Each message is answered, then the right folder is learned as a case; those that a model isn't
asked about (`--every`) are learned as answered by the nearest case. Arms: nothing, six cases at random, the best six by
BM25, by vectors, and by the skill graph with and without communities. The data are banking77 (CC BY 4.0), or any CSV
file with the columns text and category.

`--train` trains a LoRA by GRPO on other people's messages, of other subjects and folders, and measures the model before
and after, with cases and without. `both - the sum` is by how much memory and training together gain more than the sum
of what each gains alone. What is in FOLDER already isn't done again.

`--posts` reads the dump of a Stack Exchange (https://archive.org/download/stackexchange, CC BY-SA). Each answer is a
shared skill of its writer, with the tags of its question as scenarios. The graph learns the earlier 60% of the
questions as their askers' trajectories: 1 for an accepted answer, less for others by their votes. Then the titles of
the later 40% are recalled for their askers. MRR is the mean of the reciprocal rank of the first hit among ten that
answers the question.

`--tau` learns the trajectories of an airline's agent in a clone of https://github.com/sierra-research/tau-bench (MIT):
the first message is the request, the calls of tools that change something are the answer, and all that the customer
said is the outcome. With `--tape`, a strong model's answers, in `writer/airline.jsonl` of the library, decide what is
kept of each message, as in `serve`. `writer/airline_judged.txt` says which sentences last, by a rule that was written
first.
"""

from __future__ import annotations

import csv
import html
import json
import random
import re
import sys
from argparse import Namespace
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import chain, pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from agentfw_benchmarks import Options, difference_of, mean_of, once, tell
from agentfw_benchmarks.figures import share_of
from agentfw_benchmarks.filing import Chooser, Conversation, chooser, train
from agentfw_memory import Case, GraphSettings, NewSkill, SkillGraph, WordIndex, as_messages
from agentfw_memory.graph.index.embedders import open_embedder
from agentfw_memory.writing.writer import ModelWriter

SHOWN, FOLDERS, TEAM, NEWCOMER = 6, 8, 4, 10
NAMES = (
    *("Amber", "Basalt", "Cedar", "Delta", "Ember", "Fjord", "Grove", "Harbor"),
    *("Island", "Jasper", "Kelp", "Lagoon", "Meadow", "Nectar", "Onyx", "Prairie"),
    *("Quartz", "River", "Summit", "Tundra", "Umbra", "Valley", "Willow", "Zephyr"),
)
OTHER_NAMES = (
    *("Aspen", "Birch", "Canyon", "Dune", "Estuary", "Falcon", "Glacier", "Heron"),
    *("Indigo", "Juniper", "Kestrel", "Lotus", "Maple", "Nimbus", "Opal", "Pebble"),
    *("Quarry", "Raven", "Sierra", "Thistle", "Ursa", "Violet", "Walnut", "Yarrow"),
)
"""Of the people whose messages a model is trained on."""
ARMS = ("nothing", "random", "BM25", "vectors", "graph", "graph without communities")


@dataclass(frozen=True)
class Message:
    person: int
    text: str
    folder: str
    place: int
    """Its place in the person's stream."""


def messages_of_csv(path: Path) -> dict[str, list[str]]:
    subjects: dict[str, list[str]] = defaultdict(list)
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            subjects[row["category"]].append(row["text"])
    return subjects


def streams(
    subjects: dict[str, list[str]], people: int, length: int, seed: int, most: int, names: Sequence[str] = NAMES
) -> list[list[Message]]:
    """Return each person's messages, of at most so many subjects. People of a team share subjects and folders."""
    draw, found = random.Random(seed), []
    for person in range(people):
        team = random.Random(f"{seed}/{person // TEAM}")
        folders = team.sample(names, FOLDERS)
        some = team.sample(sorted(subjects), min(most, len(subjects)))
        convention = {name: folders[place % FOLDERS] for place, name in enumerate(team.sample(some, len(some)))}
        swap = dict(zip(folders[:2], reversed(folders[:2]), strict=True)) if person % 2 else {}
        stream = []
        for place in range(length):
            name = draw.choice(some)
            folder = convention[name]
            folder = swap.get(folder, folder) if 2 * place >= length else folder
            stream.append(Message(person, draw.choice(subjects[name]), folder, place))
        found.append(stream)
    return found


def measure(
    streams_of: list[list[Message]], arms: Sequence[str], model: Chooser | None, seed: int, every: int
) -> dict[str, Any]:
    """Play all streams in turns, once for each arm, and return what was right of every so many messages."""
    result: dict[str, Any] = {"people": len(streams_of), "messages": len(streams_of[0]), "arms": {}}
    right: dict[str, list[float]] = {}
    new: dict[str, list[float]] = {}
    for arm in arms:
        print(f"{arm} ...", file=sys.stderr, flush=True)
        played, persons = _played(streams_of, arm, model, seed, every), range(len(streams_of))
        rows = [row for row in played if row[4] % every == 0]
        column = 0 if model else 1
        right[arm], nearest = (
            [fmean([row[side] for row in rows if row[3] == person]) for person in persons] for side in (column, 1)
        )
        first = [row for row in rows if row[3] % TEAM == TEAM - 1 and row[4] < NEWCOMER]
        some = sorted({row[3] for row in first})
        new[arm] = [fmean([row[column] for row in first if row[3] == one]) for one in some]
        result["arms"][arm] = {
            **({"right": mean_of(right[arm])} if model else {}),
            "nearest": mean_of(nearest),
            "by person": right[arm],
            "nearest by person": nearest,
            "newcomers": fmean(new[arm]) if first else None,
        }
    for one, other in (("graph", "random"), ("graph", "BM25"), ("graph", "graph without communities")):
        if {one, other} <= right.keys():
            result[f"{one} - {other}"] = difference_of(right[one], right[other])
            if new[one]:
                result[f"{one} - {other}, newcomers"] = difference_of(new[one], new[other])
    return result


def lessons(streams_of: list[list[Message]], seed: int) -> list[dict[str, Any]]:
    """Return the messages whose folder is among the six cases of the graph, with these, and a quarter also without.

    A model that has never said a folder's name without cases learns to do so from those that have some.
    """
    asked: list[Conversation] = []

    def nearest(conversation: Conversation, folders: Sequence[str]) -> str:
        asked.append(conversation)
        return conversation[-2]["content"]

    played = _played(streams_of, "graph", nearest, seed, 1)
    found = [
        {"prompt": prompt, "answer": streams_of[person][place].folder}
        for whole, (_, _, among, person, place) in zip(asked, played, strict=True)
        if among
        for prompt in ((whole, [whole[0], whole[-1]]) if place % 4 == 0 else (whole,))
    ]
    random.Random(seed).shuffle(found)
    return found


def trained(streams_of: list[list[Message]], others: list[list[Message]], options: Namespace) -> dict[str, Any]:
    """Measure a model as it is and after a training on others' messages, each without cases and with the graph's."""
    work = Path(options.train)
    asked = options.model, options.template
    adapter = train(*asked, lessons(others, options.seed), work / "runs", options.updates, options.rate)
    arms: dict[str, Any] = {}
    for name, version in (("frozen", None), ("trained", adapter)):

        def find(version: Path | None = version) -> dict[str, Any]:
            return measure(streams_of, ("graph", "nothing"), chooser(*asked, version), options.seed, options.every)

        arms[name] = once(work / f"{name}.json", find)["arms"]
    cells = {"neither": ("frozen", "nothing"), "memory": ("frozen", "graph")}
    cells |= {"training": ("trained", "nothing"), "both": ("trained", "graph")}
    right = {name: arms[side][arm]["by person"] for name, (side, arm) in cells.items()}
    right["nearest"] = arms["trained"]["graph"]["nearest by person"]
    parts = zip(right["memory"], right["training"], right["neither"], strict=True)
    beyond = difference_of(right["both"], [memory + training - neither for memory, training, neither in parts])
    against = {f"both - {name}": difference_of(right["both"], right[name]) for name in ("nearest", "memory")}
    return {"right": {name: mean_of(some) for name, some in right.items()}, **against, "both - the sum": beyond}


def _played(
    streams_of: list[list[Message]], arm: str, model: Chooser | None, seed: int, every: int
) -> list[tuple[float, float, float, int, int]]:
    """Return (right, nearest right, folder among those shown, person, place) of each message."""
    draw, embedder = random.Random(f"{seed}/{arm}"), open_embedder("wordllama")
    settings = GraphSettings(share_learned=True)
    if arm == "graph without communities":
        settings = replace(settings, community_weight=0.0)
    rows = []
    order = sorted(chain(*streams_of), key=lambda one: (one.person % TEAM == TEAM - 1, one.place, one.person))
    with SkillGraph.open(":memory:", tenant="cases", embedder="wordllama", settings=settings) as graph:
        for message in order:
            stream = streams_of[message.person]
            cases = _chosen(arm, message, stream[: message.place], graph, draw, embedder)
            folders = sorted({one.folder for one in stream})
            answer = ""
            if model is not None and message.place % every == 0:
                system = f"File the message into one of these folders: {', '.join(folders)}. Answer with the folder."
                asked = [{"role": "system", "content": system}, *as_messages(cases)]
                asked.append({"role": "user", "content": message.text})
                answer = model(asked, folders)
            nearest = next((case.answer for case in reversed(cases) if case.good), "")
            ceiling = float(message.folder in {case.answer for case in cases})
            right = float(answer == message.folder), float(nearest == message.folder), ceiling
            rows.append((*right, message.person, message.place))
            if arm.startswith("graph"):
                given, used = answer or nearest, [case.id for case in cases[-1:]]
                trip = {"id": f"{message.person}/{message.place}", "user": f"p{message.person}", "query": message.text}
                learned = {**trip, "answer": given, "corrected": message.folder, "skills": used}
                graph.learn(learned, float(given == message.folder))
    return rows


def _chosen(
    arm: str, message: Message, own: Sequence[Message], graph: SkillGraph, draw: random.Random, embedder: Any
) -> list[Case]:
    """Return the cases that an arm shows, the best last."""
    if arm.startswith("graph"):
        return graph.cases(message.text, user=f"p{message.person}", k=SHOWN)
    places = list(range(len(own)))
    if arm == "nothing":
        places = []
    elif arm == "random":
        draw.shuffle(places)
    elif arm == "BM25" and own:
        index = WordIndex()
        for place, one in enumerate(own):
            index.put(place, one.text, 0)
        scores = index.question(message.text, None).scores(np.arange(len(own)))
        places = [int(place) for place in np.argsort(scores, kind="stable")]
    elif arm == "vectors" and own:
        scores = embedder.embed([one.text for one in own]) @ embedder.embed([message.text])[0]
        places = [int(place) for place in np.argsort(scores, kind="stable")]
    return [Case("", own[place].text, own[place].folder, 1.0, "") for place in places[-SHOWN:]]


# A forum


class Reply(NamedTuple):
    author: str
    text: str
    reward: float


class Question(NamedTuple):
    asker: str
    title: str
    tags: tuple[str, ...]
    at: float
    replies: list[Reply]


def questions_of(posts: Path) -> list[Question]:
    """Return the questions of a dump that somebody with a name asked and answered, oldest first."""
    asked: dict[str, tuple[Question, str]] = {}
    answers = []
    for _, element in ElementTree.iterparse(posts):
        row = dict(element.attrib)
        element.clear()
        if "OwnerUserId" not in row:
            continue
        owner = f"u{row['OwnerUserId']}"
        if row["PostTypeId"] == "1":
            tags = tuple(re.findall(r"[^<>|]+", row.get("Tags", "")))
            at = datetime.fromisoformat(row["CreationDate"]).replace(tzinfo=UTC).timestamp()
            asked[row["Id"]] = Question(owner, row["Title"], tags, at, []), row.get("AcceptedAnswerId", "")
        elif row["PostTypeId"] == "2":
            answers.append((owner, row))
    for owner, row in answers:
        text = " ".join(html.unescape(re.sub(r"<[^>]+>", " ", row.get("Body", ""))).split())[:5_000]
        if text and row["ParentId"] in asked:
            question, accepted = asked[row["ParentId"]]
            reward = 1.0 if row["Id"] == accepted else min(max(int(row["Score"]), 0), 8) / 10
            question.replies.append(Reply(owner, text, reward))
    return sorted((one for one, _ in asked.values() if one.replies), key=lambda one: one.at)


def forum(questions: Sequence[Question], embedder: str = "") -> dict[str, Any]:
    """Recall the later questions before and after the earlier ones were learned."""
    cut = int(0.6 * len(questions))
    with SkillGraph.open(":memory:", tenant="forum", embedder=embedder) as graph:
        replies = [(place, reply) for place, one in enumerate(questions) for reply in one.replies]
        skills = graph.add_all(
            NewSkill(reply.author, reply.text, (), questions[place].tags, "shared", questions[place].at)
            for place, reply in replies
        )
        answers: list[list[str]] = [[] for _ in questions]
        for (place, _), skill in zip(replies, skills, strict=True):
            answers[place].append(skill.id)
        before = _ranks(graph, questions[cut:], answers[cut:])
        for place, question in enumerate(questions[:cut]):
            for number, (skill_id, reply) in enumerate(zip(answers[place], question.replies, strict=True)):
                trip = {"id": f"{place}/{number}", "user": question.asker, "query": question.title}
                graph.learn({**trip, "scenarios": question.tags, "skills": [skill_id]}, reply.reward)
        after = _ranks(graph, questions[cut:], answers[cut:])
    sizes = {"questions": len(questions), "replies": len(replies), "asked": len(after)}
    return {**sizes, "before": mean_of(before), "after": mean_of(after), "gain": difference_of(after, before)}


def _ranks(graph: SkillGraph, questions: Sequence[Question], answers: Sequence[Sequence[str]]) -> list[float]:
    """Return the reciprocal rank of the first answer to each question, or 0 if it isn't among the first ten."""
    found = []
    for question, right in zip(questions, answers, strict=True):
        hits = graph.recall(question.title, user=question.asker, k=10)
        found.append(next((1.0 / rank for rank, hit in enumerate(hits, 1) if hit.skill.id in right), 0.0))
    return found


# An airline

READING = re.compile(r"get_|search_|list_|find_|calculate|think|transfer_to_human_agents")
"""Tools that change nothing."""
TRIALS = 3
"""How many of the four trials of each task are learned."""
STARTS = datetime(2024, 5, 15, 20, tzinfo=UTC).timestamp()
"""The time that the agent is told. Each trial is played a day later."""
WRITER = Path(__file__).parent / "library" / "agentfw_benchmarks" / "writer"


class Tape:
    """A writer's model that was played before: what it answers to each message of a customer."""

    def __init__(self) -> None:
        self._answers: dict[str, list[dict[str, Any]]] = {}
        for line in (WRITER / "airline.jsonl").read_text("utf-8").splitlines():
            self._answers |= json.loads(line)["answers"]

    async def complete(self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any]) -> str:
        asked = json.loads(messages[-1]["content"])["messages"]
        return json.dumps({"messages": [self._decided(one) for one in asked]})

    def _decided(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        what = json.dumps([message["user"], message["before"], message["own_sentences"]])
        known = {one["text"]: one["id"] for one in message["memories"]}
        answer = self._answers[blake2b(what.encode(), digest_size=6).hexdigest()]
        return [{**one, "id": known.get(one.get("updates"), "")} for one in answer]


def airline(folder: Path, embedder: str = "", tape: bool = False) -> dict[str, Any]:
    """Learn an agent's trajectories, and return what was kept of them."""
    path = folder / "historical_trajectories" / "gpt-4o-airline.json"
    runs = json.loads(path.read_text("utf-8"))
    said: list[str] = []
    counts = dict.fromkeys(("trajectories", "that succeeded", "cases", "good cases", "sentences", "rules"), 0)
    writer = ModelWriter(Tape()) if tape else None
    with SkillGraph.open(":memory:", tenant="airline", embedder=embedder, writer=writer) as graph:
        for run in sorted((one for one in runs if one["trial"] < TRIALS), key=lambda run: run["trial"]):
            turns, task = run["traj"], run["info"]["task"]
            spoken = [turn["content"].replace("###STOP###", "").strip() for turn in turns if turn["role"] == "user"]
            results = {turn["tool_call_id"]: turn["content"] for turn in turns if turn["role"] == "tool"}
            made = [call for turn in turns for call in turn.get("tool_calls") or ()]
            failing = [results.get(call["id"], "").startswith("Error") for call in made]
            told = [(call["function"]["name"], call["function"]["arguments"]) for call in made]
            calls = [(*call, failed) for call, failed in zip(told, failing, strict=True)]
            changes = [f"{name}({given})" for name, given, failed in calls if not (failed or READING.match(name))]
            name = f"{run['task_id']}/{run['trial']}"
            about = {"user": task["user_id"], "conversation": name, "at": STARTS + 86_400 * run["trial"]}
            for before, turn in pairwise(turns) if tape else ():
                if turn["role"] == "user":
                    text = turn["content"].replace("###STOP###", "").strip()
                    answered = before["content"] if before["role"] == "assistant" else ""
                    if problem := graph.hear(text, **about, answer_to=answered).problem:
                        raise SystemExit(f"{name}: {problem}")
            said += spoken
            counts["trajectories"] += 1
            counts["that succeeded"] += run["reward"] >= 1.0
            learned: dict[str, Any] = {"id": name, "user": task["user_id"], "query": spoken[0]}
            learned["steps"] = [{"action": one, "tool": one, "worked": not failed} for one, _, failed in calls]
            learned["outcome"] = "" if tape else "\n".join(spoken)  # what was heard isn't learned once more
            learned["answer"] = "\n".join(changes) or "Nothing was changed."
            graph.learn(learned, run["reward"])
        whole = " ".join(" ".join(said).split())
        kept: list[str] = []
        for skill in (one for owner in graph.admin.owners() for one in graph.skills(owner=owner)):
            if "case" in skill.metadata:
                counts["cases"] += 1
                counts["good cases"] += skill.metadata["case"]["verdict"] >= 0.5
            elif " ".join(skill.metadata.get("said", skill.text).split()) in whole:
                counts["sentences"] += 1
                kept.append(skill.text)
            else:
                counts["rules"] += 1
    lines = (WRITER / "airline_judged.txt").read_text("utf-8").splitlines()
    judged = {text: kind for kind, _, text in (line.partition(" | ") for line in lines)}
    counts |= Counter(judged.get(text, "not judged") for text in kept)
    lasting = share_of(counts.get("lasting", 0), counts["sentences"] + counts["rules"])
    random.Random(0).shuffle(kept)
    return {**counts, "lasting of what is kept": lasting, "drawn": kept[:20]}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, model="", banking77="", people=4, messages=40, subjects=16, every=1, seed=0, arms=[*ARMS])
    parser.add_argument("--template", default="", help="chat template, such as chatml. Default: the model's")
    parser.add_argument("--train", default="", help="folder for a training")
    for name, default in (("--others", 8), ("--updates", 9), ("--rate", 1e-3)):
        parser.add_argument(name, type=type(default), default=default, help="of the training")
    parser.add_argument("--posts", type=Path, help="Posts.xml of a Stack Exchange: measure the forum instead")
    parser.add_argument("--tau", type=Path, help="a clone of tau-bench: count what is kept of its airline instead")
    parser.add_argument("--tape", action="store_true", help="hear the airline's customers with a model's answers")
    parser.add_argument("--embedder", default="", help="of the forum or the airline")
    options = parser.parse_args(arguments)
    if options.posts:
        return tell(forum(questions_of(options.posts), options.embedder), options.json)
    if options.tau:
        return tell(airline(options.tau, options.embedder, options.tape), options.json)
    if not options.banking77:
        parser.error("pass --banking77 FILE.csv, --posts FILE.xml or --tau FOLDER")
    known = messages_of_csv(Path(options.banking77))
    people = streams(known, options.people, options.messages, options.seed, options.subjects)
    if options.train:
        said = {message.text for stream in people for message in stream}
        rest = {name: some for name, some in known.items() if said.isdisjoint(some)}
        others = streams(rest, options.others, options.messages, options.seed, options.subjects, OTHER_NAMES)
        return tell(trained(people, others, options), options.json)
    asked = chooser(options.model, options.template) if options.model else None
    return tell(measure(people, options.arms, asked, options.seed, options.every), options.json)


if __name__ == "__main__":
    main()
