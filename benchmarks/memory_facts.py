"""Facts that change: does a recall show the newest value first, and what held at an earlier time?

    python benchmarks/memory_facts.py
    python benchmarks/memory_facts.py --half held_out --json
    python benchmarks/memory_facts.py --locomo locomo10.json

People have phone numbers, homes, jobs, preferences and so on (library/agentfw_benchmarks/fact_wordings.json), and each
of these facts changes one to four times. Every value is told in a wording drawn from one half of the wordings, so a
fact is seldom told twice in the same words; with `--same` it always is. The rules were written with the first half
(`chosen`) at hand. The second (`held_out`) was written before the rules, and is what the docs report.

"newest first" is the share of questions whose first hit has the newest value, "by chance" what a random one of the
fact's statements would give. "as of" asks for a moment in the middle of an earlier value's time. "stale" is how many
hits with an outdated value are shown without a date. With `--locomo`, every sentence of its conversations is added
for its speaker, and what was superseded is printed: a sentence seldom corrects an earlier one, so most are mistakes.
"""

from __future__ import annotations

import argparse
import json
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from agentfw_benchmarks import Options, mean_of, shown, tell
from agentfw_benchmarks.question_sets import conversation
from agentfw_memory import GraphSettings, SkillGraph
from agentfw_memory.graph.facts.values import split_words

WORDINGS = Path(__file__).parent / "library" / "agentfw_benchmarks" / "fact_wordings.json"
DAY = 86_400.0
FIRST = split_words(
    """
    Lena Tom Ana Piotr Grace Omar Ines Yuki Sven Carla Hugo Mira Ben Noor Ivan Ruth Leo Emma Finn Zoe
    """
)
LAST = split_words(
    """
    Berg Silva Novak Haddad Tanaka Larsen Moreau Conti Weber Okoye Petrov Murphy Ruiz Koch Lindgren
    """
)
CITIES = split_words(
    """
    Berlin Hamburg Lisbon Oslo Vienna Madrid Kyoto Dublin Prague Boston Toronto Lyon Porto Ghent Riga
    """
)
COMPANIES = split_words(
    """
    Bosch Siemens Nokia Airbus Lufthansa Danone Philips Volvo Ericsson Novartis Unilever Roche
    """
)
MONTHS = split_words(
    """
    January February March April May June July August September October November December
    """
)


def values(draw: random.Random) -> dict[str, Callable[[], str]]:
    """How a value of each kind is drawn."""
    return {
        "phone": lambda: f"+49 30 {draw.randrange(1000, 9999)} {draw.randrange(100, 999)}",
        "email": lambda: f"{draw.choice(FIRST).lower()}{draw.randrange(999)}@{draw.choice(LAST).lower()}.example",
        "city": lambda: draw.choice(CITIES),
        "company": lambda: draw.choice(COMPANIES),
        "job": lambda: draw.choice(["sales manager", "team lead", "data engineer", "product owner", "head of finance"]),
        "date": lambda: f"{draw.randrange(1, 28)} {draw.choice(MONTHS)}",
        "clock": lambda: f"{draw.randrange(5, 21)}:{draw.choice(['00', '15', '30', '45'])}",
        "person": lambda: draw.choice(["Paula", "Max", "Nadia", "Jonas", "Elif", "Kofi", "Alex", "Robin"]),
        "number": lambda: str(draw.randrange(3, 60)),
        "money": lambda: f"{draw.randrange(4, 40) * 50} euros",
        "drink": lambda: draw.choice(["green tea", "coffee", "orange juice", "sparkling water", "hot chocolate"]),
        "colour": lambda: draw.choice(split_words("red blue green yellow purple orange black white")),
        "diet": lambda: draw.choice(["vegan", "vegetarian", "pescatarian", "keto"]),
        "car": lambda: draw.choice(["Volvo", "Fiat", "Toyota Yaris", "Tesla", "Renault Clio", "Skoda"]),
        "language": lambda: draw.choice(["German", "English", "French", "Spanish", "Italian"]),
        "seat": lambda: draw.choice(["aisle", "window"]),
        "doctor": lambda: f"Dr. {draw.choice(LAST)}",
        "code": lambda: f"{draw.randrange(1000, 9999)}{draw.choice('ABC#')}",
    }


def told(draw: random.Random, half: dict[str, Any], people: int, same: bool) -> list[dict[str, Any]]:
    """Draw facts, each with its values and the words in which each of them is told."""
    drawn, facts = values(draw), []
    names = draw.sample([f"{first} {last}" for first in FIRST for last in LAST], people)
    for place, name in enumerate(names):
        for kind, wording in half.items():
            count, before = draw.randint(2, 5), ""
            said, fixed = [], draw.choice(wording["statements"])
            for _ in range(count):
                value = drawn[wording["value"]]()
                while value == before:
                    value = drawn[wording["value"]]()
                text = fixed if same else draw.choice(wording["statements"])
                said.append((value, text.format(n=name, v=value)))
                before = value
            me = wording.get("me", False)
            question = draw.choice(wording["questions"]).format(n=name)
            facts.append({"kind": kind, "user": f"user{place}" if me else "team", "said": said, "question": question})
    return facts


def measure(options: argparse.Namespace) -> dict[str, Any]:
    draw = random.Random(options.seed)
    half = json.loads(WORDINGS.read_text("utf-8"))[options.half]
    facts = told(draw, half, options.people, options.same)
    clock = [1.7e9]
    graph = SkillGraph.open(
        ":memory:",
        tenant="facts",
        embedder=options.embedder,
        settings=GraphSettings(newest_wins=not options.keep_all),
        clock=lambda: clock[0],
    )
    turns = [(fact, place) for fact in facts for place in range(len(fact["said"]))]
    draw.shuffle(turns)
    seen: dict[int, int] = {}
    for fact, _ in turns:  # facts change in turn, each in its own order
        place = seen[id(fact)] = seen.get(id(fact), -1) + 1
        clock[0] += DAY / 24
        fact.setdefault("when", []).append(clock[0])
        graph.add_skill(owner=fact["user"], text=fact["said"][place][1])
    newest: dict[str, list[float]] = {}
    past: dict[str, list[float]] = {}
    stale, outdated, superseded = 0, 0, 0
    for fact in facts:
        known = [value for value, _ in fact["said"]]
        hits = graph.recall(fact["question"], user=fact["user"], k=5)
        texts = {text: value for value, text in fact["said"]}
        right = bool(hits) and texts.get(hits[0].skill.text) == known[-1]
        newest.setdefault(fact["kind"], []).append(float(right))
        if options.wrong and not right:
            print(
                fact["question"], [text for _, text in fact["said"]], [hit.skill.told for hit in hits[:3]], sep="\n   "
            )
        for hit in hits:
            if texts.get(hit.skill.text, known[-1]) != known[-1]:
                outdated += 1
                stale += "since" not in hit.skill.told and " to " not in hit.skill.told
        place = draw.randrange(len(known) - 1)
        asked = (fact["when"][place] + fact["when"][place + 1]) / 2
        was = graph.recall(fact["question"], user=fact["user"], k=5, as_of=asked)
        then = bool(was) and texts.get(was[0].skill.text) == known[place]
        past.setdefault(fact["kind"], []).append(float(then))
        if options.wrong and not then:
            print("as of", place, fact["question"], fact["said"], [hit.skill.told for hit in was[:3]], sep="\n   ")
    superseded = graph.stats().past_versions
    graph.close()
    everything = [value for some in newest.values() for value in some]
    return {
        "half": options.half,
        "facts": len(facts),
        "statements": len(turns),
        "superseded": superseded,
        "to supersede": len(turns) - len(facts),
        "newest first": mean_of(everything),
        "by chance": len(facts) / len(turns),
        "as of": mean_of([value for some in past.values() for value in some]),
        "outdated hits": outdated,
        "stale": stale,
        "newest first, by fact": {kind: sum(some) / len(some) for kind, some in newest.items()},
        "as of, by fact": {kind: sum(some) / len(some) for kind, some in past.items()},
    }


def falsely(options: argparse.Namespace) -> dict[str, Any]:
    """Count what is superseded in conversations, where hardly anything is corrected."""
    pairs, count = [], 0
    for record in json.loads(Path(options.locomo).read_text("utf-8")):
        with SkillGraph.open(":memory:", tenant="locomo", embedder="hash") as graph:
            turns = sorted(conversation(record).notes.values(), key=lambda turn: turn.valid_from or 0.0)
            said = [
                replace(turn, text=sentence)
                for turn in turns
                for sentence in re.split(r"(?<=[.!?])\s+", turn.text.partition(": ")[2])
                if sentence.strip()
            ]
            count += len(said)
            for number in {skill.id for skill in graph.add_skills(said)}:
                texts = [version.text for version in graph.history(number).versions]
                pairs += [list(pair) for pair in pairwise(texts)]
    return {"sentences": count, "superseded": len(pairs), "pairs": pairs}


def show(result: dict[str, Any]) -> None:
    for name, value in result.items():
        if isinstance(value, dict) and "mean" not in value:
            print(name + ": " + ", ".join(f"{kind} {share:.2f}" for kind, share in value.items()))
        elif isinstance(value, list):
            print(*(f"  {before}\n    -> {after}" for before, after in value), sep="\n")
        else:
            print(f"{name}: {shown(value) if isinstance(value, dict) else value}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, people=20, seed=7)
    parser.add_argument("--half", choices=["chosen", "held_out"], default="held_out", help="Half of the wordings.")
    parser.add_argument("--same", action="store_true", help="Tell all values of a fact in one wording.")
    parser.add_argument("--keep-all", action="store_true", help="Supersede nothing, to measure the order alone.")
    parser.add_argument("--wrong", action="store_true", help="Print the questions with a wrong first hit.")
    parser.add_argument("--embedder", default="wordllama", help="Embedder.")
    parser.add_argument("--locomo", default="", help="File of LoCoMo, to count what is superseded in it.")
    options = parser.parse_args(arguments)
    return tell(falsely(options) if options.locomo else measure(options), options.json, show)


if __name__ == "__main__":
    main()
