"""The contract of optimizers.

Whatever the scores, the advantages are finite and belong to turns that exist; and what an optimizer
remembers can be written down and taken back without anybody noticing.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Sequence

from ..optimizer import Advantage, Loss, Optimizer, Scored
from ..scores import Score
from .checks import CheckFunction, Subject, require
from .samples import sample_group

__all__ = ["OPTIMIZER"]

Optimizers = Subject[Optimizer]
Reward = Callable[[int], float]


def _group(index: int, samples: int, reward: Reward = lambda sample: 0.25 * sample - 0.3) -> list[Scored]:
    """The samples of one task, scored in the three ways there are: whole episodes, rounds and turns; on both tracks."""
    scored = []
    for sample, episode in enumerate(sample_group(index, samples)):
        value = reward(sample)
        scores = [Score(episode.id, "utility", value), Score(episode.id, "preference", 2 * value, "personal")]
        scores += [
            Score(episode.id, "right", value + 0.1 * number, "personal" if number % 2 else "base", round=number)
            for number in range(1, episode.rounds + 1)
        ]
        scores += [Score(episode.id, "format", value, round=turn.round, turn=turn.index) for turn in episode.turns]
        scored.append(Scored(episode, tuple(scores), value))
    return scored


def _batch(first: int = 0) -> list[list[Scored]]:
    return [_group(first, 4), _group(first + 1, 4, lambda sample: 1.0 / (sample + 1))]


def _advantages(optimizer: Optimizer, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
    advantages = list(optimizer.advantages(groups))
    turns = {scored.episode.id: len(scored.episode.turns) for group in groups for scored in group}
    seen: set[tuple[str, int]] = set()
    for advantage in advantages:
        require(isinstance(advantage, Advantage), f"it gives a {type(advantage).__name__}, which is no Advantage")
        where = f"turn {advantage.turn} of episode {advantage.episode}"
        require(
            isinstance(advantage.value, (int, float)) and math.isfinite(advantage.value),
            f"the advantage of {where} is {advantage.value!r}, which is no finite number",
        )
        require(
            0 <= advantage.turn < turns.get(advantage.episode, 0), f"it gives an advantage to {where}; there is none"
        )
        require((advantage.episode, advantage.turn) not in seen, f"it gives two advantages to {where}")
        seen.add((advantage.episode, advantage.turn))
    return advantages


def advantages_can_be_used(subject: Optimizers) -> None:
    """Its advantages are finite numbers, at most one for each turn that exists."""
    advantages = _advantages(subject.make(), _batch())
    require(
        any(advantage.value for advantage in advantages), "of episodes that fared differently it makes no difference"
    )


def equal_rewards_will_do(subject: Optimizers) -> None:
    """A group in which all fared alike does no harm."""
    for value in (0.0, 1.0, -1e6):
        _advantages(subject.make(), [_group(0, 4, lambda sample, value=value: value)])  # type: ignore[misc]


def a_group_of_one_will_do(subject: Optimizers) -> None:
    """A task that was played once does no harm."""
    _advantages(subject.make(), [_group(0, 1)])


def great_and_tiny_rewards_will_do(subject: Optimizers) -> None:
    """Rewards of any size, or nearly equal ones, do no harm."""
    for scale in (1e-12, 1e9):
        _advantages(subject.make(), [_group(0, 4, lambda sample, scale=scale: scale * sample)])  # type: ignore[misc]


def episodes_without_turns_or_scores_will_do(subject: Optimizers) -> None:
    """An episode in which nothing was said, or of which no reward model said anything, does no harm."""
    group = _group(0, 4)
    quiet = copy.deepcopy(group[0].episode)
    quiet.turns.clear()
    _advantages(subject.make(), [[Scored(quiet, (), 0.0), *group[1:]]])
    _advantages(subject.make(), [[Scored(scored.episode, (), scored.reward) for scored in group]])


def nothing_gives_nothing(subject: Optimizers) -> None:
    """No groups give no advantages."""
    advantages = _advantages(subject.make(), [])
    require(not advantages, f"it makes {len(advantages)} advantages of nothing")


def it_goes_on_where_it_was(subject: Optimizers) -> None:
    """Broken off and resumed from its state, it goes on as if nothing had happened."""
    one, other = subject.make(), subject.make()
    _advantages(one, _batch())
    try:
        state = json.loads(json.dumps(one.state(), allow_nan=False))
    except (TypeError, ValueError) as error:
        require(False, f"its state is no plain JSON: {error}")
    other.restore(state)
    undisturbed, resumed = _advantages(one, _batch(2)), _advantages(other, _batch(2))
    require(undisturbed == resumed, "restored from its state, it gives other advantages")


def the_same_gets_the_same(subject: Optimizers) -> None:
    """The same scores give the same advantages."""
    require(
        _advantages(subject.make(), _batch()) == _advantages(subject.make(), _batch()), "they differ from time to time"
    )


def scores_stay_as_they_are(subject: Optimizers) -> None:
    """It doesn't alter what it is given."""
    batch = _batch()
    before = copy.deepcopy(batch)
    subject.make().advantages(batch)
    require(batch == before, "it altered the episodes or their scores")


def it_stops_asking_for_groups(subject: Optimizers) -> None:
    """A training plays the groups that it misses, and it doesn't ask for more for ever."""
    for groups in ([_group(0, 4)], [_group(0, 4, lambda sample: 1.0)]):
        optimizer, played = subject.make(), list(groups)
        while missing := optimizer.missing(played, 2):
            require(
                isinstance(missing, int) and missing > 0, f"it misses {missing!r} groups, which is no number of them"
            )
            require(len(played) < 1000, "of a batch of 2 groups it has seen 1,000, and asks for more")
            played += groups * missing


def it_names_its_loss(subject: Optimizers) -> None:
    """It says which loss its advantages are for."""
    loss = subject.make().loss()
    require(isinstance(loss, Loss) and isinstance(loss.name, str) and loss.name, "it names no loss")


def its_figures_are_numbers(subject: Optimizers) -> None:
    """The figures that it gives of a batch are finite numbers, also of a batch of nothing."""
    for groups in (_batch(), []):
        optimizer = subject.make()
        _advantages(optimizer, groups)
        for name, value in optimizer.metrics().items():
            require(isinstance(value, (int, float)) and math.isfinite(value), f"of its figures, {name} is {value!r}")


OPTIMIZER: list[CheckFunction] = [
    advantages_can_be_used,
    equal_rewards_will_do,
    a_group_of_one_will_do,
    great_and_tiny_rewards_will_do,
    episodes_without_turns_or_scores_will_do,
    nothing_gives_nothing,
    it_goes_on_where_it_was,
    the_same_gets_the_same,
    scores_stay_as_they_are,
    it_stops_asking_for_groups,
    it_names_its_loss,
    its_figures_are_numbers,
]
