"""Where the answers of a model that imitates noting_teacher.py go wrong, step by step.

Each step is compared with what the teacher would do after what the model has written so far, so an error counts once.
Lines and decisions that are missing aren't counted: `invalid` of calendar_with_hub.py tells of decisions that are none.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

from noting_teacher import decided, entry_of, labels_of, told_by, worth_of

from agentfw import Episode
from agentfw_benchmarks import Figure, mean_of
from agentfw_plugins.worlds.calendar.policies import remembered

_LINE = re.compile(r"(?P<letter>[A-Z]): (?P<labels>.*) = (?P<sum>-?\d+) for [A-Z]")
STEPS = (
    "reads the feedback",
    "notes what is new",
    "names the principles",
    "counts",
    "keeps the greatest sum",
    "decides as the teacher would with its notes",
)


def steps_of(episodes: Iterable[Episode]) -> dict[str, Figure]:
    """The share of each step that is right, with intervals over users."""
    users = [shares_of(episode) for episode in episodes]
    taken = {step: [user[step] for user in users if step in user] for step in STEPS}
    return {step: mean_of(shares) for step, shares in taken.items() if shares}


def shares_of(episode: Episode) -> dict[str, float]:
    right = defaultdict[str, list[bool]](list)
    said = {event.data["round"] + 1: told_by(event.data) for event in episode.events if event.name == "feedback"}
    conflicts = {event.data["round"]: labels_of(event.data) for event in episode.events if event.name == "conflict"}
    for turn in episode.turns:
        lines = turn.text.splitlines() or [""]
        calls = {call.name: call.arguments for call in turn.calls}
        notes = remembered(episode.messages[turn.shown[-1]].content)
        listed = calls.get("strategy_hub", {}).get("strategies")  # whatever the model wrote
        written = [str(entry) for entry in listed] if isinstance(listed, list) else []
        if turn.round in said:
            entry = entry_of(*said[turn.round])
            right["reads the feedback"].append(lines[0] == entry)
            if entry not in notes:
                right["notes what is new"].append(entry in written)
        notes = written or notes
        events, worth, sums = conflicts[turn.round], worth_of(notes), dict[str, int]()
        for line in filter(None, map(_LINE.fullmatch, lines)):
            labels = [part.split(":")[0] for part in line["labels"].split(", ")]
            sums[line["letter"]] = int(line["sum"])
            right["names the principles"].append(labels == (events.get(line["letter"]) or ["nothing"]))
            right["counts"].append(sums[line["letter"]] == sum(worth.get(label, 0) for label in labels))
        accepted = calls.get("decide", {}).get("accept")
        if isinstance(accepted, str):
            right["keeps the greatest sum"].append(bool(sums) and sums.get(accepted) == max(sums.values()))
            right[STEPS[-1]].append(accepted == decided(events, notes)[1][0])
    return {step: sum(each) / len(each) for step, each in right.items()}
