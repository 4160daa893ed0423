"""What is wrong with a spec is told in one round, with the key that was meant, and the schema says it before."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from command_line import Agentfw

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

    answer = agentfw("run", "--spec", "my.toml")

    assert answer.code == 2
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
        assert words in answer.err
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
    answer = agentfw("run", *words)

    assert answer.code == 2
    assert meant in answer.err


@pytest.mark.parametrize(("of_policy", "of_memory"), [(".hashing", ".strategyhub"), ("", "")])
def test_settings_are_given_with_and_without_the_name_of_the_component(
    agentfw: Agentfw, quick: tuple[str, ...], of_policy: str, of_memory: str
) -> None:
    given = ("--set", f"policy{of_policy}.pause=0.002", "--set", f"memory{of_memory}.path=my.db")

    answer = agentfw(*quick, "--memory", "strategyhub", *given, "--json")

    assert answer.code == 0, answer.err
    spec = agentfw("runs", "show", answer.json["folder"], "--json").json["about"]["spec"]
    assert spec["policy"]["settings"] == {"pause": 0.002}
    assert spec["memories"][0]["settings"] == {"path": "my.db"}


def test_null_in_a_file_unsets_a_default(agentfw: Agentfw) -> None:
    Path("agentfw.toml").write_text("[defaults]\nhorizon = 9\n[defaults.sampling]\ntop_p = 0.5\n")
    Path("my.toml").write_text(
        'environment = "guessing"\npolicy = "hashing"\nepisodes = 2\nhorizon = { null = true }\n'
        "[sampling]\ntemperature = 0.0\ntop_p = { null = true }\n"
    )

    answer = agentfw("run", "--spec", "my.toml", "--json")

    assert answer.code == 0, answer.err
    spec = agentfw("runs", "show", answer.json["folder"], "--json").json["about"]["spec"]
    assert spec["horizon"] is None
    assert (spec["sampling"]["temperature"], spec["sampling"]["top_p"]) == (0.0, None)


LEAST = 'environment = "guessing"\npolicy = "hashing"\n'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("x = '" + "a" * 10_000_000 + "'", "has more than 1,000,000 bytes, so it is no spec", id="10 MB"),
        pytest.param("x = " + "[" * 9000 + "]" * 9000, "nests its values too deeply", id="deep"),
        pytest.param(f"{LEAST}seed = {'9' * 5000}", "isn't valid TOML", id="digits"),
        pytest.param(LEAST + "".join(f"key{n} = 1\n" for n in range(60_000)), "60000 settings are wrong", id="keys"),
        pytest.param(f"{LEAST}rewards = [{', '.join(['3'] * 9999)}]", "9999 settings are wrong", id="types"),
    ],
)
def test_a_file_of_another_kind_is_refused_in_few_lines(agentfw: Agentfw, text: str, words: str) -> None:
    Path("my.toml").write_text(text)

    answer = agentfw("run", "--spec", "my.toml")

    assert answer.code == 2
    assert words in answer.err
    assert len(answer.err.splitlines()) < 50
    assert len(answer.err) < 5000


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
