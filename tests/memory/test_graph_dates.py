"""Dates: which time a question names, and skills of that time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw_memory import NewSkill, SkillGraph
from agentfw_memory.graph.text.dates import spans

NOW = datetime(2023, 5, 20, 15, tzinfo=UTC).timestamp()  # a Saturday


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("question", "start", "end"),
    [
        ("What was on 2023-05-07?", "2023-05-07", "2023-05-08"),
        ("What was on 7 May 2023?", "2023-05-07", "2023-05-08"),
        ("What was on May 7th, 2022?", "2022-05-07", "2022-05-08"),
        ("and on the 3rd of June?", "2022-06-03", "2022-06-04"),
        ("What happened in February?", "2023-02-01", "2023-03-01"),
        ("What happened in Dec 2021?", "2021-12-01", "2022-01-01"),
        ("Where were we in 2020?", "2020-01-01", "2021-01-01"),
        ("what did I say yesterday", "2023-05-19", "2023-05-20"),
        ("what did I say last week", "2023-05-08", "2023-05-15"),
        ("what did I say last month", "2023-04-01", "2023-05-01"),
        ("what did I say three days ago", "2023-05-17", "2023-05-18"),
    ],
)
def test_a_question_names_a_time(question: str, start: str, end: str) -> None:
    assert spans(question, NOW) == [(at(start), at(end))]


@pytest.mark.parametrize("question", ["may I call?", "march on", "call 31 June", "room 12", "I waited for an hour"])
def test_other_words_name_no_time(question: str) -> None:
    assert spans(question, NOW) == []


@pytest.mark.slow
@given(st.text(max_size=60) | st.from_regex(r"\d{4}-\d{1,2}-\d{1,2}|\d{1,2} [a-z]{3} \d{4}"))
def test_any_text_can_be_asked(text: str) -> None:
    assert all(start < end for start, end in spans(text, NOW))


def test_a_skill_of_the_named_time_comes_before_one_of_another_time() -> None:
    with SkillGraph.open(":memory:", tenant="t", embedder="hash", clock=lambda: NOW) as graph:
        graph.add_all(
            NewSkill("ana", f"we met at the harbour, table {place}", valid_from=at(f"2023-0{place}-10"))
            for place in (1, 2, 3, 4)
        )

        hit, *others = graph.recall("where did we meet in March 2023?", user="ana")

    assert hit.skill.text.endswith("table 3")
    assert hit.why.time == 1.0
    assert all(other.why.time == 0.0 for other in others)
