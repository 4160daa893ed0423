"""What a person gave last and most precisely holds: a spec file, then the options, then `--set`.

What is wrong with it is told in one round, with the key that was meant, and the schema says it before.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Agentfw

SPEC = """
environment = { name = "guessing", settings = { rounds = 2 } }
policy = { name = "hashing", settings = { pause = 0.001 } }
rewards = [{ name = "rank", weight = 2.0 }, "utility"]
episodes = 2
seed = 3
"""


def test_options_go_before_the_file_and_assignments_before_options(spec_of: Callable[..., Any]) -> None:
    Path("my.toml").write_text(SPEC)
    again = ("--policy", "hashing", "--reward", "rank", "--reward", "utility=0.5", "--seed", "0", "--episodes", "3")

    spec = spec_of("run", "guessing", "--spec", "my.toml", *again, "--set", "episodes=1")

    assert (spec["seed"], spec["episodes"], spec["policy"]["name"]) == (0, 1, "hashing")
    assert spec["environment"]["settings"]["rounds"] == 2
    assert spec["policy"]["settings"]["pause"] == 0.001
    assert [(reward["name"], reward["weight"]) for reward in spec["rewards"]] == [("rank", 2.0), ("utility", 0.5)]


def test_the_next_step_is_told_as_it_can_be_typed(agentfw: Agentfw, quick: tuple[str, ...], tmp_path: Path) -> None:
    near, far = agentfw(*quick), agentfw(*quick, "--runs", str(tmp_path / "far away"))
    timed = agentfw("run", "inbox", "--episodes", "2", "--runs", "timed")

    assert re.search(r"^next: agentfw view [\w-]+$", near.err, re.M)
    assert re.search(r"^next: agentfw view 'far away/[\w-]+'$", far.err, re.M)
    found = re.search(r"agentfw (run inbox --interface step_loop .*) && agentfw compare \S+ last", timed.err)
    assert found is not None
    assert agentfw(*found[1].split(), "--json").json["episodes"] == 2, "as many as before"


def test_any_episode_of_a_run_can_be_read_and_drawn(agentfw: Agentfw) -> None:
    Path("my.toml").write_text(SPEC)
    folder = Path(agentfw("run", "--spec", "my.toml", "--json").json["folder"])
    before = {path.name for path in folder.iterdir()}

    text = agentfw("runs", "show", str(folder), "--episode", "1").out
    record = agentfw("runs", "show", str(folder), "--episode", "00001-0", "--json").json
    wrong = agentfw("runs", "show", str(folder), "--episode", "7")
    drawn = agentfw("report", "--episode", "00001-0", "--picture", "day.svg")

    first = record["turns"][0]["calls"][0]
    assert f"> {first[0]}(" in text
    assert json.dumps(next(iter(first[1].values()))) in text
    assert 'no finished episode "7"' in wrong.told(2)
    assert "00000-0 to 00001-0" in wrong.err
    assert (drawn.code, drawn.out) == (0, "day.svg\n")
    assert "guessing, episode 00001-0" in Path("day.svg").read_text("utf-8")
    assert {path.name for path in folder.iterdir()} == before
    for words, told in (
        ("--episode 00000-0", "add --picture FILE"),
        ("--picture day.png", "ends in .svg"),
        ("--picture day.svg --episode 7", "the first is 00000-0, the last 00001-0"),
    ):
        assert told in agentfw("report", *words.split()).told(2), words


# -- what is wrong with a spec -----------------------------------------------------------------------------------------

LEAST = 'environment = "guessing"\npolicy = "hashing"\n'
TEN_MISTAKES = """
environment = { name = "inbox", settings = { rat = 0.5, horizon = "x" } }
policy = { name = "scriptd", settings = { tokens = "a" } }
memories = [{ name = "notebook", settings = { limit = "many" } }, "nope"]
rewards = [{ name = "utility", weight = "heavy" }]
episodes = "many"
seed = 1.5
rate = 0.5
updates = 3
interface = "x"
"""


def test_all_that_is_wrong_is_told_in_one_round(agentfw: Agentfw) -> None:
    Path("my.toml").write_text(TEN_MISTAKES)

    told = agentfw("run", "--spec", "my.toml").told(2)

    for words in (
        'environment.rat: no such key; did you mean "rate"?',
        'environment.horizon: must be a number (got "x")',
        'no policy is called "scriptd"; did you mean "scripted"?',
        'no memory is called "nope"',
        'rewards.0.weight: "heavy" is not a weight',
        'episodes: must be a whole number (got "many")',
        "seed: must be a whole number (got 1.5)",
        'rate: no such key; did you mean "environment.rate"?',
        "updates: only valid with an optimizer",
        'interface: no interface is called "x"',
    ):
        assert words in told
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("inbox", "--policy", "openai", "--set", "base_url=http://x"), "--set policy.base_url=http://x"),
        (("inbox", "--policy", "openai", "--set", "environment.model=m"), "--set policy.model=VALUE"),
        (("inbox", "--policy", "openai", "--set", "base_ur=http://x"), 'did you mean "policy.base_url"?'),
    ],
)
def test_a_key_that_belongs_to_a_component_leads_there(agentfw: Agentfw, words: tuple[str, ...], meant: str) -> None:
    assert meant in agentfw("run", *words).told(2)


@pytest.mark.parametrize(("of_policy", "of_memory"), [(".hashing", ".strategyhub"), ("", "")])
def test_settings_are_given_with_and_without_the_name_of_the_component(
    spec_of: Callable[..., Any], quick: tuple[str, ...], of_policy: str, of_memory: str
) -> None:
    given = ("--set", f"policy{of_policy}.pause=0.002", "--set", f"memory{of_memory}.path=my.db")

    spec = spec_of(*quick, "--memory", "strategyhub", *given)

    assert spec["policy"]["settings"] == {"pause": 0.002}
    assert spec["memories"][0]["settings"] == {"path": "my.db"}


def test_null_in_a_file_unsets_a_default(spec_of: Callable[..., Any]) -> None:
    Path("agentfw.toml").write_text("[defaults]\nhorizon = 9\n[defaults.sampling]\ntop_p = 0.5\n")
    sampling = "[sampling]\ntemperature = 0.0\ntop_p = { null = true }\n"
    Path("my.toml").write_text(f"{LEAST}episodes = 2\nhorizon = {{ null = true }}\n{sampling}")

    spec = spec_of("run", "--spec", "my.toml")

    assert spec["horizon"] is None
    assert (spec["sampling"]["temperature"], spec["sampling"]["top_p"]) == (0.0, None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("x = '" + "a" * 10_000_000 + "'", "has more than 1,000,000 bytes, so it is no spec", id="10 MB"),
        pytest.param("x = " + "[" * 9000 + "]" * 9000, "nests its values too deeply", id="deep"),
        pytest.param(f"{LEAST}seed = {'9' * 5000}", "isn't valid TOML", id="digits"),
        pytest.param(LEAST + "".join(f"key{n} = 1\n" for n in range(6_000)), "6000 settings are wrong", id="keys"),
    ],
)
def test_a_file_of_another_kind_is_refused_in_few_lines(agentfw: Agentfw, text: str, words: str) -> None:
    Path("my.toml").write_text(text)

    told = agentfw("run", "--spec", "my.toml").told(2)

    assert words in told
    assert len(told.splitlines()) < 50
    assert len(told) < 5000


def test_the_schema_says_what_a_run_says(agentfw: Agentfw) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = agentfw("plugins", "schema").json
    jsonschema.Draft202012Validator.check_schema(schema)
    checked = jsonschema.Draft202012Validator(schema)

    right = [
        LEAST + 'engine = "local"\n',
        'policy = "openai"\nmemories = "strategyhub"\nrewards = ["utility", { name = "format", weight = "ramp:1" }]',
        'policy = { name = "openai", settings = { apis = { null = true }, price = { prompt = 1, sampled = 2 } } }',
        'tools = ["./mine.py", { name = "acme:mcp", settings = { any = 1 } }]\nhorizon = { null = true }',
    ]
    wrong = [
        'polcy = "openai"',
        'policy = "opnai"',
        "seed = 1.5",
        'policy = { name = "openai", settings = { retries = -1 } }',
        'policy = { name = "openai", settings = { price = { promt = 1 } } }',
        'environment = { name = "inbox", settings = { rat = 1 } }',
        'rewards = [{ name = "utility", weigt = 1 }]',
    ]
    assert [text for text in right if not checked.is_valid(tomllib.loads(text))] == []
    assert [text for text in wrong if checked.is_valid(tomllib.loads(text))] == []


def test_what_is_shown_of_a_component_has_types_bounds_and_nested_keys(agentfw: Agentfw) -> None:
    shown = " ".join(agentfw("plugins", "show", "inbox").out.split())
    rows = {row["key"]: row for row in agentfw("plugins", "show", "policy:openai", "--json").json[0]["settings"]}

    assert "rate number ≥ 0 0.2" in shown
    assert "high number, 0 to 1 0.4" in shown
    assert "durations.check_inbox number ≥ 0 0.1" in shown
    assert (rows["price"]["kind"], rows["price.prompt"]["default"]) == ("table or none", "required")
    assert rows["token_ids"]["kind"] == "`auto`, `on`, `off`"
