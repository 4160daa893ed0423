"""A pretrained language model decides the calendar's conflicts, never trained on them: what window and events change.

    python benchmarks/calendar_pretrained.py
    python benchmarks/calendar_pretrained.py --users 10 --rounds 104 --windows 1 20 --model path/to/model --json

The model is that of real_model.py. A base model makes no calls, so it isn't asked for one: it goes on with the text of
the conversation after `keep:`, at temperature 0, with one of the round's letters in quotes and nothing else. `chance`
is the error of drawing a letter. Differences are to the first row of their part, user by user.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from real_model import folder_of

from agentfw import Engagement, Generation, Intervention, Policy, PolicyAgent, Request
from agentfw.episode import Message
from agentfw.request import Sampling
from agentfw_benchmarks import Options, Stopwatch, difference_of, mean_of, print_markdown, shown, tell
from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings
from agentfw_plugins.worlds.calendar.environment import CalendarConflicts, CalendarSettings

_ASKED = "keep:"


class Continuing(Policy):
    """Asks a base model which letter the text of the conversation goes on with."""

    def __init__(self, model: Policy) -> None:
        self.model = model

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        (conflict,) = request.moment.of("conflict")
        letters = [event["letter"] for event in conflict.data["events"]]
        text = "\n\n".join([*(message.content for message in request.messages), _ASKED])
        schema = {"type": "string", "enum": letters}
        asked = replace(request, messages=[Message("user", text)], actions=(), schema=schema, plain=True)
        answer = await self.model.generate(asked)
        kept = json.loads(answer.text)
        ranking = [kept, *(letter for letter in letters if letter != kept)]
        return Generation(_ASKED + answer.text, (Intervention("decide", {"accept": kept, "ranking": ranking}),))


async def _errors(policy: Policy, settings: CalendarSettings, users: int, window: int) -> list[float]:
    """The error of each held-out user."""

    async def play(task: Any) -> float:
        agent = PolicyAgent(Continuing(policy), sampling=Sampling(temperature=0.0, max_tokens=8), window=window)
        episode = await Engagement(CalendarConflicts(settings), agent).run(task)
        return episode.outcome["error"]

    tasks = CalendarConflicts(settings).tasks(users, 7, "test")
    return list(await asyncio.gather(*map(play, tasks)))


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    watch = Stopwatch()
    model = TransformersSettings(model=str(folder_of(options.model)), template="plain", precision="fp32", batch=16)
    policy, rows = TransformersPolicy(model), []
    parts = {
        "window": [(window, options.conflicts[-1]) for window in options.windows],
        "conflicts": [(options.windows[-1], conflicts) for conflicts in options.conflicts],
    }
    known: dict[tuple[int, int], list[float]] = {}
    for part, cases in parts.items():
        for window, conflicts in cases:
            settings = CalendarSettings(rounds=options.rounds, conflicts=conflicts, turns=1)
            if (window, conflicts) not in known:
                known[window, conflicts] = await _errors(policy, settings, options.users, window)
            errors, first = known[window, conflicts], known[cases[0]]
            row = {"part": part, "window": window, "conflicts": conflicts, "error": mean_of(errors)}
            row |= {"chance": 1 - 1 / conflicts}
            row |= {} if errors is first else {"difference": difference_of(errors, first)}
            rows.append(row)
    await policy.close()
    return {"users": options.users, "rounds": options.rounds, **watch.took(), "rows": rows}


def show(result: dict[str, Any]) -> None:
    print(
        f"{result['users']} held-out users, {result['rounds']} rounds; means and 95% intervals over users; "
        f"{result['cpu_seconds']:.0f} s of CPU time"
    )
    table = []
    for row in result["rows"]:
        difference = shown(row["difference"], "+.3f") if "difference" in row else ""
        table.append([row["window"], row["conflicts"], shown(row["error"]), f"{row['chance']:.2f}", difference])
    print_markdown(["window", "events", "error", "chance", "difference"], table)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__, users=5, rounds=20, windows=[1, 3, 20], conflicts=[2, 3, 5], model=("", "a folder or a GGUF file")
    ).parse_args(arguments)
    return tell(asyncio.run(measure(options)), options.json, show)


if __name__ == "__main__":
    main()
