"""Generates dialogues from a domain's workflows, slots and phrases alone.

A customer has a wish, which belongs to a workflow. The professional asks for what its actions need, and triggers them.
On the way the customer may say values early, refuse once, talk about the weather or leave. The generator knows at which
turn the wish can be recognised, so the rule annotator makes the references without a model.

In a domain that isn't observed, triggers are used for the references and then dropped.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from agentfw.errors import SettingsError
from agentfw.seeds import Seeds
from agentfw_papers.timing import (
    Action,
    Annotation,
    Dialogue,
    Domain,
    Speaker,
    Trigger,
    Turn,
    Workflow,
    annotate,
)

from .phrases import Personas, Phrases, SlotPhrases, in_split
from .settings import GeneratorSettings

_LEAST_TURNS = 6


@dataclass(frozen=True, slots=True)
class _Line:
    speaker: Speaker
    text: str
    delexed: str
    trigger: tuple[str, dict[str, str]] | None = None
    wish: bool = False
    """Whether the customer's wish can be recognised from here on."""
    demand: bool = False
    """Whether the customer asks for somebody else."""


@dataclass
class _Plan:
    """One dialogue before it is put into words."""

    workflow: Workflow
    persona: dict[str, str]
    steps: list[tuple[Action, dict[str, str]]]
    ending: str = "done"
    wish_later: bool = False
    """Whether the customer says only after the first action what this is about."""
    said: set[str] = field(default_factory=set)


class DialogueGenerator:
    """The dialogues of one split."""

    def __init__(self, domain: Domain, split: str, seed: int, settings: GeneratorSettings) -> None:
        self.domain, self.split, self.seed, self.settings = domain, split, seed, settings
        self.catalog = domain.catalog
        self.phrases = Phrases.of(domain.phrases, self.catalog.name)
        self.workflows = self._workflows()
        parameters = [one for action in self.catalog.actions for one in action.parameters]
        self.personas = Personas(self.catalog.name, parameters, self.phrases.slots)
        self.seeds = Seeds(seed).child("proactive", self.catalog.name, split)
        self._check()

    def dialogue(self, index: int) -> tuple[Dialogue, Annotation]:
        """Dialogue number `index` of the split, with its references."""
        draw = self.seeds.random(index)
        plan = self._plan(draw)
        lines = self._padded(self._segments(plan, draw), draw)
        turns = tuple(Turn(line.speaker, line.text, line.delexed) for line in lines)
        triggers = tuple(
            Trigger(number, line.trigger[0], line.trigger[1])
            for number, line in enumerate(lines, start=1)
            if line.trigger
        )
        dialogue = Dialogue(
            f"{self.catalog.name}-{self.split}-{self.seed}-{index}",
            turns,
            triggers,
            domain=self.catalog.name,
            split=self.split,
            flow=plan.workflow.flow,
            subflow=plan.workflow.name,
            facts={name: value for name, value in plan.persona.items() if value},
        )
        wish = next(number for number, line in enumerate(lines, start=1) if line.wish)
        # Nobody can foresee that a customer will ask for somebody else.
        demands = [number for number, line in enumerate(lines, start=1) if line.demand]
        later = {max(trigger.turn for trigger in triggers): demands[0]} if demands else {}
        annotation = annotate(dialogue, self.catalog, recognisable=wish, later=later)
        if not self.domain.observed:
            dialogue = replace(dialogue, triggers=())
        return dialogue, annotation

    # What happens

    def _plan(self, draw: random.Random) -> _Plan:
        workflow = draw.choice(self.workflows)
        persona = self.personas.draw(self.split, draw)
        steps: list[tuple[Action, dict[str, str]]] = []
        for name in workflow.actions:
            action = next(one for one in self.catalog.actions if one.name == name)
            steps.append((action, self._values(action, workflow, persona, draw)))
        plan = _Plan(workflow, persona, steps)
        chance = draw.random()
        if len(steps) > 1 and chance < self.settings.early_end:
            plan.steps, plan.ending = steps[: draw.randrange(1, len(steps))], "left"
        elif self.phrases.escalation and chance > 1 - self.settings.escalated:
            action = next(one for one in self.catalog.actions if one.name == self.phrases.escalation)
            plan.steps, plan.ending = steps[: draw.randrange(1, len(steps) + 1)], "escalated"
            plan.steps.append((action, self._values(action, workflow, persona, draw)))
        return plan

    def _values(
        self, action: Action, workflow: Workflow, persona: dict[str, str], draw: random.Random
    ) -> dict[str, str]:
        """The parameters of one use: all required ones, and some of the others."""
        optional = [one for one in action.parameters if not one.required]
        # Allowed values that are named after a workflow belong to it.
        own = [one for one in optional if any(value.startswith(f"{workflow.name}_") for value in one.values)]
        uses = self.phrases.uses.get(action.name, 0 if len(optional) < len(action.parameters) else 1)
        if own:
            picked = own[:1]
        elif isinstance(uses, int):
            picked = draw.sample(optional, min(uses, len(optional)))
        else:
            picked = [one for one in optional if one.name in uses]
        values = {}
        for one in action.parameters:
            if one.required or one in picked:
                fitting = [value for value in one.values if value.startswith(f"{workflow.name}_")]
                values[one.name] = draw.choice(fitting) if fitting else persona[one.name]
        return values

    # How it is said

    def _segments(self, plan: _Plan, draw: random.Random) -> list[list[_Line]]:
        """The parts of the dialogue between which small talk fits."""
        segments = [self._opening(plan, draw)]
        for number, (action, values) in enumerate(plan.steps):
            if number == 1 and plan.wish_later:
                segments.append([self._line("professional", "unsure", draw), self._wish(plan, draw)])
            if plan.ending == "escalated" and number == len(plan.steps) - 1:
                segments.append([replace(self._line("customer", "escalating", draw), demand=True)])
            segments.append(self._step(plan, action, values, draw))
        last = "leaving" if plan.ending == "left" else "thanks"
        segments.append([self._line("customer", last, draw), self._line("professional", "closings", draw)])
        return segments

    def _opening(self, plan: _Plan, draw: random.Random) -> list[_Line]:
        lines = [self._line("professional", "greetings", draw)] if draw.random() < 0.6 else []
        ambiguous = self.phrases.ambiguous.get(plan.workflow.flow)
        if ambiguous and draw.random() < self.settings.ambiguous:
            lines.append(self._said("customer", self._pick(ambiguous, draw), draw))
            plan.wish_later = self._shares_first_action(plan) and draw.random() < 0.5
            if not plan.wish_later:
                lines += [self._line("professional", "unsure", draw), self._wish(plan, draw)]
        else:
            lines.append(self._wish(plan, draw))
        early = [
            name
            for _, values in plan.steps
            for name in values
            if self._slot(name).by == "customer" and draw.random() < self.settings.volunteered
        ]
        if early and (name := early[0]) not in plan.said:
            plan.said.add(name)
            lines.append(self._answer([name], plan, draw))
        lines.append(self._line("professional", "replies", draw))
        return lines

    def _wish(self, plan: _Plan, draw: random.Random) -> _Line:
        return self._said("customer", self._pick(self.phrases.openings[plan.workflow.name], draw), draw, wish=True)

    def _shares_first_action(self, plan: _Plan) -> bool:
        """Whether every workflow of the flow begins alike, so that the professional can begin without the wish."""
        of_flow = [one for one in self.catalog.workflows if one.flow == plan.workflow.flow]
        return len(plan.steps) > 1 and len({one.actions[:1] for one in of_flow}) == 1

    def _step(self, plan: _Plan, action: Action, values: dict[str, str], draw: random.Random) -> list[_Line]:
        """Ask for what the action needs, wait, and trigger it."""
        lines: list[_Line] = []
        plan.persona.update(values)
        wanted = [name for name in values if self._slot(name).by == "customer" and name not in plan.said]
        draw.shuffle(wanted)
        while wanted:
            asked, wanted = wanted[:3], wanted[3:]
            lines.append(self._ask(asked, draw))
            if draw.random() < self.settings.refused:
                lines += [self._line("customer", "refusals", draw), self._line("professional", "reasons", draw)]
            # Sometimes in one turn, sometimes in one for each value.
            parts = [asked] if draw.random() < 0.5 else [[name] for name in asked]
            lines += [self._answer(part, plan, draw) for part in parts]
            plan.said.update(asked)
        for name in values:
            if self._slot(name).by == "professional" and name not in plan.said:
                lines.append(self._said("professional", self._pick(self._told(name), draw), draw, {name: values[name]}))
                plan.said.add(name)
        late = _poisson(self.settings.lateness, draw)
        for number in range(late):
            talk = ("professional", "holding") if number % 2 == 0 else ("customer", "patience")
            lines.append(self._line(talk[0], talk[1], draw))  # type: ignore[arg-type]
        lines.append(self._entry(action, values, draw))
        return lines

    def _entry(self, action: Action, values: dict[str, str], draw: random.Random) -> _Line:
        if not self.domain.observed:  # the turn at which it happens, but nobody can see what
            return replace(self._line("professional", "acting", draw), trigger=(action.name, values))
        usual = f"System action: {action.name.replace('-', ' ')} {', '.join(f'{{{name}}}' for name in values)}".strip()
        template = self.phrases.entries.get(action.name, usual)
        text, delexed = template, template
        for name, value in values.items():
            text, delexed = text.replace(f"{{{name}}}", value), delexed.replace(f"{{{name}}}", f"<{name}>")
        return _Line("action", text, delexed, (action.name, values))

    def _ask(self, names: Sequence[str], draw: random.Random) -> _Line:
        asks = (self._slot(names[0]).asks if len(names) == 1 else None) or self.phrases.asks
        return self._said("professional", self._pick(asks, draw).replace("{slots}", self._listed(names)), draw)

    def _answer(self, names: Sequence[str], plan: _Plan, draw: random.Random) -> _Line:
        texts, delexed = [], []
        for name in names:
            answers = self._slot(name).answers or self.phrases.answers
            template = self._noisy(self._pick(answers, draw).replace("{label}", self._label(name)), draw)
            texts.append(template.replace("{value}", plan.persona[name]))
            delexed.append(template.replace("{value}", f"<{name}>"))
        return _Line("customer", ", ".join(texts), ", ".join(delexed))

    def _said(
        self,
        speaker: Speaker,
        template: str,
        draw: random.Random,
        values: dict[str, str] | None = None,
        *,
        wish: bool = False,
    ) -> _Line:
        template = self._noisy(template, draw)
        text = delexed = template
        for name, value in (values or {}).items():
            text, delexed = text.replace("{value}", value), delexed.replace("{value}", f"<{name}>")
        return _Line(speaker, text, delexed, wish=wish)

    def _line(self, speaker: Speaker, key: str, draw: random.Random) -> _Line:
        return self._said(speaker, self._pick(getattr(self.phrases, key), draw), draw)

    def _padded(self, segments: list[list[_Line]], draw: random.Random) -> Sequence[_Line]:
        """The lines of all segments, with as much small talk between them as the dialogue's length leaves room for."""
        shape = self.phrases.shape
        target = max(_LEAST_TURNS, draw.gauss(shape.turns, shape.spread))
        missing = (target - sum(map(len, segments))) * self.settings.small_talk
        places = [list[_Line]() for _ in segments]
        while missing >= 1:
            place = places[draw.randrange(1, len(places))]
            place += [self._line("customer", "small_talk", draw), self._line("professional", "small_replies", draw)]
            missing -= 2
        return [line for place, segment in zip(places, segments, strict=True) for line in (*place, *segment)]

    def _noisy(self, template: str, draw: random.Random) -> str:
        """The sentence with typing errors: two letters of a word change places. Values stay as they are."""
        if not self.settings.noise:
            return template
        words = template.split(" ")
        for number, word in enumerate(words):
            if "{" not in word and len(word) > 3 and draw.random() < self.settings.noise:
                at = draw.randrange(1, len(word) - 1)
                words[number] = word[: at - 1] + word[at] + word[at - 1] + word[at + 1 :]
        return " ".join(words)

    def _pick(self, variants: Sequence[str], draw: random.Random) -> str:
        return draw.choice(in_split(variants, self.split))

    def _slot(self, name: str) -> SlotPhrases:
        return self.phrases.slots.get(name) or SlotPhrases()

    def _told(self, name: str) -> Sequence[str]:
        return self._slot(name).answers or self.phrases.told

    def _label(self, name: str) -> str:
        return self._slot(name).label or name.replace("_", " ")

    def _listed(self, names: Sequence[str]) -> str:
        labels = [self._label(name) for name in names]
        return labels[0] if len(labels) == 1 else f"{', '.join(labels[:-1])} and {labels[-1]}"

    # What can be wrong with a domain

    def _workflows(self) -> list[Workflow]:
        wanted = self.settings.flows
        known = {one.name for one in self.catalog.workflows} | set(self.catalog.flows)
        if unknown := [name for name in wanted if name not in known]:
            raise SettingsError(
                f'the domain "{self.catalog.name}" has no flow or workflow "{unknown[0]}"',
                fix=f"use some of {', '.join(sorted(known))}",
            )
        return [
            one
            for one in self.catalog.workflows
            if one.name in self.phrases.openings and (not wanted or one.name in wanted or one.flow in wanted)
        ]

    def _check(self) -> None:
        name, phrases = self.catalog.name, self.phrases
        workflows = {one.name for one in self.catalog.workflows}
        if unknown := [one for one in phrases.openings if one not in workflows]:
            raise SettingsError(
                f'phrases.openings of the domain "{name}" has "{unknown[0]}", which is not a workflow',
                fix="name it as under workflows, or remove it",
            )
        if not self.workflows:
            raise SettingsError(
                f'no workflow of the domain "{name}" has openings',
                fix="add phrases.openings.WORKFLOW to its domain.yaml",
            )
        longest = phrases.shape.turns + 3 * phrases.shape.spread
        if too_long := [one for one in self.workflows if len(one.actions) > longest]:
            raise SettingsError(
                f'the workflow "{too_long[0].name}" of the domain "{name}" has {len(too_long[0].actions)} actions, more'
                f" than its dialogues have turns",
                fix="raise phrases.shape.turns in its domain.yaml",
            )
        seen: dict[str, str] = {}
        for workflow, openings in phrases.openings.items():
            for opening in openings:
                if seen.setdefault(opening, workflow) != workflow:
                    raise SettingsError(
                        f'the opening "{opening}" of the domain "{name}" fits both "{seen[opening]}" and "{workflow}"',
                        fix="move it to phrases.ambiguous, under the flow of both",
                    )
        if phrases.escalation and all(one.name != phrases.escalation for one in self.catalog.actions):
            raise SettingsError(
                f'phrases.escalation of the domain "{name}" is "{phrases.escalation}", which is not an action',
                fix="use the name of an action",
            )


def _poisson(mean: float, draw: random.Random) -> int:
    count, left = 0, draw.expovariate(1.0) if mean else float("inf")
    while left < mean:
        count, left = count + 1, left + draw.expovariate(1.0)
    return count
