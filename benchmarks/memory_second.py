"""How well the skill graph finds abstracts of the Cranfield collection, a second set that no setting was chosen on.

    git clone https://github.com/oussbenk/cranfield-trec-dataset
    python benchmarks/memory_second.py --data cranfield-trec-dataset

1,400 abstracts of aerodynamics become shared skills of their first author. 225 questions are asked by somebody who owns
nothing. Whatever isn't judged irrelevant counts as relevant. Neither owners nor the order of the abstracts say much
here, so the terms of the graph have to stay out of the way.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memory_locomo import DEPTHS, SYSTEMS, Figures, show_systems

from agentfw_benchmarks import Options, tell
from agentfw_memory import NewSkill, SkillGraph

NAMES = (
    "defaults",
    "without terms of the graph",
    "words alone (BM25, stemmed)",
    "vectors alone",
    "neighbours off",
    "not calibrated",
)


def abstracts(folder: Path) -> dict[str, NewSkill]:
    """Read the documents by their numbers. The file isn't well-formed XML, so tags are searched for."""
    text = (folder / "cran.all.1400.xml").read_text("utf-8")
    found = {}
    for document in re.findall(r"<doc>(.*?)</doc>", text, re.DOTALL):
        fields = {name: _field(document, name) for name in ("docno", "author", "text")}
        author = fields["author"].split(",")[0].split(" and ")[0].strip() or "nobody"
        # Abstracts begin with their titles. Two are empty.
        found[fields["docno"]] = NewSkill(author, fields["text"] or "no abstract", visibility="shared")
    return found


def questions(folder: Path) -> list[tuple[str, frozenset[str]]]:
    """Read the questions with their relevant documents. Judgements count the questions in the order of the file."""
    relevant: dict[int, set[str]] = {}
    for line in (folder / "cranqrel.trec.txt").read_text("utf-8").splitlines():
        number, _, document, grade = line.split()
        if int(grade) > 0:
            relevant.setdefault(int(number), set()).add(document)
    asked = re.findall(r"<title>(.*?)</title>", (folder / "cran.qry.xml").read_text("utf-8"), re.DOTALL)
    return [(" ".join(text.split()), frozenset(relevant.get(place, ()))) for place, text in enumerate(asked, start=1)]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    documents = abstracts(options.data)
    asked = [(text, wanted & documents.keys()) for text, wanted in questions(options.data)]
    asked = [(text, wanted) for text, wanted in asked if wanted]
    results = {}
    for name in NAMES:
        figures = results[name] = Figures()
        with SkillGraph.open(":memory:", tenant="t", embedder=options.embedder, settings=SYSTEMS[name]) as graph:
            ids = dict(zip(documents, (skill.id for skill in graph.add_skills(documents.values())), strict=True))
            for text, relevant in asked:
                wanted = {ids[number] for number in relevant}
                hits = [hit.skill.id for hit in graph.recall(text, user="a reader", k=max(DEPTHS))]
                figures.note(hits, wanted)
    first = results[NAMES[0]]
    rows = [figures.record(name, first) for name, figures in results.items()]
    return {"documents": len(documents), "questions": len(asked), "embedder": options.embedder, "systems": rows}


def _field(document: str, name: str) -> str:
    match = re.search(rf"<{name}>(.*?)</{name}>", document, re.DOTALL)
    return " ".join(match.group(1).split()) if match else ""


def show(result: dict[str, Any]) -> None:
    print(f"{result['questions']} questions about {result['documents']} abstracts, {result['embedder']}")
    show_systems(result["systems"])


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    about = "folder with the collection's three files"
    options = Options(__doc__, data=(Path, about), embedder="wordllama").parse_args(arguments)
    return tell(measure(options), options.json, show)


if __name__ == "__main__":
    main()
