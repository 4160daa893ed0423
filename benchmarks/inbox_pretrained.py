"""A pretrained language model at the inbox, whose thinking takes as long as it really does: which interface is best?

    python benchmarks/inbox_pretrained.py
    python benchmarks/inbox_pretrained.py --days 5 --pace 0.5 --model path/to/model --json

The model is that of real_model.py. A base model makes no calls, so it isn't asked for one: it goes on with a few lines
of examples and the state of the desk, at temperature 0, with one of the things that can be done there. One unit of the
world's time is a second, and a decision takes as many as the model computes on this machine, by the median of twenty
decisions in processor time; `--pace` gives them instead. Two other agents have the same seconds: `rule` handles the
most urgent mail and writes otherwise, and `chance` does something at random. Gains are to the step loop on the same
days.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from real_model import folder_of

from agentfw import Engagement, Generation, Intervention, Moment, Policy, PolicyAgent, Request, Task
from agentfw.episode import Message
from agentfw.interfaces import parse_interface
from agentfw.request import Sampling
from agentfw.timeline import Time
from agentfw_benchmarks import Options, difference_of, mean_of, print_markdown, shown, tell
from agentfw_plugins.policies.transformers import TransformersPolicy, TransformersSettings
from agentfw_plugins.worlds.inbox.environment import Inbox

INTERFACES = ("step_loop", "polling:15", "reflex", "event_driven")
FIGURES = ("balanced", "document", "missed")
SAMPLING = Sampling(temperature=0.0, max_tokens=12)
EXAMPLES = """\
Answer urgent mails first. Write the report only if there is no mail.

mails: 5 high. report: 3 sections left, being written.
next: answer 5

mails: none. report: 4 sections left.
next: write

mails: 2 low, 7 high. report: 4 sections left.
next: answer 7

mails: 1 medium. report: 2 sections left, being written.
next: answer 1

mails: none. report: 1 sections left.
next: write

mails: 3 high, 4 medium. report: 2 sections left.
next: answer 3

mails: 8 low. report: finished.
next: answer 8
"""
_URGENCIES = ("high", "medium", "low")

Choose = Callable[[str, list[str]], Any]
"""Of a description of the desk and what can be done there, what is done; may have to be awaited."""


class Desk:
    """What an assistant knows from what it has observed."""

    def __init__(self) -> None:
        self.mails: dict[int, str] = {}
        self.sections = 0

    def hear(self, moment: Moment) -> None:
        for observation in moment.observations:
            name, data = observation.name, observation.data
            if name == "mail":
                self.mails[data["message"]] = data["urgency"]
            elif name in ("handled", "missed"):
                self.mails.pop(data["message"], None)
            elif name in ("document", "section"):
                self.sections = data["sections"]

    def described(self, moment: Moment) -> tuple[str, list[str]]:
        """The state of the desk, and what can be done there."""
        work = [one.name for one in moment.in_flight if one.running]
        mails = ", ".join(f"{number} {urgency}" for number, urgency in self.mails.items()) or "none"
        report = f"{self.sections} sections left" if self.sections else "finished"
        doing = ", being written" if "write" in work else ", a mail is being answered" if work else ""
        choices = [f"answer {number}" for number in self.mails] if not work or "write" in work else []
        choices += ["write"] if self.sections and not work else []
        return f"mails: {mails}. report: {report}{doing}.", [*choices, "wait"] if work or not choices else choices


class Assistant(Policy):
    """Decides by `choose`, and takes `pace` for each decision. One for each day, as it knows its desk."""

    is_program = True

    def __init__(self, choose: Choose, pace: Time) -> None:
        self._choose, self._pace, self._desk = choose, pace, Desk()
        self.decisions = 0

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        self._desk.hear(request.moment)
        state, choices = self._desk.described(request.moment)
        chosen = choices[0]
        if len(choices) > 1:
            self.decisions += 1
            chosen = self._choose(state, choices)
            chosen = await chosen if asyncio.iscoroutine(chosen) else chosen
        what, _, number = chosen.partition(" ")
        calls = {"write": Intervention("write"), "wait": None}
        call = calls[what] if what in calls else Intervention("handle_email", {"message": int(number)})
        return Generation(chosen, () if call is None else (call,), count=int(len(choices) > 1), said=chosen)

    def generation_time(self, generation: Generation, time_per_token: Time) -> Time:
        return self._pace * generation.length


def rule(state: str, choices: list[str]) -> str:
    """The most urgent mail, the oldest first; without mails, the report."""
    urgency = dict(mail.split() for mail in state.partition(".")[0].removeprefix("mails: ").split(", ") if " " in mail)
    mails = [one for one in choices if one.startswith("answer")]
    if mails:
        return min(mails, key=lambda one: _URGENCIES.index(urgency[one.split()[1]]))
    return "write" if "write" in choices else "wait"


def chance(draws: random.Random) -> Choose:
    return lambda _, choices: draws.choice(choices)


def continuing(model: Policy) -> Choose:
    """Ask a base model which of the choices the text goes on with."""

    async def choose(state: str, choices: list[str]) -> str:
        schema = {"type": "string", "enum": choices}
        text = f"{EXAMPLES}\n{state}\nnext:"
        answer = await model.generate(Request([Message("user", text)], sampling=SAMPLING, schema=schema, plain=True))
        return str(json.loads(answer.text))

    return choose


async def pace_of(choose: Choose, decisions: int = 20) -> float:
    """Seconds that the processor takes for a decision, one at a time: other programs shouldn't count."""
    took = []
    for number in range(decisions):
        began = time.process_time()
        await choose(f"mails: {number} high, {number + 1} low. report: 2 sections left.", [f"answer {number}", "write"])
        took.append(time.process_time() - began)
    return median(took)


async def played(make: Callable[[Task], Choose], pace: Time, days: int) -> dict[str, list[dict[str, float]]]:
    """The figures of the same days under each interface."""

    async def day(interface: str, task: Task) -> dict[str, float]:
        assistant = Assistant(make(task), pace)
        episode = await Engagement(Inbox(), PolicyAgent(assistant), parse_interface(interface)).run(task)
        return {**episode.outcome, "decisions": float(assistant.decisions)}

    tasks = Inbox().tasks(days, 11, "test")
    return {one: list(await asyncio.gather(*(day(one, task) for task in tasks))) for one in INTERFACES}


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    settings = TransformersSettings(model=str(folder_of(options.model)), template="plain", precision="fp32", batch=16)
    policy = TransformersPolicy(settings)
    model = continuing(policy)
    pace = options.pace or round(await pace_of(model), 2)
    agents: dict[str, Callable[[Task], Choose]] = {
        "model": lambda _: model,
        "rule": lambda _: rule,
        "chance": lambda task: chance(random.Random(task.id)),
    }
    rows = []
    for agent, make in agents.items():
        found = await played(make, pace, options.days)
        for interface, days in found.items():
            row: dict[str, Any] = {"agent": agent, "interface": interface}
            row |= {name: mean_of([one[name] for one in days]) for name in (*FIGURES, "decisions")}
            if interface != INTERFACES[0]:
                first = found[INTERFACES[0]]
                row["gain"] = difference_of([one["balanced"] for one in days], [one["balanced"] for one in first])
            rows.append(row)
    await policy.close()
    return {"days": options.days, "pace": pace, "rows": rows}


def show(result: dict[str, Any]) -> None:
    print(f"{result['days']} days under each interface; a decision takes {result['pace']:g} s; means and 95% intervals")
    columns = ("balanced", "gain", "document", "missed", "decisions")
    rows = [[row["agent"], f"`{row['interface']}`", *(_cell(row, name) for name in columns)] for row in result["rows"]]
    print_markdown(["agent", "interface", *columns], rows)


def _cell(row: dict[str, Any], name: str) -> str:
    return shown(row[name], {"gain": "+.3f", "decisions": ".1f"}.get(name, ".3f")) if name in row else ""


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, days=10, model=("", "a folder or a GGUF file"))
    parser.add_argument("--pace", type=float, help="seconds that a decision takes; default: measured")
    options = parser.parse_args(arguments)
    return tell(asyncio.run(measure(options)), options.json, show)


if __name__ == "__main__":
    main()
