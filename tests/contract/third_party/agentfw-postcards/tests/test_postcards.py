"""What postcards do besides what every memory does."""

import asyncio
from pathlib import Path

from agentfw import Task
from agentfw.memory import Query
from agentfw.testing import sample_episode

from agentfw_postcards.postcards import Postcards, PostcardsSettings


def recalled(memory: Postcards, text: str, user: str = "user") -> list[str]:
    found = asyncio.run(memory.recall(Query(text, Task(9, seed=9, user=user))))
    return [recollection.text for recollection in found]


def test_the_card_that_shares_the_most_words_comes_first(tmp_path: Path) -> None:
    memory = Postcards(PostcardsSettings(folder=tmp_path))
    for index, about in enumerate(("boats and lighthouses", "trains and stations", "mountains and huts")):
        asyncio.run(memory.learn(sample_episode(Task(index, seed=index), text=about), 1.0))

    assert "trains" in recalled(memory, "when do the trains leave from these stations?")[0]


def test_a_card_that_is_damaged_or_deleted_is_forgotten(tmp_path: Path) -> None:
    memory = Postcards(PostcardsSettings(folder=tmp_path))
    for index in range(3):
        asyncio.run(memory.learn(sample_episode(Task(index, seed=index)), 1.0))
    first, second, _ = sorted(tmp_path.rglob("*.json"))
    first.write_text("a coffee stain")
    second.unlink()

    assert len(recalled(memory, "")) == 1


def test_a_name_that_looks_like_a_path_stays_in_the_folder(tmp_path: Path) -> None:
    memory = Postcards(PostcardsSettings(folder=tmp_path / "cards"))
    asyncio.run(memory.learn(sample_episode(Task(0, seed=0, user="../../somebody")), 1.0))

    assert [path.name for path in tmp_path.iterdir()] == ["cards"]
    assert recalled(memory, "", user="../../somebody")


def test_a_card_holds_no_more_words_than_fit(tmp_path: Path) -> None:
    memory = Postcards(PostcardsSettings(folder=tmp_path, words=5))
    asyncio.run(memory.learn(sample_episode(Task(0, seed=0), text="word " * 100), 1.0))

    assert [len(text.split()) for text in recalled(memory, "")] == [5]
