"""How well the right one of 5, 100 or 5,000 skills is chosen for a task.

    python benchmarks/skill_choice.py --abcd shared/data/abcd
    python benchmarks/skill_choice.py --skills FOLDER --tasks tasks.jsonl     # SKILL.md files that you have fetched

A task has one right skill. The arms see names alone, names and descriptions, or the whole text; they search by BM25
without stop words, by vectors, or with the skill graph. Two arms have also learned how earlier tasks went, and know
whose task it is. `right first` is how often the first skill is the right one (precision at 1), `among 5` how
often it is one of the first five (recall at 5), each with the 95% interval over tasks.

Public skills come without tasks. So the skills are a stand-in: the procedures of ABCD (MIT), and to fill up, functions
and classes of Python's standard library with their docstrings, which are far from the tasks and therefore easy to tell
apart. A task is what the guidelines say of the customer ("The customer wants to upgrade to overnight shipping."), which
no skill contains. Each procedure has two versions, for two offices, that differ in one sentence. For people of an
office its own version is right: only the outcomes of earlier tasks tell, which are sentences of the procedure.

A line of tasks.jsonl is {"text": ..., "skill": NAME, "user": ..., "earlier": true}; of the earlier ones the arm with
outcomes learns that this skill was right.
"""

from __future__ import annotations

import inspect
import json
import pkgutil
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
                name = f"{_slug(subject)}-{office.lower()}"
                body = "\n".join([*told, f"This is how it is done in {office}."])
                skills.append(Skill(name, about["description"], body, subject))
                for place, text in enumerate((*wanted, *told[::2])):
                    # Everybody has done some of it before. None of what is asked was asked before.
                    tasks.append(Task(text, name, f"{office} {place % PEOPLE}", place >= len(wanted)))
    return skills, tasks


def docstrings() -> Iterator[Skill]:
    """Functions and classes of the standard library, each as a skill."""
    for module in sorted(found.name for found in pkgutil.iter_modules() if found.name in _stdlib()):
        try:
            members = inspect.getmembers(import_module(module))
        except Exception:  # one that is of another system
            continue
        for name, member in members:
            for path, one in [(name, member), *((f"{name}.{inner}", each) for inner, each in _methods(member))]:
                text = inspect.getdoc(one) or ""
                if not name.startswith("_") and len(text.split()) > 8:
                    first, _, rest = text.partition("\n")
                    yield Skill(f"{module}-{path}", first.strip(), rest.strip()[:_LONGEST], f"{module}.{path}")


def _stdlib() -> set[str]:
    import sys

    return {name for name in sys.stdlib_module_names if not name.startswith("_")} - {*_SKIPPED}


def _methods(member: object) -> list[tuple[str, object]]:
    if not inspect.isclass(member):
        return []
    return [(name, one) for name, one in vars(member).items() if callable(one) and not name.startswith("_")]


def _slug(text: str) -> str:
    return "-".join(re.findall(r"[a-z0-9]+", text.lower()))


def _terms(text: str) -> list[str]:
    """The words of a text for BM25, stemmed, without stop words."""
    import bm25s
    import snowballstemmer

    tokens = bm25s.tokenize([text], stopwords="en", return_ids=False, show_progress=False)
    found: list[str] = snowballstemmer.stemmer("english").stemWords(tokens[0])
    return found or ["-"]


def text_of(skill: Skill, seen: str) -> str:
    parts = {"names": (skill.name,), "descriptions": (skill.name, skill.description)}
    return "\n".join(parts.get(seen, (skill.name, skill.description, skill.body)))


Chosen = Callable[[Task], list[str]]
"""The names of the first five skills for a task."""


def arms(skills: Sequence[Skill], tasks: Sequence[Task], embedder: Embedder) -> Iterator[tuple[str, Chosen]]:
    """Each way of choosing, by its name."""
    import bm25s

    names = [skill.name for skill in skills]

    def first(scores: Any) -> list[str]:
        return [names[place] for place in np.argsort(-scores, kind="stable")[:FIRST]]

    for seen in ("names", "descriptions", "whole"):
        texts = [text_of(skill, seen).replace("-", " ") for skill in skills]
        index = bm25s.BM25()
        index.index([_terms(text) for text in texts], show_progress=False)
        vectors = embedder.embed(texts)
        yield f"BM25, {seen}", lambda task, index=index: first(index.get_scores(_terms(task.text)))
        yield f"vectors, {seen}", lambda task, rows=vectors: first(rows @ embedder.embed([task.text])[0])
    for name, seen, learns in (
        ("graph, descriptions", "descriptions", False),
        ("graph, whole", "whole", False),
        ("graph, descriptions and outcomes", "descriptions", True),
        ("graph, whole and outcomes", "whole", True),
    ):
        with SkillGraph.open(":memory:", tenant="choice", embedder=embedder) as graph:
            added = graph.add_all(NewSkill(LIBRARY, text_of(one, seen), visibility="shared") for one in skills)
            ids = dict(zip(names, (skill.id for skill in added), strict=True))
            of_id = {one: name for name, one in ids.items()}
            if learns:
                _learn(graph, skills, ids, tasks)
            yield (
                name,
                lambda task, graph=graph, of_id=of_id: [
                    of_id[hit.skill.id] for hit in graph.recall(task.text, user=task.user, k=FIRST)
                ],
            )


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
            for name, rows in _answers(skills, tasks, fill, size, most, draw, embedder).items():
                found.setdefault(name, []).extend(rows)
        firsts = {name: [row[0] for row in rows] for name, rows in found.items()}
        result[f"{size:,} skills"] = {
            "tasks": len(firsts[_BEST]),
            "arms": {
                name: {
                    figure: mean_of([row[place] for row in rows])
                    for place, figure in enumerate(("right first", "among 5"))
                }
                for name, rows in found.items()
            },
            f"{_BEST} - {_PLAIN}": difference_of(firsts[_BEST], firsts[_PLAIN]),
        }
    return result


def _answers(
    skills: Sequence[Skill],
    tasks: Sequence[Task],
    fill: Sequence[Skill],
    size: int,
    most: int,
    draw: random.Random,
    embedder: Embedder,
) -> dict[str, list[tuple[float, float]]]:
    """Of each arm and task: whether the right skill is first, and whether it is among five."""
    subjects = list(dict.fromkeys(skill.subject for skill in skills))
    versions = max(1, round(len(skills) / len(subjects)))
    kept = {*draw.sample(subjects, max(1, min(len(subjects), size // versions)))}
    some = [skill for skill in skills if skill.subject in kept]
    some += draw.sample(fill, max(0, min(size - len(some), len(fill))))
    there = {skill.name for skill in some}
    known = [task for task in tasks if task.skill in there]
    asked = [task for task in known if not task.earlier]
    asked = draw.sample(asked, min(most, len(asked)))
    return {
        name: [
            (float(found[:1] == [task.skill]), float(task.skill in found))
            for found, task in ((choose(task), task) for task in asked)
        ]
        for name, choose in arms(some, known, embedder)
    }


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, sizes=[5, 100, 5_000], most=(200, "tasks of each size"), seed=1)
    options.add_argument("--abcd", type=Path, help="folder with guidelines.json of ABCD")
    options.add_argument("--skills", type=Path, help="folder of SKILL.md files")
    options.add_argument("--tasks", type=Path, help="tasks for these skills")
    given = options.parse_args(arguments)
    if given.skills is not None and given.tasks is not None:
        from agentfw_memory.graph.exchange.skill_folders import read_skill_folders

        read = {one.name: one for one in read_skill_folders(given.skills)}
        every = [Skill(one.name, one.description, one.body, one.name) for one in read.values()]
        lines = map(json.loads, given.tasks.read_text("utf-8").splitlines())
        tasks = [Task(line["text"], line["skill"], line.get("user", "-"), line.get("earlier", False)) for line in lines]
        wanted = {task.skill for task in tasks}
        skills = [one for one in every if one.name in wanted]
        fill = [one for one in every if one.name not in wanted]
    elif given.abcd is not None:
        skills, tasks = procedures(given.abcd)
        fill = list(docstrings())
    else:
        options.error("pass --abcd, or --skills and --tasks")
    return tell(measure(skills, tasks, fill, given.sizes, given.most, given.seed), given.json)


if __name__ == "__main__":
    main()
