"""A pretrained base model follows conversations, asked in the paper's three ways: what do thinking and states change?

    python plugins/papers/benchmarks/proactive_pretrained.py --model path/to/model
    python plugins/papers/benchmarks/proactive_pretrained.py --model path/to/model --split validation --examples 4

The ways are those of the specs `proactive-plain`, `-reasoning` and `-asg`: at once, after a line of thought, and after
one that follows the states of the actions so far. A base model makes no calls, so it goes on with a text, at
temperature 0: worked examples from the train split, the dialogue so far, and what the way adds. The thought is free,
and the answer follows a schema: lines of an action of the domain, a status, and inputs with free values.

`drawn` has the model's own answers, each at a turn drawn at random, so it knows nothing of the dialogue. `never ready`
has the references without readiness. A figure that is undefined in a dialogue is left out there, and a difference is
over the dialogues in which both sides have the figure.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count, pairwise
from statistics import fmean
from typing import Any

from agentfw import Policy, Request, Task
from agentfw.episode import Message
from agentfw.request import Sampling
from agentfw_benchmarks import Options, Stopwatch, difference_of, mean_of, print_markdown, shown, tell
from agentfw_papers.timing import STATUSES, Catalog, Opportunity, read_answer
from agentfw_papers.worlds.proactive.asg import ActionStates, observed
from agentfw_papers.worlds.proactive.conversations import Asked, asked_turns, conversations
from agentfw_papers.worlds.proactive.dataset import Example
from agentfw_papers.worlds.proactive.environment import Proactive
from agentfw_papers.worlds.proactive.figures import Tally
from agentfw_papers.worlds.proactive.prompting import dialogue_lines, write_answer, write_states
from agentfw_papers.worlds.proactive.settings import Ask, ProactiveSettings, Style
from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings

STYLES: tuple[Style, ...] = ("plain", "reasoning", "asg")
FIGURES = ("ac", "max_ac", "difference", "pt", "ftr", "rar", "silent")
FLOWS = ("account_access", "storewide_query")
DRAWS = 20
_ASK: Ask = "customer"
_TASK = (
    "A customer and a professional talk. After each turn, the list has the actions that will be needed, with the "
    "inputs known so far: pending while an input is missing, ready_to_trigger as soon as none is, triggered when it "
    "has just been done."
)
_VALUE = r'[^"=\\\n]{1,40}'
_THINK, _ANSWER = "thought:", "actions:\n"
_LINE_END = ("\n",)

Outcome = Mapping[str, float]
Answers = dict[int, str]
"""What was answered in a dialogue, by turn, in the lines that the world reads."""


def world_of() -> Proactive:
    shorter = {"flows": FLOWS, "small_talk": 0.0, "early_end": 0.1}
    return Proactive(ProactiveSettings(unit="dialogue", ask=_ASK, answers="lines", **shorter))


def worked_examples(style: Style, number: int) -> str:
    """Turns of the train split, no two with the same actions due. They are the same for all styles."""
    train = conversations(world_of().settings.model_copy(update={"unit": "turn"}), "train")
    catalog = train.domain.catalog
    chosen: dict[tuple[str, ...], Asked] = {}
    asked = map(train.task, count())
    while len(chosen) < number:
        one = next(asked)
        due = one.example.annotation.at(one.turns[0]).opportunities
        chosen.setdefault(tuple(f"{each.name} {each.status}" for each in due), one)
    return "\n\n".join([_TASK, *(_worked(one, style, catalog) for one in chosen.values())])


def _worked(asked: Asked, style: Style, catalog: Catalog) -> str:
    (example, (turn,)) = asked
    references = example.annotation.at(turn).opportunities
    states = states_at(turn, example, catalog, lambda number: example.annotation.at(number).opportunities)
    written = asked_text(style, dialogue_lines(example.dialogue, 1, turn), states)
    thought = f" {thought_of(example, references)}\n{_ANSWER}" if style != "plain" else ""
    lines = write_answer(references, "lines").splitlines() if references else []
    return f"{written}{thought}{json.dumps(lines)}"


def states_at(turn: int, example: Example, catalog: Catalog, said: Callable[[int], Iterable[Opportunity]]) -> str:
    """The states of the actions as the world has them at a turn, after what was said at the turns before."""
    states = ActionStates()
    for before, number in pairwise([0, *(one for one in asked_turns(example.dialogue, _ASK) if one <= turn)]):
        states.predict(said(before) if before else ())
        for trigger in example.dialogue.triggers:
            if before < trigger.turn <= number:
                states.trigger(observed(trigger, catalog))
    return write_states(states)


def asked_text(style: Style, dialogue: str, states: str) -> str:
    return "\n".join([dialogue, *([states] if style == "asg" else []), _ANSWER if style == "plain" else _THINK])


def thought_of(example: Example, references: Sequence[Opportunity]) -> str:
    """What somebody would think who knows the references."""
    if not references:
        return "Nothing is foreseeable."
    parts = [f"The customer wants: {example.dialogue.subflow.replace('_', ' ')}."]
    for one in references:
        missing = [name for name, part in one.inputs.items() if not part.provided]
        done = "is done" if one.status == "triggered" else "has all it needs"
        parts.append(f"{one.name} {'needs ' + ' and '.join(missing) if missing else done}.")
    return " ".join(parts)


def schema_of(catalog: Catalog) -> dict[str, Any]:
    """A list of lines about the actions of the flows' workflows."""
    names = dict.fromkeys(name for one in catalog.workflows if one.flow in FLOWS for name in one.actions)
    lines = []
    for name in names:
        action = catalog.find(name)
        inputs = "|".join(one.name for one in action.parameters) if action else ""
        lines.append(f"{name} ({'|'.join(STATUSES)})" + (f"( ({inputs})={_VALUE}){{0,4}}" if inputs else ""))
    return {"type": "array", "maxItems": 3, "items": {"type": "string", "pattern": f"^({'|'.join(lines)})$"}}


async def follow(model: Policy, style: Style, example: Example, examples: str, catalog: Catalog) -> Answers:
    """The answers at all turns of a dialogue: one after the other with the states, else all at once."""
    schema, answers = schema_of(catalog), Answers()

    async def go_on(text: str, tokens: int, **more: Any) -> str:
        sampling = Sampling(temperature=0.0, max_tokens=tokens)
        return (await model.generate(Request([Message("user", text)], sampling=sampling, plain=True, **more))).text

    async def answer(turn: int) -> None:
        states = ""
        if style == "asg":
            states = states_at(turn, example, catalog, lambda one: read_answer(answers[one], catalog).opportunities)
        text = "\n\n".join([examples, asked_text(style, dialogue_lines(example.dialogue, 1, turn), states)])
        if style != "plain":
            text += f" {(await go_on(text, 48, stop=_LINE_END)).strip()}\n{_ANSWER}"
        # An answer that was cut off has its last line unfinished.
        answers[turn] = "\n".join(re.findall(r'"([^"]*)"', await go_on(text, 96, schema=schema))) or "nothing"

    turns = asked_turns(example.dialogue, _ASK)
    if style == "asg":
        for turn in turns:
            await answer(turn)
    else:
        await asyncio.gather(*map(answer, turns))
    return answers


def outcome_of(world: Proactive, task: Task, answers: Callable[[int], str]) -> Outcome:
    """The figures of a dialogue in which these are the answers."""
    example, settings = world.example(task), world.settings
    tally = Tally(silence=settings.silence, pt_of=settings.pt_of, catalog=world.catalog)
    for turn in asked_turns(example.dialogue, settings.ask):
        answer = read_answer(answers(turn), world.catalog)
        tally.add(answer, example.annotation.at(turn), example.annotation.windows)
    return tally.outcome()


def drawn(world: Proactive, tasks: Sequence[Task], answers: Sequence[Answers], seed: int) -> list[Outcome]:
    """The same answers at other turns: the mean of each figure over several draws."""
    every = [answer for some in answers for answer in some.values()]
    draw = random.Random(seed)
    found = list[Outcome]()
    for task in tasks:
        outcomes = [outcome_of(world, task, lambda _: draw.choice(every)) for _ in range(DRAWS)]
        several = {name: [one[name] for one in outcomes if name in one] for name in FIGURES}
        found.append({name: fmean(values) for name, values in several.items() if values})
    return found


def never_ready(world: Proactive, task: Task) -> Outcome:
    """The references without readiness."""
    turns = world.example(task).annotation.turns
    pending = {one.turn: [replace(each, status="pending") for each in one.opportunities] for one in turns}
    return outcome_of(world, task, lambda turn: write_answer(pending.get(turn, ()), "lines"))


def row_of(name: str, outcomes: Sequence[Outcome], beside: Mapping[str, Sequence[Outcome]]) -> dict[str, Any]:
    """The figures of one player, and their differences to others in the same dialogues."""

    def values(some: Sequence[Outcome], figure: str) -> dict[str, float]:
        return {str(number): one[figure] for number, one in enumerate(some) if figure in one}

    figures = {one: found for one in FIGURES if (found := values(outcomes, one))}
    row: dict[str, Any] = {"player": name, **{one: mean_of(list(found.values())) for one, found in figures.items()}}
    for other, theirs in beside.items():
        pairs = {one: (found, values(theirs, one)) for one, found in figures.items()}
        row[f"minus {other}"] = {one: difference_of(*pair) for one, pair in pairs.items() if pair[0].keys() & pair[1]}
    return row


async def measure(options: argparse.Namespace) -> dict[str, Any]:
    watch, world = Stopwatch(), world_of()
    tasks = world.tasks(options.dialogues, 7, options.split)
    model = TransformersPolicy(TransformersSettings(model=options.model, template="plain", precision="fp32", batch=24))

    async def follow_all(style: Style) -> list[Answers]:
        text, dialogues = worked_examples(style, options.examples), map(world.example, tasks)
        # Read once, before many ask at the same time: what is known of a prompt is shared by those that begin with it.
        await model.generate(Request([Message("user", text)], sampling=Sampling(max_tokens=1), plain=True))
        return list(await asyncio.gather(*(follow(model, style, one, text, world.catalog) for one in dialogues)))

    # All three ways at once, as a pass over the weights takes about as long for few answers as for many.
    found = await asyncio.gather(*map(follow_all, STYLES))
    await model.close()
    rows, played = [], dict[str, list[Outcome]]()
    for style, answers in zip(STYLES, found, strict=True):
        outcomes = [outcome_of(world, task, some.__getitem__) for task, some in zip(tasks, answers, strict=True)]
        chance = drawn(world, tasks, answers, 7)
        rows += [row_of(style, outcomes, {"drawn": chance, **played}), row_of(f"{style}, drawn", chance, {})]
        played[style] = outcomes
    references = [world.references(task) for task in tasks]
    rows += [row_of(player, [one[player] for one in references], {}) for player in ("eager", "reactive")]
    rows.append(row_of("never ready", [never_ready(world, task) for task in tasks], {}))
    asked = {name: getattr(options, name) for name in ("dialogues", "split", "examples")}
    return {**asked, "turns": sum(map(len, found[0])), **watch.took(), "rows": rows}


def show(result: dict[str, Any]) -> None:
    print(
        f"{result['dialogues']} dialogues ({result['split']}), {result['turns']} turns, {result['examples']} examples; "
        f"means and 95% intervals over dialogues; {result['cpu_seconds']:.0f} s of CPU time"
    )
    for kind in ("", "minus drawn", "minus plain", "minus reasoning"):
        rows = [(row["player"], row[kind] if kind else row) for row in result["rows"] if not kind or kind in row]
        print(f"\n{kind or 'figures'}\n")
        shape = "+.3f" if kind else ".3f"
        cells = [[name, *(shown(row[one], shape) if one in row else "" for one in FIGURES)] for name, row in rows]
        print_markdown(["", *FIGURES], cells)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        model=(str, "a folder or a GGUF file"),
        dialogues=12,
        split=("test", "test, or validation to choose the examples"),
        examples=(16, "worked examples"),
    ).parse_args(arguments)
    return tell(asyncio.run(measure(options)), options.json, show)


if __name__ == "__main__":
    main()
