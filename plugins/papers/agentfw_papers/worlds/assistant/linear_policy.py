"""The policy `assistant-linear`: weighs what is stated, remembered and famous, and flips two coins.

It reads recalled skills in its prompt like a language model does, and is trained in seconds. So tables with many seeds
can be made with it, which a language model then confirms.

    agentfw train assistant
    agentfw run assistant --policy assistant-linear --set policy.weights=runs/.../weights.json

With weights of one half it is indifferent, and never wrong for certain, so that a policy gradient has something to
start from.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from agentfw import Generation, Policy, Request, Settings
from agentfw.settings import VERSION
from agentfw_memory import followed
from agentfw_papers.linear import Choices, read_weights

from .solver import Offer, Solver

FEATURES = ("stated", "own", "shared", "fame")
"""Features of an offer: stated tastes that it meets, the user's and other users' recalled wishes, and its fame."""
COINS = ("recover", "check")
"""Log-odds of dealing with a fault, and of doing what nobody asked for."""

_RECALLED = re.compile(
    r"^- (s\d+): (For (\w+(?: and \w+)*), (?:prefer|avoid|give|provide) [^(\n]*)(\(.*\))?$", re.MULTILINE
)
_SHARED = "wish of several users"
_KEPT = 4096
"""Maximum number of requests in progress that are kept."""


class LinearSettings(Settings):
    weights: Annotated[str, VERSION] = Field("", description="File of trained weights. Default: those below.")
    stated: float = Field(0.5, description="Weight of stated tastes that an offer meets.")
    own: float = Field(0.5, description="Weight of the user's recalled wishes that it meets.")
    shared: float = Field(0.5, description="Weight of recalled wishes of several users that it meets.")
    fame: float = Field(0.5, description="Weight of its fame.")
    recover: float = Field(0.0, description="Log-odds of dealing with a fault.")
    check: float = Field(0.0, description="Log-odds of doing what nobody asked for.")

    def start(self) -> dict[str, float]:
        """The weights of the file, or those of the settings."""
        if self.weights:
            return read_weights(Path(self.weights), (*FEATURES, *COINS))
        return {name: float(getattr(self, name)) for name in (*FEATURES, *COINS)}


class LinearLearnerSettings(LinearSettings):
    learning_rate: float = Field(0.15, gt=0, description="Step size of Adam.")


class LinearPolicy(Policy):
    """Serves all requests of a run with the same weights."""

    is_program = True

    def __init__(self, settings: LinearSettings | None = None) -> None:
        settings = settings or LinearSettings()
        self.weights = settings.start()
        self.version = "start"
        self._players: dict[tuple[str, str], _Player] = {}

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        key = request.task.user, request.task.id
        if request.moment.of("request") or key not in self._players:
            self._players.pop(key, None)
            while len(self._players) >= _KEPT:
                del self._players[next(iter(self._players))]
            self._players[key] = _Player()
        player = self._players[key]
        player.choices = choices = Choices(self.weights, request)
        player.remember(request.messages[-1].content)
        calls = [one for one in player.answer(request.moment) if not isinstance(one, str)]
        return choices.generation(calls, self.version)

    async def publish(self, adapter: Path, version: str) -> None:
        self.weights, self.version = read_weights(adapter, (*FEATURES, *COINS)), version


class _Player(Solver):
    """One request in progress."""

    choices: Choices
    """Those of the turn."""

    def __init__(self) -> None:
        super().__init__()
        self._wishes: dict[str, tuple[list[str], str, bool]] = {}
        """What was recalled, by id: the scenarios, the text, and whether it is a wish of several users."""

    def remember(self, message: str) -> None:
        for found in _RECALLED.finditer(message):
            self._wishes[found[1]] = found[3].split(" and "), found[2].strip(), _SHARED in (found[4] or "")

    def choose(self, scenario: str, offers: Sequence[Offer]) -> int:
        rows = tuple(
            (
                float(offer["stated"]),
                self._met(scenario, offer, False),
                self._met(scenario, offer, True),
                float(offer["fame"]),
            )
            for offer in offers
        )
        return self.choices.decide(FEATURES, rows)

    def deals_with_a_fault(self) -> bool:
        return self.choices.flip("recover")

    def does_more_than_asked(self) -> bool:
        return self.choices.flip("check")

    def _met(self, scenario: str, offer: Offer, shared: bool) -> float:
        """The share of the recalled wishes that an offer meets. One half where nothing was recalled."""
        wishes = [
            (text, about)
            for about, text, of_several in self._wishes.values()
            if scenario in about and of_several == shared
        ]
        if not wishes:
            return 0.5
        words = [str(offer["words"])]
        return sum(followed(text, (), words, about=about) for text, about in wishes) / len(wishes)
