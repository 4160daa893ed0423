"""The teacher: what it writes can be read back, and what it knows of the user it has from the conversation alone."""

import asyncio
from collections.abc import Sequence

import pytest

from agentfw import Engagement, EventDriven, PolicyAgent, Task
from agentfw.episode import Episode, Observation
from agentfw.memory import Memory
from agentfw.statistics import bootstrap
from agentfw_plugins.calendar.environment import CalendarConflicts, CalendarSettings
from agentfw_plugins.calendar.scratchpad import (
    NAMES,
    Valued,
    read_valued,
    read_weights,
    terms,
    value,
    write_valued,
    write_weights,
)
from agentfw_plugins.calendar.teacher import TeacherPolicy, expected_of, learn, think
from agentfw_plugins.memories.strategyhub import StrategyHubMemory, StrategyHubSettings


def keep(rounds: int, memories: Sequence[Memory], index: int = 0, split: str = "validation") -> Episode:
    environment = CalendarConflicts(CalendarSettings(rounds=rounds))
    user = environment.settings.dataset().users(split)[index]
    agent = PolicyAgent(TeacherPolicy(), memories=memories, window=2, recall=10)
    task = Task(index, seed=index, user=user, split=split)
    return asyncio.run(Engagement(environment, agent, EventDriven()).run(task))


def hub() -> StrategyHubMemory:
    return StrategyHubMemory(StrategyHubSettings(show=True))


def feedback(kept: str, chosen: str, principle: str, *, valued: bool = True) -> Observation:
    because = {"principle": principle, "valued": valued}
    return Observation(0, "feedback", {"accepted": kept, "chosen": chosen, "because": because})


def test_weights_are_read_as_they_were_written() -> None:
    weights = {name: number - 9 for number, name in enumerate(NAMES)}

    assert read_weights(write_weights(weights)) == weights


def test_a_hub_holds_all_weights_at_their_longest() -> None:
    entries = write_weights(dict.fromkeys(NAMES, -40))

    assert len(entries) <= 10
    assert max(map(len, entries)) <= 350


def test_what_an_event_is_worth_is_read_as_it_was_written() -> None:
    tags = {"by": "self", "who": "client", "size": "2", "min": "90", "topic": "people", "urgency": "high"}
    tags |= {"due": "today", "place": "room", "series": "none", "notice": "planned", "hold": "must", "start": "10:00"}
    weights = dict.fromkeys(NAMES, -2) | {"client": 7}
    valued = [value("A", ["crowd"], weights), value("C", terms(tags), weights), value("D", [], weights)]

    lines = write_valued(valued, weights)

    assert list(read_valued("\n".join(["B 3 over A 1", *lines])).values()) == valued
    assert [line.split("; ")[1] for line in lines] == ["A -2", "A -2", "D 0"]


def test_what_the_kept_event_alone_has_counts_for_more_and_what_is_named_for_most() -> None:
    before = {"A": Valued("A", ("due_today", "crowd"), 5), "B": Valued("B", ("client", "crowd"), 2)}

    thought = think({"due_today": 5, "client": 2}, before, feedback("B", "A", "client"))
    assert thought is not None
    after = learn({"due_today": 5, "client": 2}, thought)

    assert str(thought).splitlines() == [
        "B 2 over A 5",
        "B1 client attends +3, B2 eight or more people +1",
        "A1 due today +4, A2 eight or more people +0",
        "named client attends +8",
    ]
    assert (after["client"], after["due_today"], after["crowd"]) == (8, 4, 0)


def test_a_decision_that_was_clearly_right_teaches_nothing() -> None:
    before = {"A": Valued("A", ("due_today",), 12), "B": Valued("B", ("client",), 2)}

    thought = think({"due_today": 12, "client": 2}, before, feedback("A", "A", "due_today"))

    assert thought is not None
    assert learn({"due_today": 12, "client": 2}, thought) == dict.fromkeys(NAMES, 0) | {"due_today": 12, "client": 2}


def test_what_puts_the_user_off_is_learned_with_its_sign() -> None:
    before = {"A": Valued("A", ("crowd",), 0), "B": Valued("B", (), 0)}

    thought = think({}, before, feedback("B", "A", "crowd", valued=False))

    assert thought is not None
    assert thought.named == ("crowd", -8)


def test_every_answer_is_understood_and_every_update_is_taken() -> None:
    episode = keep(30, [hub()])

    assert [turn.failures for turn in episode.turns] == [()] * 30
    assert episode.series("format") == [1.0] * 30
    assert not [event for event in episode.events if event.name == "refused"]


def test_with_its_hub_it_learns_its_user_and_without_it_does_not() -> None:
    with_hub = [sum(keep(60, [hub()], index).series("error")) for index in range(8)]
    without = [sum(keep(60, [], index).series("error")) for index in range(8)]

    assert bootstrap([more - less for more, less in zip(without, with_hub, strict=True)]).low > 5


def test_a_role_that_nobody_knows_is_taken_for_anybody() -> None:
    assert expected_of("circus/clown") == expected_of("anybody")


def test_what_is_expected_of_a_role_is_that_role_s() -> None:
    from agentfw_plugins.calendar import shipped_schemas

    roles = [f"{schema.archetype}/{role.title}" for schema in shipped_schemas() for role in schema.user_roles]

    assert len({tuple(expected_of(role).items()) for role in roles}) == len(roles) == 20


@pytest.mark.parametrize("text", ["", "A1 due today", "You remember:\n- nonsense", "A1 \nB1 x +y 3; B 3"])
def test_a_conversation_of_nonsense_teaches_nothing_and_breaks_nothing(text: str) -> None:
    assert read_weights(text.splitlines()) == {}
    assert all(isinstance(event.total, int) for event in read_valued(text).values())
