"""`agentfw proactive`: from a YAML file to validated data, and what goes wrong on the way."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from agentfw.errors import AgentfwError, UsageError
from agentfw_papers.worlds.proactive.command import proactive
from agentfw_papers.worlds.proactive.domains import domain_file

SAMPLE = domain_file("abcd").parent / "abcd_sample.json"
BAKERY = """
name: bakery
slots:
  cake: {values: [apple, plum, cherry]}
  day: {}
actions:
  look-up-customer: {}
  order-cake: {parameters: [cake, day], required: [cake, day]}
  call-back: {}
workflows:
  birthday: [look-up-customer, order-cake]
  complaint: [look-up-customer, call-back]
phrases:
  shape: {turns: 12, spread: 2}
  slots: {day: {value: "day ###"}}
  openings:
    birthday:
      [I need a cake for a birthday., A birthday cake please., It is my daughter's birthday.,
       Can you make a birthday cake, We have a birthday here., I am planning a birthday party.]
    complaint:
      [The cake was stale., I have a complaint about your bread., Your rolls were hard as stone.,
       I am not happy with the cake., This is a complaint., There was a stone in my bread.]
"""


def call(*arguments: object) -> Any:
    result = CliRunner().invoke(
        proactive, [*map(str, arguments), "--json"], catch_exceptions=False, standalone_mode=False
    )
    return json.loads(result.stdout)


@pytest.fixture
def bakery(tmp_path: Path) -> Path:
    folder = tmp_path / "bakery"
    folder.mkdir()
    (folder / "domain.yaml").write_text(BAKERY, "utf-8")
    return folder


@pytest.mark.slow
def test_a_third_domain_needs_no_python(bakery: Path, tmp_path: Path) -> None:
    made = call("make", "--domain", bakery, "--dialogues", 40, "--out", tmp_path / "made")
    annotated = call("annotate", tmp_path / "made", "--domain", bakery, "--rule", "--out", tmp_path / "annotated")
    report = call("validate", tmp_path / "annotated", "--keep", 0.8, "--out", tmp_path / "kept")
    kept = json.loads((tmp_path / "kept" / "MANIFEST.json").read_text())

    assert made["dialogues"] == annotated["dialogues"] == {"train": 32, "validation": 4, "test": 4}
    assert made["catalog"] == annotated["catalog"] == kept["catalog"]
    assert report["margins"][0]["share"] == 1
    assert sum(kept["dialogues"].values()) == report["kept"] == 40
    assert kept["kept_above"] == 0.8

    command = [sys.executable, "-m", "agentfw", "run", "proactive", "--episodes", "4", "--json", "--quiet"]
    command += ["--set", f"environment.domain={bakery}", "--set", f"environment.data={tmp_path / 'kept'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)

    # The run repeats the references of the turn before, so it agrees but for what has just changed.
    means = {name: figure["mean"] for name, figure in json.loads(done.stdout)["figures"].items()}
    assert (means["format"], means["ftr"], means["unknown_names"]) == (1, 0, 0)
    assert 0.5 < means["ac"] < 1


def test_a_policy_that_is_installed_annotates(bakery: Path, tmp_path: Path) -> None:
    call("make", "--domain", bakery, "--dialogues", 3, "--out", tmp_path / "made")
    (tmp_path / "script.json").write_text(json.dumps(["[]"]))

    result = CliRunner().invoke(
        proactive,
        ["annotate", str(tmp_path / "made"), "--domain", str(bakery), "--policy", "openai",
         "--set", "policy.model=m", "--set", "policy.base_url=http://127.0.0.1:9/v1", "--set", "policy.retries=0",
         "--out", str(tmp_path / "annotated")],
    )  # fmt: skip

    # Nobody listens there: the command stops, and what was answered so far stays on disk.
    assert isinstance(result.exception, AgentfwError)
    assert (tmp_path / "annotated" / "answers.jsonl").exists()
    assert not (tmp_path / "annotated" / "MANIFEST.json").exists()


def test_the_public_sample_is_imported_annotated_and_validated_and_one_that_leaves_out_too_much_fails(
    tmp_path: Path,
) -> None:
    call("import", "abcd", SAMPLE, "--out", tmp_path / "whole")
    call("annotate", tmp_path / "whole", "--rule", "--from", 1, "--most", 1, "--out", tmp_path / "one")
    call("annotate", tmp_path / "whole", "--rule", "--out", tmp_path / "all")

    one, all = (call("validate", tmp_path / name)["margins"] for name in ("one", "all"))
    assert [row["triggers"] for row in one] == [2] * 5
    assert [row["passed"] for row in all] == [9, 9, 7, 4, 4]

    rows = json.loads(SAMPLE.read_text("utf-8"))
    rows[0]["original"].pop()
    (tmp_path / "data.json").write_text(json.dumps(rows))

    with pytest.raises(AgentfwError, match="33% of the conversations are left out") as caught:
        call("import", "abcd", tmp_path / "data.json", "--out", tmp_path / "data")
    lenient = call("import", "abcd", tmp_path / "data.json", "--lenient", "--out", tmp_path / "lenient")

    assert caught.value.exit_code == 1
    assert lenient["left_out"] == {"original and delexed differ in length": ["3592"]}
    kept, again = ((tmp_path / name / "dialogues.jsonl.gz").read_bytes() for name in ("data", "lenient"))
    assert kept == again


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("make", "--domain", "abdc", "--out", "OUT"), 'no domain is called "abdc"'),
        (("make", "--domain", "abcd", "--set", "early=1", "--out", "OUT"), 'did you mean "early_end"'),
        (("make", "--domain", "abcd", "--set", 'flows=["refunds"]', "--out", "OUT"), 'no flow or workflow "refunds"'),
        (("import", "abdc", "FILE", "--out", "OUT"), 'no data format is called "abdc"'),
        (("import", "abcd", "FILE", "--out", "OUT"), "can't be read"),
        (("annotate", "OUT", "--rule", "--out", "OUT"), "is not a folder of dialogues"),
        (("annotate", "OUT", "--rule", "--policy", "openai", "--out", "OUT"), "pass either --policy or --rule"),
        (("validate", "OUT"), "is not a folder of dialogues"),
        (("rank", "FILE"), "no run"),
    ],
)
def test_what_cannot_be_done_is_said(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    places = {"OUT": tmp_path / "out", "FILE": tmp_path / "file.json"}

    with pytest.raises(UsageError) as caught:
        call(*(places.get(one, one) for one in arguments))

    assert message in caught.value.message
    assert caught.value.fix
    assert not (tmp_path / "out" / "MANIFEST.json").exists()
