"""`agentfw reward`: fit, score, explain, eval and update, as a person and as a program would use them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from agentfw.errors import AgentfwError, UsageError
from agentfw_plugins.rewards.reward_command import reward

MUSEUM, FOOTBALL = "the museum of clocks", "a football match of the school"


def call(*words: object, stdin: str = "") -> Result:
    result = CliRunner().invoke(reward, [str(word) for word in words], input=stdin, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def answer(*words: object, stdin: str = "") -> Any:
    return json.loads(call(*words, "--json", stdin=stdin).stdout)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def model(town: Any, tmp_path: Path) -> Path:
    return Path(shutil.copytree(town.model, tmp_path / "model"))


def test_what_was_fitted_can_be_asked_and_a_fit_may_begin_from_a_model(town: Any, model: Path, tmp_path: Path) -> None:
    words = ("--items", town.items, "--profiles", town.profiles, "--encoder", "hash:256", "--out", tmp_path / "new")
    quick = [word for pair in ("epochs=1", "profile_epochs=1", "dimensions=16") for word in ("--set", pair)]
    fitted = answer("fit", town.likes, *words, *quick, "--start", model)
    assert fitted["model"] == str(tmp_path / "new")
    assert fitted["facts"]["users"] == 25
    assert fitted["epochs"] == 1
    high, low = (answer("score", "user-0", text, "--model", tmp_path / "new")[0] for text in (MUSEUM, FOOTBALL))
    assert high["reward"] > low["reward"] + 0.2


def test_a_score_says_what_it_is_made_of_for_one_for_many_and_for_a_stranger(town: Any, tmp_path: Path) -> None:
    at, profile = ("--model", town.model), ("--profile", "often seen at a football")
    (high,), (low,) = (answer("score", "user-0", text, *at) for text in (MUSEUM, FOOTBALL))
    assert high["reward"] > low["reward"]
    assert {"interest", "conformity", "nearest"} <= high.keys()
    lines = call("score", "user-0", MUSEUM, *at).output.splitlines()
    assert lines[0].split() == ["user", "reward", "interest", "conformity", "action"]
    assert lines[1].startswith("user-0")

    pairs = "".join(json.dumps({"user": "user-0", "text": text}) + "\n\n" for text in (MUSEUM, FOOTBALL))
    (tmp_path / "pairs.jsonl").write_text(pairs, "utf-8-sig")
    from_pipe = answer("score", "--file", "-", *at, stdin=pairs)
    assert from_pipe == answer("score", "--file", tmp_path / "pairs.jsonl", *at)
    assert [one["reward"] for one in from_pipe] == pytest.approx([high["reward"], low["reward"]], abs=1e-5)

    (liked,), (other,) = (answer("score", "zoe", text, *profile, *at) for text in (FOOTBALL, MUSEUM))
    assert liked["reward"] > other["reward"]


def test_it_explains_a_score_and_eval_finds_what_was_held_out(town: Any, tmp_path: Path) -> None:
    at = ("--model", town.model)
    assert answer("explain", "user-0", MUSEUM, *at)["score"]["text"] == MUSEUM
    assert "close to what they liked" in call("explain", "user-0", MUSEUM, *at).output

    held = tmp_path / "held.csv"
    held.write_text("user,item\nuser-0,museum-0\nuser-1,football-1\nnobody,museum-0\n")
    found = answer("eval", held, "--count", 2, "--by", "interest", *at)
    assert (found["users"], found["recall"]) == (2, 1.0)
    assert "recall@2" in call("eval", held, "--count", 2, *at).output


def test_update_takes_in_newcomers_in_place_or_elsewhere(model: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.csv"
    new.write_text("user,item\nzoe,football-0\nzoe,football-1\nzoe,football-2\n")
    before = contents(model)
    grown = answer("update", new, "--model", model, "--out", tmp_path / "grown")
    assert grown["new"] == {"users": 1, "items": 0}
    assert contents(model) == before
    call("update", new, "--model", model)
    for folder in (model, tmp_path / "grown"):
        high, low = (answer("score", "zoe", text, "--model", folder)[0] for text in (FOOTBALL, MUSEUM))
        assert high["reward"] > low["reward"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("score", "user-0"), "a user and a text"),
        (("score", "nobody", MUSEUM), "unknown user"),
        (("score", "user-0", " "), "is empty or not a string"),
        (("score", "--file", "-"), "line 1 is not an action"),
        (("score", "user-0", MUSEUM, "--model", "nowhere"), "no preference model"),
        (("eval", "nowhere.csv"), "can't be read"),
        (("update",), "nothing to add"),
        (("update", "broken.csv"), "item"),
        (("fit", "empty.csv", "--out", "MODEL"), "no like"),
        (("fit", "broken.csv", "--out", "MODEL", "--set", "dimension=3"), "unknown setting"),
    ],
)
def test_what_fails_says_why_and_leaves_the_model_as_it_was(
    town: Any, model: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], complaint: str
) -> None:
    monkeypatch.chdir(model.parent)
    Path("broken.csv").write_text("user,thing\nana,museum-0\n")
    Path("empty.csv").write_text("user,item\n")
    before = contents(model)
    words = tuple(str(model) if word == "MODEL" else word for word in words)
    if words[0] != "fit" and "--model" not in words:
        words = (*words, "--model", str(model))
    with pytest.raises(AgentfwError) as caught:
        CliRunner().invoke(reward, list(words), input="not json\n", catch_exceptions=False)
    assert isinstance(caught.value, UsageError)
    assert complaint in str(caught.value)
    assert caught.value.fix
    assert contents(model) == before
