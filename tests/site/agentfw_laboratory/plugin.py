"""What the laboratory offers, and its hooks: they only watch for the moment at which the process shall die."""

from __future__ import annotations

from typing import Any

from agentfw import Component, hookimpl
from agentfw_laboratory.killing import acknowledge, arm, reached


@hookimpl
def agentfw_environments() -> list[Component]:
    return [
        Component(
            "guessing",
            "agentfw_laboratory.guessing:Guessing",
            "Guess a number in each round",
            settings="agentfw_laboratory.guessing:GuessingSettings",
        ),
        Component(
            "bandit",
            "agentfw_laboratory.bandit:Bandit",
            "Has a favourite word",
            settings="agentfw_laboratory.bandit:BanditSettings",
        ),
    ]


@hookimpl
def agentfw_policies() -> list[Component]:
    return [
        Component(
            "hashing",
            "agentfw_laboratory.hashing:Hashing",
            "Acts on the hash of all it reads",
            settings="agentfw_laboratory.hashing:HashingSettings",
        ),
        Component(
            "biased",
            "agentfw_laboratory.bandit:Biased",
            "Says words, each with a bias that can be learned",
            settings="agentfw_laboratory.bandit:BiasedSettings",
        ),
        Component("unpublishable", "agentfw_laboratory.bandit:Unpublishable", "Can't be trained"),
    ]


@hookimpl
def agentfw_optimizers() -> list[Component]:
    return [
        Component(
            "centred",
            "agentfw_laboratory.bandit:Centred",
            "The reward less the mean of its group",
            settings="agentfw_laboratory.bandit:CentredSettings",
        )
    ]


@hookimpl
def agentfw_learners() -> list[Component]:
    return [
        Component(
            "bias",
            "agentfw_laboratory.bandit:Bias",
            "Moves the biases of words",
            settings="agentfw_laboratory.bandit:BiasSettings",
        )
    ]


@hookimpl
def agentfw_memories() -> list[Component]:
    return [
        Component(
            "ledger",
            "agentfw_laboratory.memories:Ledger",
            "A chain of what it learned, in SQLite",
            settings="agentfw_laboratory.memories:LedgerSettings",
        ),
        Component("scratch", "agentfw_laboratory.memories:Scratch", "A chain of what it learned, in the process"),
    ]


@hookimpl
def agentfw_reward_models() -> list[Component]:
    return [
        Component("rank", "agentfw_laboratory.rewards:Rank", "How well against the others of the group"),
        Component("varied", "agentfw_laboratory.rewards:Varied", "How often it says e"),
        Component("faulty", "agentfw_laboratory.rewards:Faulty", "Gives scores that are no numbers"),
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
