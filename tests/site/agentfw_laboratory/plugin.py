"""What the laboratory offers, and its hooks: they only watch for the moment at which the process shall die."""

from __future__ import annotations

from typing import Any

from agentfw import Component, hookimpl
from agentfw_laboratory.killing import acknowledge, arm, reached


def component(name: str, factory: str, summary: str, *, configured: bool = True) -> Component:
    """A component of this package, whose settings are named as its class is."""
    path = f"agentfw_laboratory.{factory}"
    return Component(name, path, summary, settings=f"{path}Settings" if configured else "")


@hookimpl
def agentfw_environments() -> list[Component]:
    return [
        component("guessing", "guessing:Guessing", "Guess a number in each round"),
        component("bandit", "bandit:Bandit", "Has a favourite word"),
    ]


@hookimpl
def agentfw_policies() -> list[Component]:
    return [
        component("hashing", "hashing:Hashing", "Acts on the hash of all it reads"),
        component("biased", "bandit:Biased", "Says words, each with a bias that can be learned"),
        component("unpublishable", "bandit:Unpublishable", "Can't be trained", configured=False),
    ]


@hookimpl
def agentfw_optimizers() -> list[Component]:
    return [component("centred", "bandit:Centred", "The reward less the mean of its group")]


@hookimpl
def agentfw_learners() -> list[Component]:
    return [component("bias", "bandit:Bias", "Moves the biases of words")]


@hookimpl
def agentfw_memories() -> list[Component]:
    return [
        component("ledger", "memories:Ledger", "A chain of what it learned, in SQLite"),
        component("scratch", "memories:Scratch", "A chain of what it learned, in the process", configured=False),
    ]


@hookimpl
def agentfw_reward_models() -> list[Component]:
    return [
        component("rank", "rewards:Rank", "How well against the others of the group", configured=False),
        component("varied", "rewards:Varied", "How often it says e", configured=False),
        component("faulty", "rewards:Faulty", "Gives scores that are no numbers", configured=False),
    ]


@hookimpl
def agentfw_run_started(run: Any) -> None:
    arm(run.folder.path.parent)
    reached("run_started")


@hookimpl
def agentfw_turn() -> None:
    reached("turn")


@hookimpl
def agentfw_episode_done(run: Any, episode: Any) -> None:
    acknowledge(run.folder.path.parent, episode.id)
    reached("episode_done")


@hookimpl
def agentfw_scored() -> None:
    reached("scored")


@hookimpl
def agentfw_updated() -> None:
    reached("updated")


@hookimpl
def agentfw_run_finished() -> None:
    reached("run_finished")
