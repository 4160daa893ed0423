"""An episode as a text: what was read, what was said, and each call with its arguments."""

from __future__ import annotations

from agentfw import Episode, Message, Task, Turn
from agentfw.episode import Call
from agentfw.runs import transcript


def played(**turn: object) -> Episode:
    """An episode of one turn, after one message."""
    episode = Episode(Task(0, 7), messages=[Message("user", "conflict: A or C?\nwhich one?")])
    episode.turns.append(Turn(0, 0, 2.5, shown=(0,), **turn))  # type: ignore[arg-type]
    return episode


def test_a_call_is_shown_with_its_arguments() -> None:
    call = Call("decide", {"accept": "C", "ranking": ["C", "A"], "note": "für Ana"})

    text = transcript(played(text='{"name": "decide", ...}', said="", calls=(call,)))

    assert "user\n  conflict: A or C?\n  which one?" in text
    assert 'at 2.5\n> decide(accept="C", ranking=["C", "A"], note="für Ana")' in text
    assert '{"name"' not in text


def test_what_is_said_beside_a_call_stands_above_it() -> None:
    text = transcript(played(text="C it is.", calls=(Call("decide", {"accept": "C"}),)))

    assert '> C it is.\n> decide(accept="C")' in text


def test_an_answer_without_a_word_or_a_call_is_told() -> None:
    text = transcript(played(finish="interrupted", failures=("no such action: decode",)))

    assert "at 2.5 (interrupted)\n> (nothing)" in text
    assert "! no such action: decode" in text
