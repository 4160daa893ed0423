"""A pretrained language model in the kitchen, whose thinking takes as long as it really does: which interface is best?

    python plugins/papers/benchmarks/kitchen_pretrained.py --model path/to/model
    python plugins/papers/benchmarks/kitchen_pretrained.py --model path/to/model --kitchens 4 --variant one --json

The model is a base model that decides after some examples. A tick is the time in which the tutor says one token, so a
decision takes as many ticks as the model could have written tokens meanwhile, by processor time on this machine;
`--pace` gives them instead. Two other agents have the same pace: `rule` does the first of serving a critical dish,
serving another, staging, preparing and tutoring, and `chance` does something at random. Differences are in utility, to
the event-driven interface in the same kitchens.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Sequence
from typing import Any

from agentfw import Intervention, Moment, Policy, Request
from agentfw.episode import Message
from agentfw.request import Sampling
from agentfw_benchmarks import Options, tell
from agentfw_benchmarks.deciding import Choices, continuing, pace_of, play_each, print_rows, rows_of
from agentfw_papers.worlds.kitchen.environment import Kitchen, KitchenSettings
from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings

INTERFACES = ("event_driven", "step_loop", "polling:40", "reflex")
FIGURES = ("utility", "critical", "soft", "decisions")
EXAMPLES = """\
Serve what is ready at once, first what is critical. Then keep the burners in use. Then tutor.

dishes: rice raw, soup READY critical. burner: none free. pupil: waits. doing: tutoring.
next: finish soup

dishes: stew raw, cake cooking. burner: free. pupil: waits. doing: nothing.
next: prepare stew

dishes: stew prepared, cake done. burner: free. pupil: waits. doing: nothing.
next: stage stew

dishes: stew cooking, cake done. burner: none free. pupil: waits. doing: nothing.
next: tutor

dishes: tart READY, rice cooking. burner: none free. pupil: waits. doing: tutoring.
next: finish tart

dishes: rice cooking. burner: none free. pupil: waits. doing: tutoring.
next: go on

dishes: soup cooking. burner: none free. pupil: knows all. doing: nothing.
next: wait
"""
_ACTS = {"ready": "finish", "prepared": "stage", "raw": "prepare"}


def look(moment: Moment) -> tuple[str, Choices]:
    """What the last observation says, and what can be done, the best first."""
    seen = next(one.data for one in reversed(moment.observations) if "dishes" in one.data)
    running = [work.name for work in moment.in_flight if work.running]
    busy = next((name for name in running if name.startswith(tuple(_ACTS.values()))), "")
    hand = busy or str(seen["hand"])
    waits = any(not problem["done"] for problem in seen["problems"])
    choices: dict[str, Intervention | None] = {}
    for state, act in _ACTS.items():
        for dish in sorted(seen["dishes"], key=lambda one: not one["critical"]):
            call = f"{act} {dish['name']}"
            possible = state == "ready" or (not busy and (state == "raw" or seen["free"]))
            if dish["state"] == state and call != busy and possible:
                choices[call] = Intervention(act, {"dish": dish["name"]})
    cooking = any(dish["state"] == "cooking" for dish in seen["dishes"])
    if hand:
        choices["go on"] = None
    elif waits:
        choices["tutor"] = Intervention("tutor")
    if cooking and not hand:
        choices["wait"] = Intervention("wait")
    if not choices:
        choices["end"] = Intervention("end")
    return _described(seen, hand, waits=waits), choices


def _described(seen: Any, hand: str, *, waits: bool) -> str:
    dishes = ", ".join(
        f"{dish['name']} {'READY' if dish['state'] == 'ready' else dish['state']}{' critical' * dish['critical']}"
        for dish in seen["dishes"]
    )
    doing = {"": "nothing", "tutor": "tutoring", "wait": "waiting"}.get(hand, hand)
    burner, pupil = "free" if seen["free"] else "none free", "waits" if waits else "knows all"
    return f"dishes: {dishes}. burner: {burner}. pupil: {pupil}. doing: {doing}."


async def token_of(model: Policy, tokens: int = 24) -> float:
    """Seconds of the processor for each token that the model writes, beyond reading."""

    async def took(count: int) -> float:
        began = time.process_time()
        await model.generate(Request([Message("user", EXAMPLES)], sampling=Sampling(max_tokens=count), plain=True))
        return time.process_time() - began

    await took(1)
    return (await took(tokens) - await took(1)) / (tokens - 1)


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    settings = TransformersSettings(model=options.model, template="plain", precision="fp32", batch=16)
    policy = TransformersPolicy(settings)
    model = continuing(policy, EXAMPLES)
    kitchen = "dishes: soup{0} READY critical, rice raw. burner: none free. pupil: waits. doing: tutoring."
    pace = options.pace
    if not pace:
        seconds = await pace_of(model, kitchen, ("finish soup{0}", "go on"))
        pace = round(seconds / await token_of(policy), 1)

    def world() -> Kitchen:
        return Kitchen(KitchenSettings(variant=options.variant))

    tasks = world().tasks(options.kitchens, 11, "test")
    played = await play_each(INTERFACES, tasks, world, lambda: look, model, pace)
    await policy.close()
    return {
        "kitchens": options.kitchens,
        "variant": options.variant,
        "pace": pace,
        "rows": rows_of(played, FIGURES, FIGURES[0]),
    }


def show(result: dict[str, Any]) -> None:
    print(
        f"{result['kitchens']} kitchens under each interface; a decision takes {result['pace']:g} ticks; 95% intervals"
    )
    print_rows(result["rows"], FIGURES)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, kitchens=10)
    parser.add_argument("--model", required=True, help="a folder or a GGUF file")
    parser.add_argument("--variant", choices=("one", "multi"), default="multi")
    parser.add_argument("--pace", type=float, help="ticks that a decision takes; default: measured")
    options = parser.parse_args(arguments)
    return tell(asyncio.run(measure(options)), options.json, show)


if __name__ == "__main__":
    main()
