"""The policy `kitchen`: a simple rule that writes its actions as a model does.

Its decisions are XML text that is parsed like a model's answer, and each token takes time. So it pays for everything
that a model pays for.

    agentfw run kitchen --policy kitchen
    agentfw run kitchen --interface step_loop --set policy.bounded=true
"""

from __future__ import annotations

import re

from pydantic import Field

from agentfw import Generation, Intervention, Policy, Request, Settings

from .simple_rule import decide


class KitchenControllerSettings(Settings):
    bounded: bool = Field(
        False,
        description="Let the tutor explain only until the next expected signal, not to the end of a problem.",
    )


class KitchenController(Policy):
    """Runs the kitchen by a rule."""

    is_program = True

    def __init__(self, settings: KitchenControllerSettings | None = None) -> None:
        self.settings = settings or KitchenControllerSettings()

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        text = "".join(map(written, decide(request.moment, bounded=self.settings.bounded)))
        # Words and punctuation, roughly as a tokenizer splits them.
        pieces = tuple(re.findall(r"\s*(?:\w+|[^\w\s])", text))
        return Generation(text, count=len(pieces), pieces=pieces, version="rule")


def written(intervention: Intervention) -> str:
    """An action in XML.

    >>> written(Intervention("tutor", {"tokens": 40}))
    '<tutor tokens="40"/>'
    """
    arguments = "".join(f' {name}="{value}"' for name, value in intervention.arguments.items())
    return f"<{intervention.name}{arguments}/>"
