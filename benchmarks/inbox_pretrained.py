"""A pretrained language model at the inbox, whose thinking takes as long as it really does: which interface is best?

    python benchmarks/inbox_pretrained.py
    python benchmarks/inbox_pretrained.py --days 5 --pace 0.5 --model path/to/model --json

The model is that of real_model.py, a base model that decides after some examples. One unit of the world's time is a
second, and a decision takes as many as the model computes on this machine, by the median of twenty decisions in
processor time; `--pace` gives them instead. Two other agents have the same pace: `rule` answers the most urgent mail
and writes otherwise, and `chance` does something at random. Differences are in the balanced score, to the step loop on
the same days.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from typing import Any

from real_model import folder_of

from agentfw import Intervention, Moment
from agentfw_benchmarks import Options, tell
from agentfw_benchmarks.deciding import Choices, continuing, pace_of, play_each, print_rows, rows_of
from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings
from agentfw_plugins.worlds.inbox.environment import Inbox

INTERFACES = ("step_loop", "polling:15", "reflex", "event_driven")
FIGURES = ("balanced", "document", "missed", "decisions")
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


class Desk:
    """What an assistant knows from what it has observed."""

    def __init__(self) -> None:
        self._mails: dict[int, str] = {}
        self._sections = 0

    def look(self, moment: Moment) -> tuple[str, Choices]:
        for observation in moment.observations:
            name, data = observation.name, observation.data
            if name == "mail":
                self._mails[data["message"]] = data["urgency"]
            elif name in ("handled", "missed"):
                self._mails.pop(data["message"], None)
            elif name in ("document", "section"):
                self._sections = data["sections"]
        work = [one.name for one in moment.in_flight if one.running]
        mails = ", ".join(f"{number} {urgency}" for number, urgency in self._mails.items()) or "none"
        report = f"{self._sections} sections left" if self._sections else "finished"
        doing = ", being written" if "write" in work else ", a mail is being answered" if work else ""
        choices: dict[str, Intervention | None] = {}
        if not work or "write" in work:
            for number in sorted(self._mails, key=lambda one: _URGENCIES.index(self._mails[one])):
                choices[f"answer {number}"] = Intervention("handle_email", {"message": number})
        if self._sections and not work:
            choices["write"] = Intervention("write")
        if work or not choices:
            choices["wait"] = None
        return f"mails: {mails}. report: {report}{doing}.", choices


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    settings = TransformersSettings(model=str(folder_of(options.model)), template="plain", precision="fp32", batch=16)
    policy = TransformersPolicy(settings)
    model = continuing(policy, EXAMPLES)
    desk = "mails: {0} high. report: 2 sections left."
    pace = options.pace or await pace_of(model, desk, ("answer {0}", "write"))
    tasks = Inbox().tasks(options.days, 11, "test")
    played = await play_each(INTERFACES, tasks, Inbox, lambda: Desk().look, model, pace)
    await policy.close()
    return {"days": options.days, "pace": pace, "rows": rows_of(played, FIGURES, FIGURES[0])}


def show(result: dict[str, Any]) -> None:
    print(f"{result['days']} days under each interface; a decision takes {result['pace']:g}; means and 95% intervals")
    print_rows(result["rows"], FIGURES)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, days=10, model=("", "a folder or a GGUF file"))
    parser.add_argument("--pace", type=float, help="seconds that a decision takes; default: measured")
    options = parser.parse_args(arguments)
    return tell(asyncio.run(measure(options)), options.json, show)


if __name__ == "__main__":
    main()
