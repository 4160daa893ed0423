"""What the agent of a loop's cell was shown in its exam, day by day: how many recalled wishes were true of the user?

    agentfw loop assistant --quick --folder loops/assistant
    python plugins/papers/benchmarks/loop_recall.py loops/assistant/cells/Full-1

A wish counts if it is about what the user asks for. It is right if it names the user's favourite value of a question.
Then the communities of the memory: of two users of one community, how often are they of one circle of taste? If memory
doesn't pay, this tells whether too little is recalled, or the wrong things.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from agentfw import Episode
from agentfw.runs import RunFolder
from agentfw_benchmarks import Options, print_markdown, tell
from agentfw_memory import SkillGraph
from agentfw_papers.worlds.assistant.assistant_settings import AssistantSettings
from agentfw_papers.worlds.assistant.people import People

_WISH = re.compile(r"^- (s\d+): For (\w+), (prefer|avoid|give|provide) ([^(\n]*)(\(.*\))?$", re.MULTILINE)


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    parser = Options(__doc__)
    parser.add_argument("cell", type=Path, help="directory of a cell of a loop in the world assistant")
    options = parser.parse_args(arguments)
    (home,) = (options.cell / "exam").iterdir()
    folder = RunFolder.open(home)
    world = folder.about["spec"]["environment"]["settings"].get("world", AssistantSettings().world)
    people = People(AssistantSettings(world=int(world)))
    days: dict[int, Counter[str]] = defaultdict(Counter)
    for episode in folder.episodes():
        request = next(event.data for event in episode.events if event.name == "request")
        days[int(request["day"])].update(["requests", *_shown(episode, request["scenarios"], people)])
    found = [{"day": day, **_rates(counts)} for day, counts in sorted(days.items())]
    levels = _communities(options.cell / "exam-store" / "skills.db", people)
    tell({"days": found, "communities": levels}, options.json, show)
    return found


def show(result: Mapping[str, list[dict[str, Any]]]) -> None:
    for rows in filter(None, result.values()):
        cells = [["" if value is None else f"{value:.4g}" for value in row.values()] for row in rows]
        print_markdown(list(rows[0]), cells)
        print()


def _communities(store: Path, people: People) -> list[dict[str, Any]]:
    """For each level, the share of pairs of users of one community that are of one circle, and of all pairs."""
    if not store.exists():
        return []
    with tempfile.TemporaryDirectory() as work:
        shutil.copy(store, work)  # opening a graph may write to it
        with SkillGraph.open(Path(work) / store.name, tenant="agentfw") as graph:
            stored = _labels(graph, people)
            graph.prepare()
            afresh = _labels(graph, people)
    found = []
    for level in range(len(stored[0][1]) if stored else 0):
        row: dict[str, Any] = {"level": level, "communities": len({labels[level] for _, labels in stored})}
        for when, known in (("", stored), (", after a full pass", afresh)):
            pairs = [(one[0] == other[0], one[1][level] == other[1][level]) for one, other in combinations(known, 2)]
            together = [same for same, community in pairs if community]
            row[f"of one circle, same community{when}"] = sum(together) / len(together) if together else None
        found.append(row | {"of one circle, all": sum(same for same, _ in pairs) / len(pairs)})
    return found


def _labels(graph: SkillGraph, people: People) -> list[tuple[int, list[int]]]:
    """The circle of each user and their communities."""
    labels = {
        name.removeprefix("user:"): [about[key] for key in sorted(about) if key.startswith("community_")]
        for name, about in graph.to_networkx().nodes(data=True)
        if name.startswith(("user:train ", "user:test "))
    }
    return [(people.person(name).circle, of_user) for name, of_user in labels.items() if of_user]


def _shown(episode: Episode, scenarios: Sequence[str], people: People) -> Iterator[str]:
    """What each wish about the request is, such as "own right". A wish that is shown several times counts once."""
    person = people.person(episode.task.user)
    seen = {found[1]: found for message in episode.messages for found in _WISH.finditer(message.content)}
    for _, scenario, verb, wanted, about in (found.groups() for found in seen.values()):
        if scenario not in scenarios:
            continue
        value = _value(people, scenario, wanted)
        if value is not None:
            question, name = value
            right = (person.tastes[scenario][question] == name) == (verb != "avoid")
            yield f"{'shared' if 'several' in (about or '') else 'own'} {'right' if right else 'wrong'}"


def _value(people: People, scenario: str, wanted: str) -> tuple[str, str] | None:
    """The question and the value that a wish names."""
    said = set(re.findall(r"[\w-]+", wanted.casefold()))
    for question, values in people.domains[scenario].questions.items():
        for value, words in values.items():
            if said & set(words):
                return question, value
    return None


def _rates(counts: Mapping[str, int]) -> dict[str, float | None]:
    """The wishes for each request, and the share of right ones."""
    found: dict[str, float | None] = {}
    for whose in ("own", "shared"):
        right, wrong = counts[f"{whose} right"], counts[f"{whose} wrong"]
        found[f"{whose} wishes"] = (right + wrong) / counts["requests"]
        found[f"{whose}, share right"] = right / (right + wrong) if right + wrong else None
    return found


if __name__ == "__main__":
    main()
