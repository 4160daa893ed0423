"""The machine: what is known of it is Bayes' rule, and the plan is worth what it promises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfw import Episode, Interface
from agentfw.interfaces import EventDriven, Polling
from agentfw_papers.tables.table_training import play
from agentfw_papers.worlds.machine.environment import Machine, MachineSettings, Rates
from agentfw_papers.worlds.machine.rule_policy import MachineKeeper, MachineKeeperSettings, Plan

probabilities = st.floats(0.01, 0.99)
rates = st.builds(Rates, probabilities, probabilities, probabilities)


def played(count: int, interface: Interface | None = None, seed: int = 5, **policy: object) -> list[Episode]:
    keeper = MachineKeeper(MachineKeeperSettings.model_validate(policy))
    return list(play(Machine, keeper, Machine().tasks(count, seed, "test"), interface or EventDriven()))


def posterior(rates: Rates, noises: Sequence[bool]) -> float:
    """The probability that the machine is broken at the end, by adding up every way in which it can have gone."""
    total = broken_at_end = 0.0
    for states in product((False, True), repeat=len(noises)):
        likely, before = 1.0, False
        for broken, noise in zip(states, noises, strict=True):
            likely *= float(broken) if before else (rates.breaks if broken else 1 - rates.breaks)
            often = rates.rattles if broken else rates.hums
            likely *= often if noise else 1 - often
            before = broken
        total += likely
        broken_at_end += likely * before
    return broken_at_end / total


@settings(deadline=None, max_examples=80)
@given(rates, st.lists(st.booleans(), min_size=1, max_size=7))
def test_a_belief_is_the_posterior_of_a_hidden_markov_model(rates: Rates, noises: Sequence[bool]) -> None:
    """Appendix B.4: with one observation at each tick, it is the belief of a POMDP. Silence is an observation too."""
    belief = 0.0
    for noise in noises:
        belief = rates.after(belief, noise=noise)

    assert belief == pytest.approx(posterior(rates, noises), abs=1e-9)


def test_the_world_tells_the_belief_of_whoever_hears_all() -> None:
    episode = played(1, rule="never")[0]
    told = [event for event in episode.events if event.kind == "observation"]

    belief, since = 0.0, 0.0
    for event in told[1:]:
        assert event.name == "noise"
        belief = MachineSettings().rates.after_silence(belief, int(event.time - since) - 1)
        belief = MachineSettings().rates.after(belief, noise=True)
        assert event.data["belief"] == pytest.approx(belief)
        since = event.time
    assert len(told) > 5


def test_a_repair_takes_its_time_and_leaves_a_sound_machine() -> None:
    episode = played(1, rule="noise")[0]
    repairs = [event.time for event in episode.events if event.kind == "intervention"]
    back = [event for event in episode.events if event.kind == "observation" and event.name == "repaired"]

    assert [event.time - begun for begun, event in zip(repairs, back, strict=False)] == [3] * len(back)
    assert {event.data["belief"] for event in back} == {0.0}
    assert episode.outcome["repairs"] == len(repairs) > 3


@pytest.mark.slow
@pytest.mark.parametrize(("every", "interface"), [(1, EventDriven()), (10, Polling(10))])
def test_the_plan_is_worth_what_it_promises(every: int, interface: Interface) -> None:
    """The mean return of 100 episodes is the value at the start: within four standard errors."""
    promised = Plan(MachineSettings(), every).worth(0.0, 200)
    returns = [episode.utility for episode in played(100, interface, every=every)]

    mean = math.fsum(returns) / len(returns)
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in returns)) / len(returns)
    assert abs(mean - promised) < 4 * error
    assert error < 0.1 * abs(promised)
