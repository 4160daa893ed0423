"""Policies without a model: `scripted` follows a script, and `random` draws valid actions, as a lower baseline.

Both give the same answers every time, without a network. They read the same moments as a model, and their answers are
parsed like those of a model. A rule is a function of the moment that returns interventions or texts. By default, the
policy follows the environment's own demonstration.

    agentfw run inbox --policy scripted --set policy.rule=my_package.rules:triage
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterable

from pydantic import Field

from agentfw import Generation, Intervention, Moment, Policy, Request, Settings
from agentfw.boundary.gate import function_at
from agentfw.errors import SettingsError
from agentfw.seeds import Seeds
from agentfw.testing import drawn

__all__ = ["RandomPolicy", "RandomSettings", "ScriptedPolicy", "ScriptedSettings"]

Rule = Callable[[Moment], Iterable[Intervention | str]]

_JSON = json.JSONEncoder(ensure_ascii=False)


class ScriptedSettings(Settings):
    rule: str = Field("", description="Function of the moment, as package.module:name. Default: the environment's own.")
    replies: tuple[str, ...] = Field((), description="Texts to answer with, in order, repeated from the start.")
    tokens: int | None = Field(None, ge=0, description="Number of tokens that each answer counts as. Default: counted.")


class ScriptedPolicy(Policy):
    """Answers from a rule or a list."""

    is_program = True

    def __init__(self, settings: ScriptedSettings | None = None, *, rule: Rule | None = None) -> None:
        self.settings = settings or ScriptedSettings()
        if self.settings.rule and self.settings.replies:
            raise SettingsError("policy.rule and policy.replies are both set", fix="set only one of them")
        self._rule = rule or (function_at(self.settings.rule, "policy.rule") if self.settings.rule else None)
        self._given: dict[str, int] = {}

    async def generate(self, request: Request) -> Generation:
        answers = list(self._answers(request))
        texts = [answer for answer in answers if isinstance(answer, str)]
        calls = [answer for answer in answers if not isinstance(answer, str)]
        written = (_JSON.encode({"name": call.name, "arguments": dict(call.arguments)}) for call in calls)
        text = "\n".join([*texts, *written])
        pieces = tuple(re.findall(r"\s*\S+|\s+\Z", text))
        count = len(pieces) if self.settings.tokens is None else self.settings.tokens
        said = "\n".join(texts) if calls else None
        return Generation(text, tuple(calls), said=said, count=count, pieces=pieces, version="script")

    def _answers(self, request: Request) -> Iterable[Intervention | str]:
        if self.settings.replies:
            turn = self._given.get(request.task.id, 0)
            self._given[request.task.id] = turn + 1
            return [self.settings.replies[turn % len(self.settings.replies)]]
        rule = self._rule or request.brief.demonstration
        if rule is None:
            fix = "set policy.rule=package.module:function or policy.replies, or use another --policy"
            raise SettingsError("this environment has no demonstration for the scripted policy to follow", fix=fix)
        assert request.moment is not None
        return rule(request.moment)


class RandomSettings(Settings):
    idle: float = Field(0.0, ge=0, le=1, description="Probability of doing nothing.")
    tokens: int = Field(1, ge=0, description="Number of tokens that each answer counts as.")


class RandomPolicy(Policy):
    """Draws one action with arguments from the JSON schemas of the actions.

    It is seeded by the task, so the same seed gives the same episode.
    """

    is_program = True

    def __init__(self, settings: RandomSettings | None = None) -> None:
        self.settings = settings or RandomSettings()
        self._generators: dict[tuple[str, int], random.Random] = {}

    async def generate(self, request: Request) -> Generation:
        key = (request.task.id, request.task.seed)
        # The first turn restarts the generator, so that a repeated episode is the same.
        if key not in self._generators or len(request.messages) <= 2:
            self._generators[key] = Seeds(request.task.seed).random("random policy", request.task.sample)
        generator = self._generators[key]
        calls: tuple[Intervention, ...] = ()
        if request.actions and generator.random() >= self.settings.idle:
            action = generator.choice(sorted(request.actions, key=lambda action: action.name))
            calls = (Intervention(action.name, drawn(action.parameters, generator)),)
        return Generation(calls=calls, count=self.settings.tokens, version="random")
