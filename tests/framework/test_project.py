"""agentfw.toml: found from below, checked at once, mistakes named with their place."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentfw.errors import SettingsError
from agentfw.host.project import Pin, find_project, read_project


def write(folder: Path, text: str | bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "agentfw.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def complaint(folder: Path, text: str | bytes) -> str:
    with pytest.raises(SettingsError) as caught:
        read_project(write(folder, text))
    assert caught.value.exit_code == 2
    assert str(folder / "agentfw.toml") in caught.value.message
    return caught.value.message


def test_everything_it_can_say(tmp_path: Path) -> None:
    text = 'default = "specs/mine.toml"\nruns = "results"\n[plugins]\nallow = ["Agentfw_Notes==1.2.0", "dice == 2.0"]\n'

    project = read_project(write(tmp_path, text))

    assert project.default == str(tmp_path / "specs" / "mine.toml")
    assert project.runs == tmp_path / "results"
    assert project.allow == (Pin("agentfw-notes", "1.2.0"), Pin("dice", "2.0"))
    assert read_project(write(tmp_path, "[plugins]\nallow = []\n")).allow == (), "an empty list is not no list"


def test_the_nearest_file_upwards_holds(tmp_path: Path) -> None:
    write(tmp_path, 'runs = "outer"')
    write(tmp_path / "a", 'runs = "inner"')
    (tmp_path / "a" / "b").mkdir()

    project = find_project(tmp_path / "a" / "b")

    assert project is not None
    assert project.runs == tmp_path / "a" / "inner"


def test_every_unknown_key_is_named_with_the_nearest(tmp_path: Path) -> None:
    message = complaint(tmp_path, 'defualt = "x"\n[plugins]\nalow = []\n')

    assert 'defualt: no such key; did you mean "default"?' in message
    assert 'plugins.alow: no such key; did you mean "plugins.allow"?' in message


@pytest.mark.parametrize("pin", ['"dice"', '"dice>=1.0"', '"dice==1.*"', '"==1.0"', "7", '"dice==1.0", "dice==2.0"'])
def test_a_pin_names_one_exact_version(tmp_path: Path, pin: str) -> None:
    assert "plugins.allow" in complaint(tmp_path, f"[plugins]\nallow = [{pin}]\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[plugins]\nallow = "dice==1.0"', "must be"),
        ('default = ""', "must be"),
        ('[plugins]\nallow = []\nruns = "here"\n', 'plugins.runs: no such key; write "runs" above [plugins]'),
        ('runs = "here"\ndefault = \n', "line 2"),
        (b'runs = "\xff"', "UTF-8"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str | bytes, words: str) -> None:
    assert words in complaint(tmp_path, text)
