"""How well the right one of 5, 100 or 5,000 skills is chosen for a task.

    python benchmarks/skill_choice.py --abcd FOLDER

A task has one right skill. The arms see names and descriptions, or the whole text; they search by BM25 without stop
words, or with the skill graph. Two arms have also learned how earlier tasks went, and know whose task it is. `right
first` is how often the first skill is the right one (precision at 1), `among 5` how often it is one of the first five
(recall at 5), each with the 95% interval over tasks.

Public skills come without tasks. So the skills are a stand-in: the procedures of ABCD (MIT), and to fill up, functions
and classes of Python's standard library with their docstrings, which are far from the tasks and therefore easy to tell
apart. A task is what the guidelines say of the customer ("The customer wants to upgrade to overnight shipping."), which
no skill contains. Each procedure has two versions, for two offices, that differ in one sentence. For people of an
office its own version is right: only the outcomes of earlier tasks tell, which are sentences of the procedure.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from agentfw_benchmarks import Options, difference_of, mean_of, tell
from agentfw_memory import NewSkill, SkillGraph
from agentfw_memory.graph.index.embedders import Embedder, open_embedder

FIRST, OFFICES, PEOPLE = 5, ("Ghent", "Lyon"), 4
LIBRARY = "library"
"""Who owns all skills, which are shared."""
_BEST, _PLAIN = "graph, descriptions and outcomes", "BM25, descriptions"
_DRAWS, _FEW = 20, 50  # with fewer skills than 50, they are drawn 20 times
_LONGEST = 4_000  # characters of a docstring
_SKIPPED = ("antigravity", "this", "idlelib", "test", "tkinter", "turtle", "lib2to3", "ensurepip")


@dataclass(frozen=True, slots=True)
class Skill:
    name: str
    description: str
    body: str
    subject: str
    """Two versions of a skill have one subject."""


@dataclass(frozen=True, slots=True)
class Task:
    text: str
    skill: str
    user: str
    earlier: bool


def procedures(folder: Path) -> tuple[list[Skill], list[Task]]:
    """The procedures of ABCD as skills, one for each office, and tasks of people of both."""
    skills, tasks = list[Skill](), list[Task]()
    guides = json.loads((folder / "guidelines.json").read_text("utf-8")).values()
    every = Counter(text for about in guides for one in about["subflows"].values() for text in one["instructions"])
    for about in guides:
        for subject, one in about["subflows"].items():
            told = [text for action in one["actions"] for text in (action["text"], *action["subtext"])]
            wanted = [text for text in one["instructions"] if every[text] == 1 and "customer" in text.lower()]
            for office in OFFICES:
                name = f"{'-'.join(re.findall(r'[a-z0-9]+', subject.lower()))}-{office.lower()}"
                body = "\n".join([*told, f"This is how it is done in {office}."])
                skills.append(Skill(name, about["description"], body, subject))
                for place, text in enumerate((*wanted, *told[::2])):
                    # Everybody has done some of it before. None of what is asked was asked before.
                    tasks.append(Task(text, name, f"{office} {place % PEOPLE}", place >= len(wanted)))
    return skills, tasks


def docstrings() -> Iterator[Skill]:
    """Functions and classes of the standard library, each as a skill."""
    there = {found.name for found in pkgutil.iter_modules()} & sys.stdlib_module_names - {*_SKIPPED}
    for module in sorted(name for name in there if not name.startswith("_")):
        try:
            members = inspect.getmembers(import_module(module))
        except Exception:  # one that is of another system
            continue
        for name, member in members:
            inner = vars(member).items() if inspect.isclass(member) else ()
            methods = [(f"{name}.{one}", each) for one, each in inner if callable(each) and not one.startswith("_")]
            for path, one in [(name, member), *methods]:
                text = inspect.getdoc(one) or ""
                if not name.startswith("_") and len(text.split()) > 8:
                    first, _, rest = text.partition("\n")
                    yield Skill(f"{module}-{path}", first.strip(), rest.strip()[:_LONGEST], f"{module}.{path}")


def _terms(text: str) -> list[str]:
    """The words of a text for BM25, stemmed, without stop words."""
    import bm25s
    import snowballstemmer

    tokens = bm25s.tokenize([text], stopwords="en", return_ids=False, show_progress=False)
    found: list[str] = snowballstemmer.stemmer("english").stemWords(tokens[0])
    return found or ["-"]


Chosen = Callable[[Task], list[str]]
"""The names of the first five skills for a task."""


def arms(skills: Sequence[Skill], tasks: Sequence[Task], embedder: Embedder) -> Iterator[tuple[str, Chosen]]:
    """Each way of choosing, by its name."""
    import bm25s

    names = [skill.name for skill in skills]
    described = [f"{skill.name}\n{skill.description}" for skill in skills]
    whole = [f"{text}\n{skill.body}" for text, skill in zip(described, skills, strict=True)]
    index = bm25s.BM25()
    index.index([_terms(text.replace("-", " ")) for text in described], show_progress=False)

    def by_words(task: Task) -> list[str]:
        return [names[place] for place in np.argsort(-index.get_scores(_terms(task.text)), kind="stable")[:FIRST]]

    yield _PLAIN, by_words
    for name, texts, learns in (
        ("graph, descriptions", described, False),
        (_BEST, described, True),
        ("graph, whole and outcomes", whole, True),
    ):
        with SkillGraph.open(":memory:", tenant="choice", embedder=embedder) as graph:
            added = graph.add_all(NewSkill(LIBRARY, text, visibility="shared") for text in texts)
            ids = dict(zip(names, (skill.id for skill in added), strict=True))
            of_id = {one: name for name, one in ids.items()}
            if learns:
                _learn(graph, skills, ids, tasks)
            yield name, partial(_by_graph, graph, of_id)


def _by_graph(graph: SkillGraph, of_id: Mapping[str, str], task: Task) -> list[str]:
    return [of_id[hit.skill.id] for hit in graph.recall(task.text, user=task.user, k=FIRST)]


def _learn(graph: SkillGraph, skills: Sequence[Skill], ids: Mapping[str, str], tasks: Sequence[Task]) -> None:
    """Each earlier task was tried with either version of its skill, and went well with the right one."""
    subjects = {skill.name: skill.subject for skill in skills}
    versions: dict[str, list[str]] = {}
    for name, subject in subjects.items():
        versions.setdefault(subject, []).append(name)
    for place, task in enumerate(task for task in tasks if task.earlier):
        for name in versions[subjects[task.skill]]:
            trip: dict[str, Any] = {"id": f"{place}/{name}", "user": task.user, "query": task.text}
            trip |= {"skills": [ids[name]], "shown": [ids[name]]}
            graph.learn(trip, float(name == task.skill))


def measure(
    skills: Sequence[Skill], tasks: Sequence[Task], fill: Sequence[Skill], sizes: Sequence[int], most: int, seed: int
) -> dict[str, Any]:
    """Choose for the tasks that aren't earlier ones, among each number of skills."""
    embedder, result = open_embedder("wordllama"), dict[str, Any]()
    for size in sizes:
        found: dict[str, list[tuple[float, float]]] = {}
        for number in range(_DRAWS if size < _FEW else 1):
            draw = random.Random(f"{seed}/{size}/{number}")
            some = drawn(skills, fill, size, draw)
            there = {skill.name for skill in some}
            known = [task for task in tasks if task.skill in there]
            asked = [task for task in known if not task.earlier]
            asked = draw.sample(asked, min(most, len(asked)))
            for name, choose in arms(some, known, embedder):
                for task, chosen in ((task, choose(task)) for task in asked):
                    row = float(chosen[:1] == [task.skill]), float(task.skill in chosen)
                    found.setdefault(name, []).append(row)
        firsts = {name: [first for first, _ in rows] for name, rows in found.items()}
        result[f"{size:,} skills"] = {
            "tasks": len(firsts[_BEST]),
            "arms": {
                name: {"right first": mean_of(firsts[name]), "among 5": mean_of([among for _, among in rows])}
                for name, rows in found.items()
            },
            f"{_BEST} - {_PLAIN}": difference_of(firsts[_BEST], firsts[_PLAIN]),
        }
    return result


def drawn(skills: Sequence[Skill], fill: Sequence[Skill], size: int, draw: random.Random) -> list[Skill]:
    """So many skills, with all versions of a subject or none, and filled up where there are too few."""
    subjects = list(dict.fromkeys(skill.subject for skill in skills))
    versions = max(1, round(len(skills) / len(subjects)))
    kept = {*draw.sample(subjects, max(1, min(len(subjects), size // versions)))}
    some = [skill for skill in skills if skill.subject in kept]
    return some + draw.sample(fill, max(0, min(size - len(some), len(fill))))


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    given = Options(
        __doc__,
        abcd=(Path, "folder with guidelines.json of ABCD"),
        sizes=[5, 100, 5_000],
        most=(200, "tasks of each size"),
        seed=1,
    ).parse_args(arguments)
    skills, tasks = procedures(given.abcd)
    return tell(measure(skills, tasks, list(docstrings()), given.sizes, given.most, given.seed), given.json)


if __name__ == "__main__":
    main()
