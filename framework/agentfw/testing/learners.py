"""The contract of learners.

An update is all or nothing, and lives in its own folder. A batch with nothing to learn from is either
refused with an error of agentfw's tree, before anything is written, gives no update, or gives one like any other.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ..errors import AgentfwError
from ..learner import Batch, Learner, Update
from ..optimizer import Advantage, Loss
from .checks import BrokenPromise, DoesNotApply, Subject, plain_state, require, require_finite

Learners = Subject[Learner]


def _batch(subject: Learners, folder: Path) -> Batch:
    """The episodes, each turn a little better or worse than expected."""
    episodes = copy.deepcopy(list(subject.episodes))
    advantages = [
        Advantage(episode.id, turn.index, 0.5 if (number + turn.index) % 2 else -0.5)
        for number, episode in enumerate(episodes)
        for turn in episode.turns
    ]
    return Batch(episodes, advantages, Loss(), folder)


def _updated(learner: Learner, batch: Batch) -> Update:
    return _checked(learner.update(batch), batch)


def _checked(update: object, batch: Batch) -> Update:
    if not isinstance(update, Update):
        raise BrokenPromise(f"it gives a {type(update).__name__}, which is no Update")
    require(isinstance(update.version, str) and update.version, "the update has no version")
    require(update.adapter.exists(), f"the adapter {update.adapter.name} that it names isn't there")
    inside = update.adapter.resolve().is_relative_to(batch.folder.resolve())
    require(inside, f"its adapter is at {update.adapter}, outside the folder that it was given")
    for name, value in update.metrics.items():
        require_finite(value, f"its figure {name}")
    return update


def an_update_gives_an_adapter(subject: Learners) -> None:
    """An update gives a version and an adapter that is there, in the folder that it was given."""
    _updated(subject.make(), _batch(subject, subject.folder / "update-1"))


def what_was_good_becomes_likelier(subject: Learners) -> None:
    """After an update in which each turn was better than expected, the sampled tokens are likelier than before."""
    learner, batch = subject.make(), _batch(subject, subject.folder / "update-1")
    turns = [turn for episode in batch.episodes for turn in episode.turns]
    for turn in turns:  # sampled by the very model that is about to learn
        turn.logprobs = tuple(learner.logprobs(turn.prompt_ids, turn.token_ids))
    if not any(turn.logprobs for turn in turns):
        raise DoesNotApply("it gives no logprobs")
    _updated(learner, replace(batch, advantages=[replace(one, value=1.0) for one in batch.advantages]))
    before = [value for turn in turns for value in turn.logprobs]
    after = [value for turn in turns for value in learner.logprobs(turn.prompt_ids, turn.token_ids)]
    mean = math.fsum(new - old for old, new in zip(before, after, strict=True)) / len(before)
    require(
        mean > 0,
        f"after an update with advantages of 1, the mean logprob of what was sampled changed by {mean:g}; it should "
        "rise: is the sign of its loss right?",
    )


def what_was_there_stays(subject: Learners) -> None:
    """An update writes in its own folder only, and leaves earlier versions as they are."""
    learner = subject.make()
    (subject.folder / "beside.txt").write_text("somebody else's", "utf-8")
    first = _updated(learner, _batch(subject, subject.folder / "update-1"))
    before = _contents(subject.folder)
    second = _updated(learner, _batch(subject, subject.folder / "update-2"))
    after = _contents(subject.folder)
    changed = sorted(name for name, content in before.items() if after.get(name) != content)
    require(not changed, f"the second update changed {', '.join(changed)}")
    new = sorted(name for name in after.keys() - before.keys() if not name.startswith("update-2/"))
    require(not new, f"the second update wrote {', '.join(new)} outside its folder")
    require(first.version != second.version, f'two updates have the version "{first.version}"')


def a_repeated_update_will_do(subject: Learners) -> None:
    """An update that was killed can be done again by a new learner, from the state before."""
    learner = subject.make()
    _updated(learner, _batch(subject, subject.folder / "update-1"))
    state = plain_state(learner)
    _updated(learner, _batch(subject, subject.folder / "update-2"))
    again = subject.make()
    again.restore(state)
    _updated(again, _batch(subject, subject.folder / "update-2-again"))
    require(
        _alike(_logprobs(learner, subject), _logprobs(again, subject)),
        "done again from the state before, an update gives other logprobs; state() must have all that restore() needs",
    )


def a_rest_does_no_harm(subject: Learners) -> None:
    """Sleeping and waking, also twice, doesn't change the next update."""
    found: list[list[float]] = []
    for rests in (True, False):
        learner = subject.make()
        _updated(learner, _batch(subject, subject.folder / f"{rests}-1"))
        for doing in (learner.rest, learner.rest, learner.wake, learner.wake) if rests else ():
            doing()
        _updated(learner, _batch(subject, subject.folder / f"{rests}-2"))
        found.append(_logprobs(learner, subject))
    require(_alike(*found), "after a rest it learned otherwise than without one")


def _logprobs(learner: Learner, subject: Learners) -> list[float]:
    turns = [turn for episode in subject.episodes for turn in episode.turns if turn.prompt_ids and turn.token_ids]
    return [value for turn in turns for value in learner.logprobs(turn.prompt_ids, turn.token_ids)]


def _alike(one: Sequence[float], other: Sequence[float]) -> bool:
    return len(one) == len(other) and all(abs(a - b) < 1e-3 for a, b in zip(one, other, strict=True))


def an_empty_batch_does_no_harm(subject: Learners) -> None:
    """A batch with nothing to learn from is refused in words, gives no update, or gives one like any other."""
    for name, episodes in (("nothing", []), ("no-advantages", list(subject.episodes))):
        batch = Batch(episodes, [], Loss(), subject.folder / name)
        update: Update | None = None
        with suppress(AgentfwError):
            update = subject.make().update(batch)
        if update is not None:
            _checked(update, batch)
            continue
        left = [path.name for path in batch.folder.rglob("*") if path.is_file()] if batch.folder.exists() else []
        require(not left, f"it made no update of a batch with nothing to learn from, and left {', '.join(left)} behind")


def _contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }
