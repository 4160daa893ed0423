"""Components of single files: what they are made of, what they are called, and what is said of one that is wrong."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from agentfw.errors import PluginError, UsageError
from agentfw.host import Host, HostOptions
from agentfw.host.project import find_project
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import parse_spec
from agentfw.runs.spec.start import with_choices
from agentfw.runs.spec.values import apply_assignments, read_spec
from agentfw.scaffold import scaffold_file
from agentfw.testing import fresh_host
from agentfw.tool import Toolbox

WEATHER = 'def weather(city: str) -> str:\n    "Today\'s weather."\n    return "sunny in " + city\n'
BRIEF = '"""Few turns."""\n\n\ndef score(episode):\n    return 1 / (1 + len(episode.turns))\n'
ASK = """from agentfw.episode import Call


def decide(request):
    return Call("weather", {"city": "Oslo"})
"""


@pytest.fixture
def host() -> Host:
    return fresh_host()


def written(folder: Path, name: str, code: str) -> str:
    (folder / name).write_text(code, "utf-8")
    return str(folder / name)


def played(folder: Path, **more: object) -> Run:
    host = fresh_host(builtins=True)
    values = {
        "environment": "inbox",
        "policy": written(folder, "ask.py", ASK),
        "tools": [written(folder, "weather.py", WEATHER)],
        "rewards": [{"name": written(folder, "brief.py", BRIEF), "weight": 0.5}],
        "episodes": 2,
        "max_turns": 4,
        **more,
    }
    run = Run.create(parse_spec(values), host, folder / "runs")
    asyncio.run(run.execute())
    return run


def test_a_run_uses_policy_tool_and_reward_of_one_function_each_and_says_which_changed(tmp_path: Path) -> None:
    run = played(tmp_path)

    episodes = list(run.folder.episodes())
    assert len(episodes) == 2
    for episode in episodes:
        assert "sunny in Oslo" in json.dumps(episode.to_record())
    summary = run.folder.about
    assert summary["plugins"]["weather"] == "weather.py==" + summary["distributions"]["weather.py"]["version"]
    assert summary["distributions"]["brief.py"]["source"] == str(tmp_path / "brief.py")
    written(tmp_path, "brief.py", BRIEF + "\n\n# changed\n")
    again = fresh_host(builtins=True)
    Run.open(run.folder, again)
    assert any("brief.py" in note and "came from" in note for note in again.notes)


def test_what_fails_names_the_file(tmp_path: Path) -> None:
    fails = "def score(episode):\n    raise ValueError('spilt')\n"

    with pytest.raises(PluginError) as failed:
        played(tmp_path, rewards=[written(tmp_path, "fails.py", fails)])

    assert 'reward model "fails" of fails.py' in failed.value.message
    assert str(tmp_path / "fails.py") in failed.value.fix


def test_a_project_allows_a_file_by_its_hash(tmp_path: Path) -> None:
    path = written(tmp_path, "weather.py", WEATHER)
    (tmp_path / "agentfw.toml").write_text("[plugins]\nallow = []\n")

    with pytest.raises(PluginError, match="isn't allowed by") as refused:
        Host.load(HostOptions(project=find_project(tmp_path))).find("tool", path)
    pin = refused.value.fix.split('"')[1]
    (tmp_path / "agentfw.toml").write_text(f'[plugins]\nallow = ["{pin}"]\n')

    assert Host.load(HostOptions(project=find_project(tmp_path))).find("tool", path).component.name == "weather"


def test_all_functions_of_a_file_are_tools_unless_some_are_marked(tmp_path: Path, host: Host) -> None:
    more = "def _helper(): ...\n\n\nasync def tides(port: str) -> str:\n    return port\n"
    plain = f"from textwrap import dedent\n{WEATHER}\n\n{more}"
    marked = "from agentfw.tool import tool\n" + plain.replace("def weather", "@tool\ndef weather")

    for name, code, offered in (("plain.py", plain, ["weather", "tides"]), ("marked.py", marked, ["weather"])):
        box = host.create("tool", written(tmp_path, name, code), None)
        assert isinstance(box, Toolbox)
        assert [tool.action.name for tool in asyncio.run(box.open())] == offered


def test_settings_and_weights_go_by_the_name_of_the_file(tmp_path: Path) -> None:
    values = {"environment": "inbox", "policy": "random", "rewards": ["./brief.py"]}

    spec = parse_spec(apply_assignments(values, {"reward": {"brief": {"weight": 2}}}))

    assert (spec.rewards[0].label, spec.rewards[0].weight) == ("brief", 2)


def test_a_file_without_a_component_grows_into_nothing(tmp_path: Path) -> None:
    path = Path(written(tmp_path, "empty.py", "NUMBER = 3\n"))

    with pytest.raises(UsageError, match="has no component"):
        scaffold_file(path, "agentfw-empty", tmp_path, host=fresh_host())

    assert not (tmp_path / "agentfw-empty").exists()


def test_in_a_spec_the_path_is_relative_to_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spec.toml").write_text(
        'environment = "inbox"\npolicy = { name = "./ask.py", settings = { tokens = 4 } }\n'
        'tools = [{ name = "tools/weather.py", alias = "x", settings = { prefix = "w_" } }, "mcp"]\n'
    )
    monkeypatch.chdir("/")

    values = read_spec(tmp_path / "spec.toml")
    spec = parse_spec(values)
    monkeypatch.chdir(tmp_path)  # who types the same file there leaves its settings as they are
    again = with_choices(values, {"policy": "ask.py", "tools": ("tools/weather.py=x",)})

    assert spec.policy.name == str(tmp_path / "ask.py")
    assert [tool.name for tool in spec.tools] == [str(tmp_path / "tools" / "weather.py"), "mcp"]
    assert (again["policy"], again["tools"]) == (values["policy"], values["tools"][:1])
