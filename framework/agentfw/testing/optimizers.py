"""The contract of optimizers.

Whatever the scores, the advantages are finite and belong to turns that exist; and what an optimizer
remembers can be written down and taken back without anybody noticing.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain

from ..episode import Event
from ..optimizer import Advantage, Optimizer, Scored
from ..scores import Score, Track
from .checks import DoesNotApply, Subject, plain_state, require, require_finite, sample_group

Optimizers = Subject[Optimizer]
Reward = Callable[[int], float]


def _group(index: int, samples: int, reward: Reward = lambda sample: 0.25 * sample - 0.3) -> list[Scored]:
    """The samples of one task with a word on each, scored by episode, by round and by turn, on both tracks."""
    scored = []
    for sample, episode in enumerate(sample_group(index, samples)):
        value = reward(sample)
        said = {"value": value, "text": "Ask whether it may be hot."}
        episode.events.append(Event(episode.ended, "observation", "feedback", said))
        scores = [Score(episode.id, "utility", value), Score(episode.id, "preference", 2 * value, "personal")]
        for number in range(1, episode.rounds + 1):
            track: Track = "personal" if number % 2 else "base"
            scores.append(Score(episode.id, "right", value + 0.1 * number, track, round=number))
        scores += [Score(episode.id, "format", value, round=turn.round, turn=turn.index) for turn in episode.turns]
        scored.append(Scored(episode, tuple(scores), value))
    return scored


def _batch(first: int = 0) -> list[list[Scored]]:
    return [_group(first, 4), _group(first + 1, 4, lambda sample: 1.0 / (sample + 1))]


def _advantages(optimizer: Optimizer, groups: Sequence[Sequence[Scored]]) -> dict[tuple[str, int], float]:
    """The advantage of each turn, by its episode and number."""
    turns = {scored.episode.id: len(scored.episode.turns) for group in groups for scored in group}
    found: dict[tuple[str, int], float] = {}
    for advantage in optimizer.advantages(groups):
        require(isinstance(advantage, Advantage), f"it gives a {type(advantage).__name__}, which is no Advantage")
        episode, turn = advantage.episode, advantage.turn
        where = f"turn {turn} of episode {episode}"
        require_finite(advantage.value, f"the advantage of {where}")
        require(0 <= turn < turns.get(episode, 0), f"it gives an advantage to {where}; there is none")
        require((episode, turn) not in found, f"it gives two advantages to {where}")
        found[episode, turn] = advantage.value
    return found


def advantages_can_be_used(subject: Optimizers) -> None:
    """Its advantages are finite numbers, at most one for each turn that exists."""
    found = _advantages(subject.make(), _batch())
    require(any(found.values()), "of episodes that fared differently it makes no difference")


def better_samples_fare_better(subject: Optimizers) -> None:
    """The sample with the best scores gets no smaller advantage than the one with the worst."""
    for group in _batch():
        means = _means(subject.make(), group)
        rewards = {scored.episode.id: scored.reward for scored in group}
        if len(means) == len(group):
            best, worst = (means[pick(means, key=rewards.__getitem__)] for pick in (max, min))
            given = f"the best sample gets the advantage {best:g} and the worst {worst:g}"
            wrong = f"of rewards {', '.join(f'{one:g}' for one in rewards.values())}, {given}"
            require(best >= worst, f"{wrong}; what is better than expected gets more than 0")


def a_sample_is_not_in_its_own_baseline(subject: Optimizers) -> None:
    """A sample isn't compared with itself: a reward that is higher by 1 raises its own advantage by 1."""
    optimizer = subject.make()
    if optimizer.baseline_has_own_sample:
        raise DoesNotApply("it says that the baseline of a sample has the sample itself in it")

    def means(*rewards: float) -> list[float]:
        pairs = zip(sample_group(0, len(rewards)), rewards, strict=True)
        scored = [Scored(episode, (Score(episode.id, "utility", reward),), reward) for episode, reward in pairs]
        return list(_means(subject.make(), scored).values())

    plain, double = means(0.0, 0.1, 0.3, 0.4), means(0.0, 0.2, 0.6, 0.8)
    shifted, raised = means(5.0, 5.1, 5.3, 5.4), means(0.0, 0.1, 0.3, 1.4)
    same = all(abs(b - 2 * a) < 1e-6 and abs(c - a) < 1e-6 for a, b, c in zip(plain, double, shifted, strict=False))
    if not same or len(plain) < 4 or not any(plain):
        raise DoesNotApply("its advantages are scaled, so nobody can tell")
    change = raised[-1] - plain[-1]
    require(
        abs(change - 0.75) > 1e-6,
        "of four samples, a reward that is higher by 1 raises its own advantage by 0.75, so its baseline is a mean "
        "with the sample itself in it; take the mean of the others, or set `baseline_has_own_sample = True`",
    )


def _means(optimizer: Optimizer, group: Sequence[Scored]) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for (episode, _), value in _advantages(optimizer, [group]).items():
        values.setdefault(episode, []).append(value)
    return {episode: math.fsum(some) / len(some) for episode, some in values.items()}


def the_order_of_samples_does_not_matter(subject: Optimizers) -> None:
    """A sample gets the same advantages wherever it stands in its group."""
    there = _advantages(subject.make(), _batch())
    back = _advantages(subject.make(), [group[::-1] for group in _batch()])
    same = there.keys() == back.keys() and all(abs(there[each] - back[each]) < 1e-6 for each in there)
    require(same, "samples in the opposite order get other advantages")


def no_turn_is_left_out(subject: Optimizers) -> None:
    """Of an episode that it learns from, every turn with an answer gets its advantage."""
    optimizer, batch = subject.make(), _batch()
    if optimizer.compares_same_requests:
        raise DoesNotApply("it says that a turn teaches only beside another answer to the same request")
    found = _advantages(optimizer, batch)
    for scored in chain.from_iterable(batch):
        episode, turns = scored.episode, [turn.index for turn in scored.episode.turns]
        given = [turn for turn in turns if (episode.id, turn) in found]
        require(len(given) in (0, len(turns)), f"of the turns {turns} of an episode, only {given} get an advantage")


def a_user_is_forgotten(subject: Optimizers) -> None:
    """After forget(user), its state says nothing of that user, and it still works."""
    optimizer, batch, name = subject.make(), _batch(), "quokka-user"
    for scored in chain.from_iterable(batch):
        scored.episode.task = replace(scored.episode.task, user=name)
    _advantages(optimizer, batch)
    if name not in json.dumps(optimizer.state(), default=str):
        raise DoesNotApply("its state doesn't name users")
    known = optimizer.forget(name)
    require(known is True, f"forget() of a user whom its state named returned {known!r}, not True")
    left = json.dumps(optimizer.state(), default=str)
    require(name not in left, "after forget(user), its state still names the user; take out all that is kept of them")
    require(optimizer.forget("a stranger") is False, "forget() of a user whom it never saw returned True, not False")
    _advantages(optimizer, _batch(2))


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
    """An episode without turns, with empty answers, or of which no reward model said anything, does no harm."""
    group = _group(0, 4)
    quiet = copy.deepcopy(group[0].episode)
    quiet.turns.clear()
    _advantages(subject.make(), [[Scored(quiet, (), 0.0, unrated=True), *group[1:]]])
    _advantages(subject.make(), [[Scored(scored.episode, (), scored.reward) for scored in group]])
    for scored in group:
        scored.episode.turns = [
            replace(turn, text="", calls=(), count=0, token_ids=(), logprobs=()) for turn in scored.episode.turns
        ]
    _advantages(subject.make(), [group])


def nothing_gives_nothing(subject: Optimizers) -> None:
    """No groups give no advantages."""
    advantages = _advantages(subject.make(), [])
    require(not advantages, f"it makes {len(advantages)} advantages of nothing")


def it_goes_on_where_it_was(subject: Optimizers) -> None:
    """Broken off and resumed from its state, it goes on as if nothing had happened."""
    one, other = subject.make(), subject.make()
    _advantages(one, _batch())
    other.restore(plain_state(one))
    same = _advantages(one, _batch(2)) == _advantages(other, _batch(2))
    require(same, "restored from its state, it gives other advantages")


def the_same_gets_the_same(subject: Optimizers) -> None:
    """The same scores give the same advantages."""
    first, second = (_advantages(subject.make(), _batch()) for _ in range(2))
    require(first == second, "they differ from time to time")


def it_stops_asking_for_groups(subject: Optimizers) -> None:
    """A training plays the groups that it misses, and it doesn't ask for more for ever."""
    for groups in ([_group(0, 4)], [_group(0, 4, lambda sample: 1.0)]):
        optimizer, played = subject.make(), list(groups)
        while missing := optimizer.missing(played, 2):
            wrong = f"it misses {missing!r} groups, which is no number of them"
            require(isinstance(missing, int) and missing > 0, wrong)
            require(len(played) < 1000, "of a batch of 2 groups it has seen 1,000, and asks for more")
            played += groups * missing
