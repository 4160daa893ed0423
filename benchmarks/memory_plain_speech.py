"""Plain speech: is what people say of themselves found again, and is nothing else taken for it?

    python benchmarks/memory_plain_speech.py
    python benchmarks/memory_plain_speech.py --half chosen --wrong

Messages in twelve languages (library/agentfw_benchmarks/plain_speech_*.tsv): in some, people say what they are, like,
need or ask for, each with a question that should find it. The others are small talk, pasted, quoted, hypothetical,
questions and about other people. Each message is heard by a graph without any model, those of a language as one user's.
"found" is the share of the first that a recall with the question has among its first five hits, "first" as its first
hit. "taken" is the share of the others of which something is kept as if the user had said it of themselves. What is
kept as said of somebody around them ("My sister is vegan", about "my sister") is counted as "about those around". The
rules were written with the half `chosen` at hand; `held_out` was written before the rules, and its
failures have been looked at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agentfw_benchmarks import Options, mean_of, shown, tell
from agentfw_memory import Skill, SkillGraph

LIBRARY = Path(__file__).parent / "library" / "agentfw_benchmarks"


class Message(NamedTuple):
    language: str
    kind: str
    text: str
    question: str


def messages(half: str) -> list[Message]:
    lines = (LIBRARY / f"plain_speech_{half}.tsv").read_text("utf-8").splitlines()
    rows = (line.split("\t") for line in lines)
    return [Message(language, kind, text.replace("\\n", "\n"), asked) for language, kind, text, asked in rows]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    every = messages(options.half)
    found: dict[str, list[float]] = {}
    first: list[float] = []
    taken: dict[str, list[float]] = {}
    around: list[float] = []
    with SkillGraph.open(":memory:", tenant="speech", embedder=options.embedder) as graph:
        kept: dict[Message, list[Skill]] = {}
        for place, message in enumerate(every):
            heard = graph.hear(message.text, user=message.language, conversation="talk", id=str(place))
            kept[message] = [graph.skill(one) for one in heard.kept]
        for message in every:
            if message.kind == "said":
                hits = [hit.skill.id for hit in graph.recall(message.question, user=message.language, k=5)]
                places = [hits.index(skill.id) for skill in kept[message] if skill.id in hits]
                found.setdefault(message.language, []).append(float(bool(places)))
                first.append(float(0 in places))
                wrong = not places
            else:
                own = [one for one in kept[message] if whom(one) == message.language]
                around.append(float(len(own) < len(kept[message])))
                taken.setdefault(message.kind, []).append(float(bool(own)))
                wrong = bool(own)
            if options.wrong and wrong:
                print(message, [skill.text for skill in kept[message]])
    return {
        "half": options.half,
        "said": sum(map(len, found.values())),
        "found": mean_of([value for some in found.values() for value in some]),
        "first": mean_of(first),
        "others": sum(map(len, taken.values())),
        "taken": mean_of([value for some in taken.values() for value in some]),
        "about those around": mean_of(around),
        "found, by language": {language: sum(some) / len(some) for language, some in found.items()},
        "taken, by kind": {kind: sum(some) / len(some) for kind, some in taken.items()},
    }


def whom(skill: Skill) -> str:
    """Whom a statement is about, as the graph recorded it."""
    return str(skill.metadata.get("about", "")) or skill.fact.partition(":")[0] or skill.owner


def show(result: dict[str, Any]) -> None:
    for name, value in result.items():
        if isinstance(value, dict) and "mean" not in value:
            print(name + ": " + ", ".join(f"{one} {share:.2f}" for one, share in value.items()))
        else:
            print(f"{name}: {shown(value) if isinstance(value, dict) else value}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, embedder="wordllama", wrong=(False, "Print the messages that went wrong."))
    parser.add_argument("--half", choices=["chosen", "held_out"], default="held_out", help="Half of the messages.")
    options = parser.parse_args(arguments)
    return tell(measure(options), options.json, show)


if __name__ == "__main__":
    main()
