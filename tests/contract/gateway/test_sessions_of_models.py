"""Several models and several samples in one session of a gateway, before and after a restart."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from .conftest import Start, gateway_of, killed_now, said


def marks(tokens: tuple[int, ...]) -> set[int]:
    """The models that these tokens are of."""
    return {token // 10**7 for token in tokens}


@pytest.mark.slow
def test_each_answer_has_tokens_of_its_own_model_only(gateway: Start, second_model: str, tmp_path: Path) -> None:
    first = gateway(models=[f"other={second_model}"])
    one = said(first.ask("tea", "one"))
    two = said(first.ask("tea", "one", one, "two", model="other"))
    run = killed_now(first, tmp_path / "after")

    with gateway_of(tmp_path / "after", resume=str(run)) as second:
        for model in ("agentfw", "other"):
            said(second.ask("tea", "one", one, "two", two, "three", model=model))
            said(second.ask("tea", "one", one, "next", model=model))
        turns = second.kept("tea").turns

    assert [marks((*turn.prompt_ids, *turn.token_ids)) for turn in turns] == [{1}, {2}, {1}, {1}, {2}, {2}]
    drawn = [turn.prompt_ids + turn.token_ids for turn in turns]
    assert turns[3].prompt_ids[:2] == drawn[0], "the model goes on from its own answer"
    assert turns[4].prompt_ids[:2] == drawn[1], "and the other from its own"
    assert [len(turns[place].prompt_ids) for place in (1, 2, 5)] == [1, 1, 1], "and from nothing of the other's"


SAMPLES = 6


def samples(texts: list[str]) -> list[str]:
    return [text.partition("sample ")[2] for text in texts]


def choices(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [str(choice["message"]["content"]) for choice in answer.json()["choices"]]


@pytest.mark.slow
def test_who_asks_again_gets_another_sample_each_time_and_a_restart_does_not_begin_anew(
    gateway: Start, tmp_path: Path
) -> None:
    whole = gateway("whole")
    expected = [text for _ in range(SAMPLES) for text in choices(whole.ask("tea", "one"))]
    stopped = gateway("stopped")
    found = [text for _ in range(2) for text in choices(stopped.ask("tea", "one"))]
    run = killed_now(stopped, tmp_path / "killed")
    with gateway_of(tmp_path / "killed", resume=str(run)) as again:
        found += choices(again.ask("tea", "one"))
    with gateway_of(tmp_path / "killed", resume=str(run)) as again:
        found += choices(again.ask("tea", "one", n=3))

    assert len(set(samples(expected))) == SAMPLES
    assert found == expected


@pytest.mark.slow
def test_a_retry_at_another_gateway_is_another_sample(gateway: Start, tmp_path: Path) -> None:
    limits = {"shared": str(tmp_path / "sessions.db")}
    one, other = gateway("a", limits=limits), gateway("b", limits=limits)

    found = [choices(each.ask("tea", "one"))[0] for each in (one, other, one, other)]

    assert len(set(samples(found))) == 4
