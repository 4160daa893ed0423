"""StrategyHub: what an agent may keep, what is refused, and that nothing is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentfw_memory import HubRefusal, StrategyHubs


def test_a_hub_is_carried_over_rounds_and_tells_what_changed(tmp_path: Path) -> None:
    with StrategyHubs.open(tmp_path / "hubs.db") as hubs:
        hub = hubs.hub("ana", "year")
        assert hub.list() == ()
        hub.update(["deadline today +4"], round=1)
        hub.update(["deadline today +4"], round=2)
        hub.update(["deadline today +4", "vendor call -2"], round=7)
        hub.update(["vendor call -2"], round=9)
        with StrategyHubs.open(tmp_path / "hubs.db") as meanwhile:
            assert meanwhile.hub("ana", "year").list() == ("vendor call -2",), "it is in the file, whatever comes"
    with StrategyHubs.open(tmp_path / "hubs.db") as again:
        hub = again.hub("ana", "year")
        assert hub.list() == ("vendor call -2",)
        assert again.hub("ana", "another").list() == again.hub("ben", "year").list() == ()
        assert [(change.round, change.added, change.removed) for change in hub.history()] == [
            (1, ("deadline today +4",), ()),
            (7, ("vendor call -2",), ()),
            (9, (), ("deadline today +4",)),
        ]


@pytest.mark.parametrize(
    ("strategies", "words"),
    [
        (["x" * 351], "351 characters"),
        ([str(number) for number in range(11)], "11 strategies are too many; the maximum is 10"),
        (["Mornings first", "other", "  mornings   FIRST "], "1 and 3 are the same"),
        (["fine", " \n\t"], "strategy 2 is empty"),
        ("one text", "a list of strings"),
    ],
)
def test_what_cannot_be_kept_is_refused_in_words_and_the_hub_is_unchanged(strategies: list[str], words: str) -> None:
    with StrategyHubs.open(":memory:") as hubs:
        hub = hubs.hub("ana")
        before = tuple(str(number) * 350 for number in range(10))
        assert hub.update(before, round=1) == before, "as much as may be kept"
        with pytest.raises(HubRefusal, match="The hub is unchanged") as refusal:
            hub.update(strategies, round=2)
        assert words in str(refusal.value)
        assert hub.list() == before
        assert hub.update([" a\x00b\n\ud83ec "]) == hub.list() == ("a b c",), "any other text becomes one line"
        assert len(hub.history()) == 2


def test_who_is_forgotten_leaves_no_byte_in_the_files(tmp_path: Path) -> None:
    path = tmp_path / "hubs.db"
    with StrategyHubs.open(path) as hubs:
        for number in range(200):
            hubs.hub("ana").update([f"unmistakable-{number} " + "y" * 200], round=number)
        hubs.hub("ben").update(["stays"])
        hubs.hub("ana", "year").update(["stays until she goes"])
        assert (hubs.forget("ben", "year"), hubs.forget("ana", "")) == (0, 200)
        assert hubs.hub("ana", "year").list() == ("stays until she goes",)
        assert hubs.forget("ana") == 1
        left = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert b"unmistakable" not in left
        assert hubs.hub("ben").list() == ("stays",)
