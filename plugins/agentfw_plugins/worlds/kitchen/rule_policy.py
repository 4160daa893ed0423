"""The policy `kitchen`: the simple rule, written as a model would write it.

The one rule: what it decides goes the way of a model's answer, as XML in a text that is read back, and each token of it
takes its time. So what a model has to pay for, it pays for too.

    agentfw run kitchen --policy kitchen
    agentfw run kitchen --interface step_loop --set policy.bounded=true
"""

from __future__ import annotations

import re

from pydantic import Field

from agentfw import Settings
from agentfw.episode import Intervention
from agentfw.policy import Generation, Policy, Request

from .simple_rule import decide

__all__ = ["KitchenController", "KitchenControllerSettings", "written"]


class KitchenControllerSettings(Settings):
    bounded: bool = Field(
        False,
        description="Let the tutor explain only until the next signal is expected, instead of to the end of a problem.",
    )


class KitchenController(Policy):
    """Keeps the kitchen by a rule."""

    def __init__(self, settings: KitchenControllerSettings | None = None) -> None:
        self.settings = settings or KitchenControllerSettings()

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        text = "".join(map(written, decide(request.moment, bounded=self.settings.bounded)))
        # Words and signs, about as a tokenizer would have them.
        pieces = tuple(re.findall(r"\s*(?:\w+|[^\w\s])", text))
        return Generation(text, count=len(pieces), pieces=pieces, version="rule")


def written(intervention: Intervention) -> str:
    """An action in XML.

    >>> written(Intervention("tutor", {"tokens": 40}))
    '<tutor tokens="40"/>'
    """
    arguments = "".join(f' {name}="{value}"' for name, value in intervention.arguments.items())
    return f"<{intervention.name}{arguments}/>"
