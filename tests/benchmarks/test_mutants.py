"""The planted faults fit the sources as they are, and what is planted is what is described."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from agentfw_benchmarks import ROOT
from agentfw_benchmarks.mutants import PACKAGES, Area, Fault, Sources, UnfitFaultError, plant, read_areas, record_traces

AREAS = read_areas()

SOURCE = '''
LIMIT = 10


class Door:
    def opens(self, key):
        """Ünlocked by its key."""
        if key == "é" and self.key == key:
            self.count += 1
            return True
        return False

    def sql(self):
        return (
            "SELECT * FROM door WHERE tenant = ? "
            "AND number = ?"
        )


class Window:
    def opens(self, key):
        return key != self.key
'''


def planted(root: Path, fault: Fault) -> str:
    """What a fault makes of a tree with one source file: the lines that are others."""
    path = root / "framework" / "agentfw" / "doors.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SOURCE, "utf-8")
    made = plant(fault, Sources(root))
    assert made.path == path
    before, after = SOURCE.splitlines(), made.text.splitlines()
    return "\n".join(line.strip() for line in after if line not in before)


@pytest.fixture(scope="module")
def sources() -> Sources:
    return Sources(ROOT)


@pytest.mark.parametrize("area", AREAS, ids=lambda area: area.name)
def test_each_planted_fault_fits_once_and_there_are_tests_that_should_notice_it(area: Area, sources: Sources) -> None:
    for fault in area.faults:
        made = plant(fault, sources)

        assert made.text != sources.texts[made.path], fault.name
        assert fault.suffers.endswith("."), fault.name
    assert area.files(ROOT)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault("and", "Door.opens", "", new="key == 'é'", old="key == 'é' and self.key == key"), "if (key == 'é'):"),
        (Fault("statement", "Door.opens", "", new="", old="self.count += 1"), "pass"),
        (Fault("constant", "LIMIT", "", new="11", old="10"), "LIMIT = (11)"),
        (Fault("other class", "Window.opens", "", new="key is None", old="key != self.key"), "return (key is None)"),
        (Fault("sql", "Door.sql", "", new="WHERE ? > 0", text="WHERE tenant = ?"), '"SELECT * FROM door WHERE ? > 0 "'),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_what_is_planted_stands_where_the_fault_says(fault: Fault, expected: str, tmp_path: Path) -> None:
    assert planted(tmp_path, fault) == expected


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (Fault("gone", "Gate.opens", "", new="1", old="key"), "nothing is called Gate.opens"),
        (Fault("changed", "Door.opens", "", new="1", old="key < 3"), "stands 0 times"),
        (
            Fault("twice", "Door.opens", "", new="lock", old="key"),
            "framework/agentfw/doors.py:8, framework/agentfw/doors.py:8",
        ),
        (Fault("no Python", "Door.opens", "", new="return return", old="return True"), "isn't Python"),
        (Fault("same", "Door.opens", "", new="return True", old="return True"), "changes nothing"),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_a_fault_that_does_not_fit_is_refused(fault: Fault, why: str, tmp_path: Path) -> None:
    with pytest.raises(UnfitFaultError, match=why):
        planted(tmp_path, fault)


def test_outcomes_are_kept_and_what_went_unnoticed_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mutants, path = importlib.import_module("mutants"), tmp_path / "kept.json"
    noticed, unnoticed = (fault for area in AREAS if area.name == "optimizers" for fault in area.faults[:2])
    for fault in (noticed, unnoticed):
        outcome = {"name": fault.name, "noticed": fault is noticed, "by": "", "tests": 1, "seconds": 1.0}
        mutants.Kept(path).keep(fault, outcome)

    changed = mutants.Kept(path).of(replace(noticed, new="None"))
    result = mutants.main(["--results", str(path), "--only", noticed.name, unnoticed.name])

    printed = capsys.readouterr().out
    assert changed is None, "an outcome of a fault that has changed since doesn't count"
    assert (result["share"], result["floor"]) == (0.5, 0.9)
    assert "1 of 2 planted faults noticed (50%)" in printed
    assert unnoticed.suffers in printed
    assert noticed.suffers not in printed


@pytest.mark.nightly
def test_a_planted_fault_is_noticed_and_the_outcome_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mutants, traces = importlib.import_module("mutants"), tmp_path / "traces"
    record_traces(
        ROOT,
        PACKAGES,
        traces,
        ["tests/contract/learning/test_advantages_by_hand.py", "tests/contract/learning/test_dapo_kto_dpo.py"],
    )
    name = "kto-weights-swapped"
    arguments = ["--only", name, "--traces", str(traces), "--results", str(tmp_path / "kept.json"), "--json"]

    first = mutants.main(arguments)
    again = mutants.main(arguments)

    assert first == again
    assert first["noticed"] == 1
    assert "_kto" in first["outcomes"][0]["by"]
    assert json.loads((tmp_path / "kept.json").read_text())[name]["noticed"]
    assert capsys.readouterr().err.count(name) == 1
