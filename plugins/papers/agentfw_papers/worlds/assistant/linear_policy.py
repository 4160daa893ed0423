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
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Annotated

from pydantic import Field

from agentfw import Generation, Policy, Request, Settings
from agentfw.settings import VERSION
from agentfw_memory import followed
from agentfw_plugins.linear import Decision, read_weights, write_decisions

from .solver import Offer, Solver

__all__ = ["LinearLearnerSettings", "LinearPolicy", "LinearSettings"]

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
        seed = request.sampling.seed if request.sampling.seed is not None else request.task.seed
        greedy = request.sampling.temperature == 0
        player.sit_down(self.weights, None if greedy else Random(f"{seed} {len(request.messages)}"))
        player.remember(request.messages[-1].content)
        calls = [one for one in player.answer(request.moment) if not isinstance(one, str)]
        # A turn in which nothing was decided is a choice of one option, so that every turn has a token.
        made = player.made or [Decision((), ((),), 0)]
        return Generation(
            text=write_decisions(made),
            calls=tuple(calls),
            said="",  # decisions are for the learner
            count=len(made),
            prompt_ids=tuple(range(len(request.messages))),  # it has no vocabulary, so each message is a token
            token_ids=tuple(one.choice for one in made),
            logprobs=tuple(one.logprob(self.weights) for one in made),
            version=self.version,
            temperature=0.0 if greedy else 1.0,
        )

    async def publish(self, adapter: Path, version: str) -> None:
        self.weights, self.version = read_weights(adapter, (*FEATURES, *COINS)), version


class _Player(Solver):
    """One request in progress."""

    def __init__(self) -> None:
        super().__init__()
        self._wishes: dict[str, tuple[list[str], str, bool]] = {}
        """What was recalled, by id: the scenarios, the text, and whether it is a wish of several users."""

    def sit_down(self, weights: Mapping[str, float], generator: Random | None) -> None:
        """Begin a turn. Without a generator, the likeliest option is taken."""
        self._weights, self._generator, self.made = weights, generator, list[Decision]()

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
        return self._decide(FEATURES, rows)

    def deals_with_a_fault(self) -> bool:
        return bool(self._decide(("recover",), ((0.0,), (1.0,))))

    def does_more_than_asked(self) -> bool:
        return bool(self._decide(("check",), ((0.0,), (1.0,))))

    def _decide(self, names: tuple[str, ...], options: tuple[tuple[float, ...], ...]) -> int:
        shares = Decision(names, options, 0).probabilities(self._weights)
        if self._generator is None:
            choice = shares.index(max(shares))
        else:
            (choice,) = self._generator.choices(range(len(shares)), shares)
        self.made.append(Decision(names, options, choice))
        return choice

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
