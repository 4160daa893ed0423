"""Simple players in the proactive world, the judge beside the references, interfaces, and what the environment costs.

    python plugins/papers/benchmarks/proactive_environment.py
    python plugins/papers/benchmarks/proactive_environment.py --domain home_loan --dialogues 500 --json

The players and the judge need no model. The table of interfaces plays the demonstration with answers that take longer
than a turn: each counts 12 tokens of 0.1 turns.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

from agentfw import Engagement, Generation, Policy, PolicyAgent, Request, Turn
from agentfw.interfaces import parse_interface
from agentfw_benchmarks import Figure, Options, mean_of, outcomes_of_references, shown, tell
from agentfw_papers.worlds.proactive.environment import Proactive
from agentfw_papers.worlds.proactive.judge import Listener
from agentfw_papers.worlds.proactive.prompting import dialogue_lines
from agentfw_papers.worlds.proactive.settings import ProactiveSettings

FIGURES = ("ac", "max_ac", "difference", "pt", "ftr", "rar", "silent", "missed", "balance")


class Late(Policy):
    """Says what the demonstration says, as an answer of 12 tokens."""

    async def generate(self, request: Request) -> Generation:
        assert request.brief.demonstration is not None
        assert request.moment is not None
        said = [str(one) for one in request.brief.demonstration(request.moment)]
        return Generation("\n".join(said), count=12)


def players(environment: Proactive, dialogues: int) -> dict[str, dict[str, Figure]]:
    found = outcomes_of_references(environment, environment.tasks(dialogues, 7, "test"))
    return {player: means(outcomes, FIGURES) for player, outcomes in found.items()}


def means(outcomes: Sequence[Mapping[str, float]], names: Sequence[str]) -> dict[str, Figure]:
    """The means of the figures that are there."""
    found = {name: [one[name] for one in outcomes if name in one] for name in names}
    return {name: mean_of(values) for name, values in found.items() if values}


def judge(environment: Proactive, dialogues: int) -> dict[str, float]:
    """How often what the judge takes for possible is what the reference calls ready."""
    listener = Listener(environment.domain)
    alike = turns = said = both = possible = ready = 0
    for task in environment.tasks(dialogues, 7, "test"):
        example = environment.example(task)
        for number, turn in enumerate(example.dialogue.turns, start=1):
            if turn.speaker == "action":
                continue
            found = listener.listen(dialogue_lines(example.dialogue, 1, number)).possible.keys()
            expected = {one.name for one in example.annotation.at(number).opportunities if one.ready}
            alike, turns, said = alike + (found == expected), turns + 1, said + bool(found or expected)
            both, possible, ready = both + len(found & expected), possible + len(found), ready + len(expected)
    # Silence of both is agreement too, but an easy one.
    silent = turns - said
    return {
        "alike": alike / turns,
        "alike where not silent": (alike - silent) / said,
        "precision": both / max(1, possible),
        "recall": both / max(1, ready),
    }


def interfaces(domain: str, dialogues: int) -> dict[str, dict[str, Figure]]:
    found = {}
    for interface in ("event_driven", "step_loop", "polling:3"):
        settings = ProactiveSettings(domain=domain, unit="dialogue", dialogues=dialogues, time_per_token=0.1)
        outcomes = []
        for task in Proactive(settings).tasks(dialogues, 7, "test"):
            engagement = Engagement(Proactive(settings), PolicyAgent(Late()), parse_interface(interface))
            outcomes.append(asyncio.run(engagement.run(task)).outcome)
        found[interface] = means(outcomes, ("delay", "silent", "ac", "pt"))
    return found


def overhead(environment: Proactive, dialogues: int) -> float:
    """Milliseconds that the environment takes for a turn, in the median: reading, measuring, showing the next one."""
    spent = list[float]()

    class Timed(Proactive):
        def turned(self, turn: Turn) -> None:
            started = time.perf_counter()
            super().turned(turn)
            spent.append(time.perf_counter() - started)

    for task in environment.tasks(dialogues, 7, "test"):
        asyncio.run(Engagement(Timed(environment.settings), PolicyAgent(Late())).run(task))
    return statistics.median(spent) * 1000


def show(found: dict[str, Any]) -> None:
    for title in ("players", "interfaces"):
        print(f"\n{title}")
        for name, figures in found[title].items():
            print(f"{name:14}" + "  ".join(f"{figure} {shown(one)}" for figure, one in figures.items()))
    print("\njudge beside the references:", {name: round(value, 3) for name, value in found["judge"].items()})
    print(f"{found['milliseconds a turn']:.3f} ms a turn")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        domain=("", "domain name or directory; default: the first that ships"),
        dialogues=(500, "number of dialogues"),
    ).parse_args(arguments)
    environment = Proactive(ProactiveSettings(domain=options.domain, unit="dialogue", dialogues=options.dialogues))
    few = min(100, options.dialogues)
    found = {
        "domain": environment.catalog.name,
        "dialogues": options.dialogues,
        "players": players(environment, options.dialogues),
        "judge": judge(environment, few),
        "interfaces": interfaces(options.domain, few),
        "milliseconds a turn": overhead(environment, few),
    }
    return tell(found, options.json, show)


if __name__ == "__main__":
    main()
