"""What a user of the host relies on while all plugins are well; test_broken_plugins.py has the others."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import agentfw
import agentfw.errors
import agentfw_memory
import agentfw_rewardmodels
from agentfw.errors import PluginError, SettingsError, UnknownNameError
from agentfw.host import Host, HostOptions
from agentfw.host.project import Pin, ProjectFile, read_project, runs_directory

MakePlugin = Callable[..., str]

NOTES = """
@hookimpl
def agentfw_memories():
    return [
        Component("notes", "{package}.heavy:Notes", "Keeps notes", settings="{package}.heavy:NotesSettings"),
        Component("blank", "{package}.heavy:Blank", "Keeps nothing"),
    ]

@hookimpl
def agentfw_tools():
    return [Component("dice", "{package}.heavy:Blank", "Rolls dice")]
"""
HEAVY = """
from agentfw import Settings

class NotesSettings(Settings):
    limit: int = 10

class Notes:
    def __init__(self, settings): self.limit = settings.limit

class Blank:
    pass
"""


def tool(name: str, **fields: object) -> str:
    """The code of a plugin that offers one tool."""
    extra = "".join(f", {key}={value!r}" for key, value in fields.items())
    return f"@hookimpl\ndef agentfw_tools(): return [Component({name!r}, '{{package}}.heavy:Blank', 'Text'{extra})]\n"


def project(*pins: Pin) -> ProjectFile:
    return ProjectFile(Path("/somewhere/agentfw.toml"), pins)


def test_components_are_listed_without_importing_them_and_made_with_checked_settings(make_plugin: MakePlugin) -> None:
    module = make_plugin("agentfw-notes", NOTES, files={"heavy.py": HEAVY})

    host = Host.load()

    assert [(offer.kind, offer.component.name) for offer in host.components()] == [
        ("tool", "dice"),
        ("memory", "blank"),
        ("memory", "notes"),
    ]
    assert [offer.component.name for offer in host.components("memory")] == ["blank", "notes"]
    assert host.find("memory", "notes").record.distribution == "agentfw-notes"
    assert module.replace(".plugin", ".heavy") not in sys.modules
    assert host.notes == []
    assert vars(host.create("memory", "notes", {"limit": 3})) == {"limit": 3}
    assert type(host.create("memory", "blank", {})).__name__ == "Blank"
    assert host.settings_model("memory", "notes") is not None
    assert host.settings_model("memory", "blank") is None


@pytest.mark.parametrize("name", ["noisy", "Agentfw_Noisy"])
def test_a_blocked_plugin_is_never_imported(make_plugin: MakePlugin, name: str) -> None:
    module = make_plugin("agentfw-noisy", "raise SystemExit(1)", name="noisy")
    make_plugin("agentfw-dice", tool("dice"))

    host = Host.load(HostOptions(blocked=(name,)))

    assert module not in sys.modules
    assert {record.distribution: record.state for record in host.plugins} == {
        "agentfw-noisy": "blocked",
        "agentfw-dice": "active",
    }
    assert host.notes == []
    with pytest.raises(PluginError, match="is disabled by --no-plugin"):
        host.select_distribution("agentfw-noisy")


@pytest.mark.parametrize(
    ("variable", "active"), [("all", []), ("dice", ["noisy"]), ("agentfw-dice, noisy", []), ("0", ["dice", "noisy"])]
)
def test_the_environment_can_disable_all_but_agentfws_own(
    make_plugin: MakePlugin, site: Path, monkeypatch: pytest.MonkeyPatch, variable: str, active: list[str]
) -> None:
    (site / "agentfw-0.1.0.dist-info").rmdir()
    make_plugin("agentfw", tool("own"), version="0.1.0", name="builtin")
    make_plugin("agentfw-dice", tool("dice"), name="dice")
    make_plugin("agentfw-noisy", tool("noise"), name="noisy")
    monkeypatch.setenv("AGENTFW_DISABLE_PLUGINS", variable)

    host = Host.load()

    assert [record.name for record in host.plugins if record.state == "active"] == ["builtin", *active]


def test_the_allow_list_and_index_of_a_project_are_in_the_place_of_the_users_and_what_either_disables_stays_out(
    make_plugin: MakePlugin, site: Path
) -> None:
    (site / "agentfw-0.1.0.dist-info").rmdir()
    make_plugin("agentfw", tool("own"), version="0.1.0", name="builtin")
    for name in ("dice", "tea", "old"):
        make_plugin(f"agentfw-{name}", tool(name), name=name)
    module = make_plugin("agentfw-noisy", tool("noise"))
    pins = (Pin("agentfw-dice", "1.0.0"), Pin("agentfw-tea", "1.0.0"), Pin("agentfw-old", "2.0.0"))
    ours = project(*pins)._replace(package_index="https://project.example")
    theirs = ProjectFile(Path("/u/agentfw.toml"), (Pin("agentfw-noisy", "1.0.0"),), disabled=("tea", "agentfw-dicy"))
    theirs = theirs._replace(package_index="https://user.example")

    host = Host.load(HostOptions(project=ours, user=theirs))

    assert [offer.component.name for offer in host.components()] == ["dice", "own"]
    assert module not in sys.modules
    refused = {}
    for name in ("tea", "old", "noisy"):
        with pytest.raises(PluginError) as caught:
            host.select_distribution(f"agentfw-{name}")
        refused[name] = f"{caught.value.message}; {caught.value.fix}"
    assert "is disabled by /u/agentfw.toml; remove it from [plugins] disabled there" in refused["tea"]
    assert "isn't the version 2.0.0 that /somewhere/agentfw.toml allows" in refused["old"]
    assert 'pip install --index-url https://project.example "agentfw-old==2.0.0"' in refused["old"]
    assert "isn't allowed by /somewhere/agentfw.toml" in refused["noisy"]
    assert '"agentfw-noisy==1.0.0"' in refused["noisy"]
    notes = "\n".join(host.notes)
    assert "agentfw-old" in notes, "a pin that isn't kept is a problem; what isn't listed was wished so"
    assert "agentfw-noisy" not in notes
    assert 'plugins.disabled agentfw-dicy: no such plugin; did you mean "agentfw-dice"?' in notes


def test_the_agentfw_toml_of_the_current_folder_holds_for_programs_too(
    make_plugin: MakePlugin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_plugin("agentfw-dice", tool("dice"))
    (tmp_path / "agentfw.toml").write_text('[plugins]\ndisabled = ["agentfw-dice"]\n', "utf-8")
    monkeypatch.chdir(tmp_path)

    assert Host.load().components() == []


def test_select_distribution(make_plugin: MakePlugin) -> None:
    make_plugin("agentfw-dice", tool("dice"), name="dice")
    make_plugin("unrelated", entry_points="[console_scripts]\nunrelated = unrelated:main\n")
    host = Host.load()

    assert [record.name for record in host.select_distribution("Agentfw_Dice")] == ["dice"]
    assert [record.distribution for record in host.select_distribution("dice")] == ["agentfw-dice"]
    with pytest.raises(PluginError) as caught:
        host.select_distribution("agentfw-dize")
    assert 'did you mean "agentfw-dice"' in caught.value.message
    assert caught.value.fix == "pip install agentfw-dize"
    with pytest.raises(PluginError, match="installed, but it isn't an agentfw plugin"):
        host.select_distribution("unrelated")


def test_tracing_prints_calls_with_arguments_and_answers(
    make_plugin: MakePlugin, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    make_plugin(
        "agentfw-dice", tool("dice") + "@hookimpl\ndef agentfw_updated(version): raise ValueError('no')", name="d"
    )
    monkeypatch.setenv("AGENTFW_TRACE_HOOKS", "1")

    Host.load().call("agentfw_updated", run=object(), version="v" * 500, metrics={})

    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("hook agentfw-dice:d agentfw_tools() -> [Component(name='dice'")
    assert "version='vvvv" in second
    assert second.endswith("-> raised ValueError: no")
    assert len(second) < 600


LIGHT = """
import sys
from agentfw import Component, hookimpl
import agentfw.host
agentfw.host.Host.load()
print([m for m in ("pydantic", "numpy", "rich", "httpx", "torch") if m in sys.modules])
"""


def test_writing_and_loading_a_plugin_loads_nothing_heavy(make_plugin: MakePlugin, site: Path) -> None:
    make_plugin("agentfw-notes", NOTES, files={"heavy.py": HEAVY})
    code = f"import sys; sys.path.insert(0, {str(site)!r})\n{LIGHT}"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_the_names_at_the_top_are_few_and_there_and_each_is_in_a_guide() -> None:
    pages = (Path(__file__).parents[2] / "docs" / "guides").rglob("*.md")
    guides = "\n".join(page.read_text("utf-8") for page in pages)

    assert len(agentfw.__all__) <= 38
    assert [name for name in agentfw.__all__ if getattr(agentfw, name) is None or name not in dir(agentfw)] == []
    assert [name for name in agentfw.__all__ if name[0] != "_" and not re.search(rf"\b{name}\b", guides)] == []


# -- agentfw.toml ------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("pin", ['"dice"', '"dice>=1.0"', '"dice==1.*"', '"==1.0"', "7", '"dice==1.0", "dice==2.0"'])
def test_a_pin_names_one_exact_version(tmp_path: Path, pin: str) -> None:
    assert "plugins.allow" in complaint(tmp_path, f"[plugins]\nallow = [{pin}]\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[plugins]\nallow = "dice==1.0"', "must be"),
        ('default = ""', "must be"),
        ('specs = ["shard"]', "shard is no folder"),
        ('[plugins]\npackage_index = "https://ada:pw@example.org/simple"', "without a password"),
        ('defualt = "x"\n', 'defualt: no such key; did you mean "default"?'),
        ("[plugins]\nalow = []\n", 'plugins.alow: no such key; did you mean "plugins.allow"?'),
        ('[plugins]\nallow = []\nruns = "here"\n', 'plugins.runs: no such key; write "runs" above [plugins]'),
        ('runs = "here"\ndefault = \n', "line 2"),
        (b'runs = "\xff"', "UTF-8"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str | bytes, words: str) -> None:
    assert words in complaint(tmp_path, text)


def test_runs_are_where_the_nearest_project_says_or_the_user_or_else_beside_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    below = tmp_path / "project" / "below"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    write(tmp_path, 'runs = "far"\n')
    found = []
    for folder, text in (
        (tmp_path / "project", ""),
        (tmp_path / "config" / "agentfw", 'runs = "mine"\n'),
        (tmp_path / "project", 'runs = "ours"\n'),
    ):
        write(folder, text)
        found.append(runs_directory(None).relative_to(tmp_path).as_posix())

    assert found == ["project/runs", "config/agentfw/mine", "project/ours"]
    assert runs_directory("typed") == below / "typed"


# -- what an error says to install -------------------------------------------------------------------------------------


ELSEWHERE = (
    "install agentfw-tea from where agentfw-shop came from, or say where that is: plugins.package_index in agentfw.toml"
)
"""The fix where only a name is known: pip would take whatever has that name in the public index."""


@pytest.fixture(params=[agentfw.errors, agentfw_memory, agentfw_rewardmodels], ids=lambda module: module.__name__)
def fix(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str | None], str]:
    """The fix of each library's error where agentfw is installed with a direct_url.json of this content."""

    def found(content: str | None) -> str:
        about = tmp_path / "site" / "agentfw-9.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: agentfw\nVersion: 9\n")
        if content is not None:
            (about / "direct_url.json").write_text(content)
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
        error: agentfw.errors.MissingExtraError = request.param.MissingExtraError("the gateway", "web")
        return error.fix

    return found


@pytest.mark.parametrize(("options", "flag"), [({}, ""), ({"editable": True}, "-e ")])
def test_a_checkout_is_named(fix: Callable[[str], str], options: Any, flag: str, tmp_path: Path) -> None:
    checkout = tmp_path / "my checkout"
    checkout.mkdir()

    assert fix(json.dumps({"url": checkout.as_uri(), "dir_info": options})) == f'pip install {flag}"{checkout}[web]"'


@pytest.mark.parametrize(
    "content", [None, "no json", "[]", '{"url": 3}', '{"url": "https://shop.example/a.whl", "archive_info": {}}']
)
def test_anything_else_comes_from_an_index(fix: Callable[[str | None], str], content: str | None) -> None:
    assert fix(content) == 'pip install "agentfw[web]"'


def knowing(distribution: str, folder: str = "") -> str:
    offers = "{'environment': ('teahouse',), 'command': ('brew',)}"
    known = f"KnownPlugin({distribution!r}, {offers}, {folder!r})"
    return f"from agentfw.hookspecs import KnownPlugin\n@hookimpl\ndef agentfw_known_plugins(): return [{known}]\n"


def missing(name: str) -> UnknownNameError:
    with pytest.raises(UnknownNameError) as caught:
        Host.load().find("environment", name)
    return caught.value


def test_a_missing_name_names_the_distribution_that_has_it_unless_that_is_installed(make_plugin: MakePlugin) -> None:
    make_plugin("agentfw-shop", knowing("agentfw-tea"))

    error, host = missing("teahouse"), Host.load()

    assert error.message == 'no environment is called "teahouse"; agentfw-tea has it and isn\'t installed'
    assert error.fix == ELSEWHERE
    assert host.installable("brew", command=True) == ("agentfw-tea", ELSEWHERE)
    assert host.installable("teahouse", command=True) is None
    assert missing("brew").message == 'no environment is called "brew"'
    make_plugin("agentfw-tea", "")
    assert "isn't installed" not in missing("teahouse").message


def test_it_is_installed_from_the_sources_that_are_there(make_plugin: MakePlugin, site: Path, tmp_path: Path) -> None:
    make_plugin("agentfw-shop", knowing("agentfw-tea", "plugins/tea"))
    tea = tmp_path / "my shop" / "plugins" / "tea"
    tea.mkdir(parents=True)
    (tea / "pyproject.toml").touch()
    origin = {"url": (tmp_path / "my shop").as_uri(), "dir_info": {"editable": True}}
    (site / "agentfw_shop-1.0.0.dist-info" / "direct_url.json").write_text(json.dumps(origin))

    assert missing("teahouse").fix == f"pip install '{tea}'"
    # The index that one distribution ships is nothing to what another one names.
    depot = "[agentfw.defaults]\ndepot = {package}\n"
    index = '[plugins]\npackage_index = "https://depot.example"\n'
    make_plugin("agentfw-depot", entry_points=depot, files={"agentfw.toml": index})

    (tea / "pyproject.toml").unlink()
    assert missing("teahouse").fix == ELSEWHERE
