"""What the agent of a loop's cell was shown in its exam, day by day: how many recalled wishes were true of the user?

    agentfw loop assistant --quick --folder loops/assistant
    python tests/benchmarks/loop_recall.py loops/assistant/cells/Full-1

A wish counts if it is about what the user asks for. It is right if it names the user's favourite value of a question.
If memory doesn't pay, this tells whether too little is recalled, or the wrong things.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agentfw import Episode
from agentfw.runs import RunFolder
from agentfw_plugins.worlds.assistant.assistant_settings import AssistantSettings
from agentfw_plugins.worlds.assistant.people import People

_WISH = re.compile(r"^- (s\d+): For (\w+), (prefer|avoid|give|provide) ([^(\n]*)(\(.*\))?$", re.MULTILINE)


def main(arguments: Sequence[str] | None = None) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cell", type=Path, help="Directory of a cell of a loop in the world assistant.")
    parser.add_argument("--json", action="store_true")
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
    if options.json:
        print(json.dumps(found))
    else:
        names = list(found[0])
        print(f"| {' | '.join(names)} |", "|" + " --- |" * len(names), sep="\n")
        for row in found:
            print(f"| {' | '.join('' if value is None else f'{value:.4g}' for value in row.values())} |")
    return found


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
