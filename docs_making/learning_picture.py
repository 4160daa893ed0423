"""The README's picture: how the ten held-out users of the calendar are learned, a year each.

    python docs_making/learning_picture.py docs/pictures/learning.svg

Everything in it is played anew.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from statistics import mean

from agentfw import Engagement, Episode, Policy, PolicyAgent, Task
from agentfw.interfaces import EventDriven
from agentfw.report import Canvas, Series, line_chart
from agentfw.report.statistics import bootstrap
from agentfw_plugins.memories.strategyhub import StrategyHubMemory, StrategyHubSettings
from agentfw_plugins.policies.local.tiny_policy import TinyPolicy
from agentfw_plugins.policies.scripted import RandomPolicy
from agentfw_plugins.worlds.calendar.environment import CalendarConflicts
from agentfw_plugins.worlds.calendar.policies import RulesPolicy, RulesSettings

TINY = "learns its user"


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
    parser.add_argument("file", type=Path, help="an .svg")
    parser.parse_args().file.write_text(learning().to_svg(), "utf-8")


if __name__ == "__main__":
    main()
