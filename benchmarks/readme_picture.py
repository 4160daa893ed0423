"""The README's pictures: how a user is learned, and what an interface costs.

    python benchmarks/readme_picture.py learning docs/pictures/learning.svg
    python benchmarks/readme_picture.py interfaces docs/pictures/interfaces.svg

Everything in them is played here. The first shows the ten held-out users of the calendar, a year each. The second shows
one agent on one day of mails; the day is the most typical of a hundred: the one whose three balanced scores are nearest
to the means of all days.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from statistics import mean

from agentfw import Engagement, Episode, Interface, Policy, PolicyAgent, Task
from agentfw.interfaces import EventDriven, Polling, StepLoop
from agentfw.report import Canvas, Lane, Mark, Series, Span, lanes_chart, line_chart
from agentfw.report.statistics import bootstrap
from agentfw_plugins.memories.strategyhub import StrategyHubMemory, StrategyHubSettings
from agentfw_plugins.policies.local.tiny_policy import TinyPolicy
from agentfw_plugins.policies.scripted import RandomPolicy, ScriptedPolicy
from agentfw_plugins.worlds.calendar.environment import CalendarConflicts
from agentfw_plugins.worlds.calendar.policies import RulesPolicy, RulesSettings
from agentfw_plugins.worlds.inbox.environment import Inbox

INTERFACES: dict[str, Interface] = {"event driven": EventDriven(), "polling 15": Polling(15), "step loop": StepLoop()}
DAYS = 100
TINY = "learns its user"


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
                spans.append(Span(begun.pop(event.data["id"]), event.time, kind))
        elif event.kind == "observation" and event.name == "missed":
            marks.append(Mark(event.time, "missed", "interruption"))
    spans += [Span(time, episode.ended) for time in begun.values()]
    return Lane(f"{name}  {episode.outcome['balanced']:.2f}", spans=spans, marks=marks)


def interfaces() -> Canvas:
    """One agent, one day, three interfaces."""
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


def learning() -> Canvas:
    """The error of who learns over a year, beside policies that learn nothing."""
    policies: dict[str, Policy] = {
        TINY: TinyPolicy(),
        "most urgent first": RulesPolicy(RulesSettings(rule="most_urgent")),
        "by chance": RandomPolicy(),
    }
    return line_chart(
        [year(name, policy) for name, policy in policies.items()],
        title="Error falls as the agent learns its user",
        y_label="wrong decisions, share of the last 10 rounds; ten users; bands: 95%",
        x_label="round",
        y_range=(0, 1),
        width=600,
    )


def year(name: str, policy: Policy) -> Series:
    """The mean error of ten users by round, each smoothed over the last ten."""
    memories = [StrategyHubMemory(StrategyHubSettings(show=True))] if name == TINY else []

    async def course(task: Task) -> Episode:
        agent = PolicyAgent(policy, memories=memories, recall=10)
        return await Engagement(CalendarConflicts(), agent, EventDriven()).run(task)

    async def all_of_them() -> list[Episode]:
        return await asyncio.gather(*map(course, CalendarConflicts().tasks(10, seed=7, split="test")))

    courses = []
    for episode in asyncio.run(all_of_them()):
        errors = episode.series("error")
        courses.append([mean(errors[max(0, place - 9) : place + 1]) for place in range(len(errors))])
    intervals = [bootstrap(list(values)) for values in zip(*courses, strict=True)]
    return Series(
        name,
        [interval.estimate for interval in intervals],
        low=[interval.low for interval in intervals],
        high=[interval.high for interval in intervals],
        quiet=name != TINY,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    pictures = {"learning": learning, "interfaces": interfaces}
    parser.add_argument("picture", choices=pictures)
    parser.add_argument("file", type=Path, help="an .svg")
    options = parser.parse_args()
    options.file.write_text(pictures[options.picture]().to_svg(), "utf-8")


if __name__ == "__main__":
    main()
