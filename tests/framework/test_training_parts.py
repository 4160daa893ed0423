"""The small parts of a training: which tasks an update learns from, and what is on disk of it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw.episode import Task
from agentfw.errors import PluginError, UsageError
from agentfw.runs.execution import Curriculum, QueryCurriculum
from agentfw.runs.learning.update import finite
from agentfw.seeds import Seeds


def curriculum(count: int, size: int, seed: int = 7) -> Curriculum:
    return Curriculum([Task(index, seed=index) for index in range(count)], size, Seeds(seed), updates=20)


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 20))
def test_an_update_learns_from_different_tasks_and_a_pass_takes_each_once(count: int, size: int, updates: int) -> None:
    if size > count:
        with pytest.raises(UsageError, match=f"needs {size} tasks, but the split has {count}"):
            curriculum(count, size)
        return
    plan = curriculum(count, size)

    taken = [[task.index for task in plan.of(update)] for update in range(1, updates + 1)]

    assert all(len(set(indexes)) == size for indexes in taken)
    first_pass = Counter(index for indexes in taken[: count // size] for index in indexes)
    assert max(first_pass.values()) == 1
    assert taken == [[task.index for task in curriculum(count, size).of(update)] for update in range(1, updates + 1)]


def test_a_figure_that_is_no_number_says_that_the_weights_are_none_either() -> None:
    assert finite({"loss": 1.0}, "the learner") == {"loss": 1.0}
    for value in (float("nan"), float("-inf")):
        with pytest.raises(PluginError, match="the learner reported loss =") as caught:
            finite({"kl": 0.1, "loss": value}, "the learner")
        assert "learning rate" in caught.value.fix


def of_queries(updates: int = 20, samples: int = 3) -> QueryCurriculum:
    """Four queries, each of which ten users have, and one that only two have."""
    users = [(f"query {query}", f"user {user}") for query in range(4) for user in range(10)]
    users += [("rare", "user 1"), ("rare", "user 2")]
    tasks = [Task(index, 7, user, query=query) for index, (query, user) in enumerate(users)]
    return QueryCurriculum(tasks, 6, Seeds(7), samples=samples, updates=updates)


def test_a_group_of_a_query_has_different_users_and_no_episode_comes_twice() -> None:
    plan = of_queries()

    planned = [plan.planned(update, 3) for update in range(1, 21)]

    for tasks in planned:
        groups = [[task for task in tasks if task.group == number] for number in (0, 1)]
        assert [len({task.user for task in group}) for group in groups] == [3, 3]
        assert [len({task.query for task in group}) for group in groups] == [1, 1]
    assert len({task.id for tasks in planned for task in tasks}) == 20 * 6
    assert "rare" not in {task.query for tasks in planned for task in tasks}
    assert planned == [of_queries().planned(update, 3) for update in range(1, 21)]


def test_too_few_users_of_a_query_are_an_error_before_anything_is_played() -> None:
    with pytest.raises(UsageError, match="2 queries that 3 users have, but the first 9 tasks have 0"):
        QueryCurriculum([Task(index, 7, f"user {index}") for index in range(9)], 6, Seeds(7), samples=3, updates=2)
