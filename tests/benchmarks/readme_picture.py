"""The README's picture: one agent, one day of mails, three interfaces.

    python tests/benchmarks/readme_picture.py docs/pictures/interfaces.svg

Everything in it comes from three episodes with the same seed, played here. The day is the most typical of a hundred:
the one whose three balanced scores are nearest to the means of all days.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agentfw import Engagement, Episode, EventDriven, Interface, PolicyAgent, Polling, StepLoop, Task
from agentfw.report import Canvas, Lane, Mark, Span, lanes_chart
from agentfw_plugins.environments.inbox import Inbox
from agentfw_plugins.policies.scripted import ScriptedPolicy

INTERFACES: dict[str, Interface] = {"event driven": EventDriven(), "polling 15": Polling(15), "step loop": StepLoop()}
DAYS = 100


async def play(interface: Interface, seed: int) -> Episode:
    return await Engagement(Inbox(), PolicyAgent(ScriptedPolicy()), interface).run(Task(0, seed))


def typical_day() -> dict[str, Episode]:
    """The day that differs least from the mean day, under all interfaces together."""
    days = [
        {name: asyncio.run(play(interface, seed)) for name, interface in INTERFACES.items()} for seed in range(DAYS)
    ]
    means = {name: sum(day[name].outcome["balanced"] for day in days) / DAYS for name in INTERFACES}
    return min(days, key=lambda day: sum((day[name].outcome["balanced"] - means[name]) ** 2 for name in INTERFACES))


def lane(name: str, episode: Episode) -> Lane:
    """What the agent did, and which mails it missed."""
    begun: dict[int, float] = {}
    spans, marks = [], []
    for event in episode.events:
        if event.kind == "work" and event.name in ("write", "handle_email"):
            if event.data["state"] in ("started", "resumed"):
                begun[event.data["id"]] = event.time
            else:
                kind = "work" if event.name == "write" else "intervention"
                spans.append(Span(begun.pop(event.data["id"]), event.time, "", kind))
        elif event.kind == "observation" and event.name == "missed":
            marks.append(Mark(event.time, "missed", "interruption"))
    spans += [Span(time, episode.ended, "", "work") for time in begun.values()]
    return Lane(f"{name}  {episode.outcome['balanced']:.2f}", spans=spans, marks=marks)


def picture() -> Canvas:
    episodes = typical_day()
    first = next(iter(episodes.values()))
    mails = [
        Mark(event.time, event.data["urgency"], "observation")
        for event in first.events
        if event.kind == "observation" and event.name == "mail"
    ]
    lanes = [Lane("mails arrive", marks=mails), *(lane(name, episode) for name, episode in episodes.items())]
    return lanes_chart(
        lanes,
        title="One agent, one day of mails, three interfaces",
        time_label="blue: writing; green: handling a mail; cross: a mail missed; behind each name its balanced score",
        width=960,
    )


if __name__ == "__main__":
    target = Path(sys.argv[1])
    drawn = picture()
    target.write_bytes(drawn.to_png() if target.suffix == ".png" else drawn.to_svg().encode())
