"""The policy `random`: chooses valid actions at random, as a lower baseline.

Calls are drawn from the JSON schemas of the actions and seeded by the task, so the same seed gives the same episode.

    agentfw run inbox --policy random
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from agentfw import Generation, Intervention, Policy, Request, Settings
from agentfw.request import Action
from agentfw.seeds import Seeds

__all__ = ["RandomPolicy", "RandomSettings"]

_WORDS = ("yes", "no", "later", "now", "please", "thanks")


class RandomSettings(Settings):
    idle: float = Field(0.0, ge=0, le=1, description="Probability of doing nothing.")
    tokens: int = Field(1, ge=0, description="Number of tokens that each answer counts as.")


class RandomPolicy(Policy):
    """Draws one action with arguments."""

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
            calls = (Intervention(action.name, _arguments(action, generator)),)
        return Generation(calls=calls, count=self.settings.tokens, version="random")


def _arguments(action: Action, generator: random.Random) -> dict[str, Any]:
    required = set(action.parameters.get("required", ()))
    return {
        name: _value(schema, generator)
        for name, schema in action.parameters.get("properties", {}).items()
        if name in required or generator.random() < 0.5
    }


def _value(schema: Mapping[str, Any], generator: random.Random) -> Any:
    """Draw a value that matches a JSON schema. What the schema leaves open is drawn from a small range."""
    if "enum" in schema:
        return generator.choice(list(schema["enum"]))
    if "anyOf" in schema:
        return _value(generator.choice(list(schema["anyOf"])), generator)
    kind = schema.get("type")
    if kind == "integer":
        low = int(schema.get("minimum", 0))
        return generator.randint(low, int(schema.get("maximum", low + 9)))
    if kind == "number":
        least = float(schema.get("minimum", 0.0))
        return generator.uniform(least, float(schema.get("maximum", least + 1.0)))
    if kind == "boolean":
        return generator.random() < 0.5
    if kind == "array":
        fewest = int(schema.get("minItems", 1))
        count = generator.randint(fewest, int(schema.get("maxItems", fewest + 2)))
        return [_value(schema.get("items", {}), generator) for _ in range(count)]
    return None if kind == "null" else generator.choice(_WORDS)
