"""The README is a first screen: short, with three doors, and with pictures that are there."""

from __future__ import annotations

import re

from .snippets import ROOT

TEXT = (ROOT / "README.md").read_text("utf-8")


def test_it_is_read_in_two_minutes() -> None:
    assert len(TEXT.split()) <= 550


def test_each_door_is_at_most_three_commands() -> None:
    doors = re.findall(r"^\*\*You [^*]+\*\*.+?```sh\n(.+?)```", TEXT, re.M | re.S)

    assert len(doors) == 3
    assert all(len(door.splitlines()) <= 3 for door in doors)


def test_its_pictures_are_there() -> None:
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", TEXT)

    assert len(pictures) == 2
    assert all((ROOT / picture).is_file() for picture in pictures)


def test_it_has_the_command_that_ci_takes_from_it() -> None:
    assert re.findall(r"^pip install .*pytest", TEXT, re.M) != []
