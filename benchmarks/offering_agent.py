"""An agent that offers one of the tools of a request, and its learner. `feedback_teaches.py` measures with it.

The policy `offering` is a softmax over two features of each tool: whether a recalled skill names it, and the share of
the tools in recalled skills that have a word in common with it. It reads recalled skills in its system message, like a
language model does, and knows nothing else. The learner `offering` trains its two weights with the loss `kto`. Its
baseline is exact, because a softmax over six tools has a KL divergence that can be computed.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path
from random import Random

from pydantic import Field

from agentfw import Component, Episode, Generation, Message, Policy, Request, Settings, Turn, hookimpl
from agentfw.errors import UsageError
from agentfw.learner import Batch, Update
from agentfw.request import Action
from agentfw_papers.linear import Decision, LinearLearner, read_weights

NAMES = ("named", "alike")
_RECALLED = re.compile(r"^- s\d+: .*\(tools: ([^;)]+)", re.MULTILINE)


class OfferingSettings(Settings):
    weights: str = Field("", description="File of trained weights. Default: those below.")
    named: float = Field(1.0, description="Weight of a tool that a recalled skill names.")
    alike: float = Field(2.0, description="Weight of the share of recalled tools with a word in common.")

    def start(self) -> dict[str, float]:
        return read_weights(Path(self.weights), NAMES) if self.weights else {"named": self.named, "alike": self.alike}


class OfferingLearnerSettings(OfferingSettings):
    learning_rate: float = Field(0.15, gt=0, description="Step size of Adam.")


def options(messages: Sequence[Message], actions: Sequence[Action]) -> tuple[tuple[float, float], ...]:
    """The features of each tool."""
    said = "\n".join(message.content for message in messages if message.role == "system")
    recalled = [tool for found in _RECALLED.finditer(said) for tool in found[1].split(", ")]
    words = [set(action.name.split("_")) for action in actions]
    common = set.intersection(*words) if words else set()
    return tuple(
        (
            float(action.name in recalled),
            sum(bool((own - common) & set(tool.split("_"))) for tool in recalled) / max(1, len(recalled)),
        )
        for action, own in zip(actions, words, strict=True)
    )


class Offering(Policy):
    """Calls one of the tools that it is offered."""

    def __init__(self, settings: OfferingSettings | None = None) -> None:
        self.weights = (settings or OfferingSettings()).start()
        self.version = "start"

    async def generate(self, request: Request) -> Generation:
        if not request.actions:
            return Generation("There is nothing to offer.", version=self.version)
        shares = Decision(NAMES, options(request.messages, request.actions), 0).probabilities(self.weights)
        seed = request.task.seed if request.sampling.seed is None else request.sampling.seed
        if request.sampling.temperature == 0:
            choice = shares.index(max(shares))
        else:
            (choice,) = Random(f"offer {seed}").choices(range(len(shares)), shares)
        text = json.dumps({"name": request.actions[choice].name, "arguments": {}})
        return Generation(text, count=1, version=self.version)

    async def publish(self, adapter: Path, version: str) -> None:
        self.weights, self.version = read_weights(adapter, NAMES), version


class OfferingLearner(LinearLearner):
    """One Adam step for each batch of rated offers."""

    def __init__(self, settings: OfferingLearnerSettings | None = None) -> None:
        super().__init__(settings or OfferingLearnerSettings())

    def update(self, batch: Batch) -> Update:
        if batch.loss.sampled:
            raise UsageError(f"the learner offering has no loss {batch.loss.name}", fix="--optimizer kto")
        values = {(one.episode, one.turn): one.value for one in batch.advantages}
        rated = [
            (_decision(episode, turn), values[episode.id, turn.index])
            for episode in batch.episodes
            for turn in episode.turns
            if (episode.id, turn.index) in values
        ]
        baseline = sum(self._divergence(decision) for decision, _ in rated) / len(rated)
        gradient = dict.fromkeys(self.weights, 0.0)
        for decision, advantage in rated:
            ratio = decision.logprob(self.weights) - decision.logprob(self.reference)
            sign = math.copysign(batch.loss.settings["beta"], advantage)
            value = 1 / (1 + math.exp(-sign * (ratio - baseline)))
            for name, slope in decision.gradient(self.weights).items():
                gradient[name] += abs(advantage) * sign * value * (1 - value) * slope / len(rated)
        self._step(gradient)
        batch.folder.mkdir(parents=True)
        path = batch.folder / "weights.json"
        path.write_text(json.dumps(self.weights), "utf-8")
        return Update(f"offering-{self._steps}", path, {**self.weights, "baseline": baseline})

    def _divergence(self, decision: Decision) -> float:
        now, before = decision.probabilities(self.weights), decision.probabilities(self.reference)
        return sum(share * math.log(share / old) for share, old in zip(now, before, strict=True))


def _decision(episode: Episode, turn: Turn) -> Decision:
    actions = [Action(**action) for action in episode.actions[turn.seat]]
    names = [action.name for action in actions]
    shown = [episode.messages[place] for place in turn.shown]
    return Decision(NAMES, options(shown, actions), names.index(json.loads(turn.text)["name"]))


@hookimpl
def agentfw_policies() -> list[Component]:
    return [
        Component("offering", "offering_agent:Offering", "Offers a tool", settings="offering_agent:OfferingSettings")
    ]


@hookimpl
def agentfw_learners() -> list[Component]:
    return [
        Component(
            "offering",
            "offering_agent:OfferingLearner",
            "Trains the policy of the same name",
            settings="offering_agent:OfferingLearnerSettings",
        )
    ]
