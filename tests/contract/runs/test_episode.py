"""The record of an engagement: a plain value that comes back equal from disk, and can be read as a text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw.episode import Call, Episode, Event, Measure, Message, Observation, Task, Turn, Usage
from agentfw.errors import StorageError
from agentfw.runs import transcript

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
TIME = st.one_of(st.integers(0, 10**9), st.floats(0, 1e9))
VALUE = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXT, st.lists(st.integers(), max_size=3)
)
DATA = st.dictionaries(TEXT, VALUE, max_size=3)
CALL = st.builds(Call, TEXT, DATA, TEXT)
IDS = st.lists(st.integers(0, 50_000), max_size=8).map(tuple)
TOKENS = st.none() | st.integers(0, 10**9)
USAGE = st.builds(Usage, TOKENS, TOKENS, TOKENS)


@st.composite
def turns(draw: st.DrawFn) -> list[Turn]:
    """Prompts grow as they do in life: what was before, then more; now and then something else altogether."""
    found: list[Turn] = []
    before: tuple[int, ...] = ()
    for index in range(draw(st.integers(0, 5))):
        kept = before if draw(st.booleans()) else before[: draw(st.integers(0, len(before)))]
        prompt, sampled = kept + draw(IDS), draw(IDS)
        turn = Turn(
            index,
            draw(TIME),
            draw(TIME),
            shown=draw(IDS),
            text=draw(TEXT),
            calls=tuple(draw(st.lists(CALL, max_size=2))),
            failures=tuple(draw(st.lists(TEXT, max_size=2))),
            count=len(sampled),
            prompt_ids=prompt,
            token_ids=sampled,
            logprobs=tuple(-0.5 for _ in sampled),
            version=draw(TEXT),
            seat=draw(st.sampled_from(["", "legs"])),
            usage=draw(USAGE),
        )
        found.append(turn)
        before = prompt + sampled
    return found


EPISODES = st.builds(
    Episode,
    task=st.builds(Task, st.integers(0), st.integers(), TEXT, st.integers(0, 9), TEXT),
    environment=TEXT,
    ended=TIME,
    outcome=st.dictionaries(TEXT, st.floats(allow_nan=False), max_size=3),
    finish=TEXT,
    utility=st.floats(allow_nan=False),
    events=st.lists(st.builds(Event, TIME, TEXT, TEXT, DATA, TEXT), max_size=4),
    measures=st.lists(st.builds(Measure, TEXT, st.floats(allow_nan=False), TIME, st.integers(0, 9)), max_size=3),
    messages=st.lists(st.builds(Message, TEXT, TEXT, st.lists(CALL, max_size=2).map(tuple), TEXT), max_size=4),
    turns=turns(),
)


@given(EPISODES)
def test_an_episode_comes_back_equal_from_a_line_of_json(episode: Episode) -> None:
    line = json.dumps(episode.to_record())
    assert Episode.from_record(json.loads(line)) == episode


def test_a_long_conversation_stays_linear_in_its_length() -> None:
    """Each prompt holds all before it; on disk only what is new is written."""

    def size(count: int) -> int:
        episode, prompt = Episode(Task(0, 0)), tuple[int, ...]()
        for index in range(count):
            prompt += tuple(range(1000, 1020))
            episode.turns.append(Turn(index, index, index, prompt_ids=prompt, token_ids=(7, 8, 9)))
            prompt += (7, 8, 9)
        return len(json.dumps(episode.to_record()))

    assert size(200) < 2.3 * size(100)


@pytest.mark.parametrize("damage", [{}, {"colour": "red"}, {"events": [[]]}], ids=["empty", "foreign", "short"])
def test_what_is_no_record_is_an_error_that_says_so(damage: dict[str, Any]) -> None:
    record = json.loads(json.dumps(Episode(Task(0, 0), turns=[Turn(0, 0, 0)]).to_record()))

    with pytest.raises(StorageError, match="not an agentfw episode record"):
        Episode.from_record({**record, **damage} if damage else {})


def test_an_observation_reads_as_its_text_or_as_its_data() -> None:
    assert str(Observation(1, "mail", {"from": "Ada"}, "Ada writes")) == "Ada writes"
    assert str(Observation(1, "mail", {"from": "Ada", "number": 3})) == "mail from=Ada number=3"


def test_the_usage_of_an_episode_is_told_only_where_every_turn_has_told_it() -> None:
    episode = Episode(
        Task(0, 0), turns=[Turn(0, 0, 0, usage=Usage(100, 0, 5)), Turn(1, 1, 1, usage=Usage(20, None, 7))]
    )

    assert episode.usage == Usage(120, None, 12)
    assert Episode(Task(0, 0)).usage == Usage(0, 0, 0)


def read(**turn: object) -> str:
    """The text of an episode of one turn, after one message."""
    episode = Episode(Task(0, 7), messages=[Message("user", "conflict: A or C?\nwhich one?")])
    episode.turns.append(Turn(0, 0, 2.5, shown=(0,), **turn))  # type: ignore[arg-type]
    return transcript(episode)


def test_a_transcript_has_what_was_read_what_was_said_and_each_call_with_its_arguments() -> None:
    call = Call("decide", {"accept": "C", "ranking": ["C", "A"], "note": "für Ana"})

    called = read(text='{"name": "decide", ...}', said="", calls=(call,))
    said = read(text="C it is.", calls=(Call("decide", {"accept": "C"}),))
    nothing = read(finish="interrupted", failures=("no such action: decode",))

    assert "user\n  conflict: A or C?\n  which one?" in called
    assert 'at 2.5\n> decide(accept="C", ranking=["C", "A"], note="für Ana")' in called
    assert '{"name"' not in called
    assert '> C it is.\n> decide(accept="C")' in said
    assert "at 2.5 (interrupted)\n> (nothing)" in nothing
    assert "! no such action: decode" in nothing
