"""Some thirty ways in which a plugin can be broken, each as real files on disk, each beside a plugin that is well.

What holds for every one of them: the problem is a line that names the distribution and a fix, the other plugin goes
on, and selecting the broken one is an error with exit code 3.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import pytest

from agentfw.errors import DuplicateComponentError, MissingExtraError, PluginError, UnknownNameError
from agentfw.host import Host, HostOptions

MakePlugin = Callable[..., str]

BROKEN = "agentfw-broken"
WELL = "@hookimpl\ndef agentfw_tools(): return [Component('hammer', '{package}.tool:make', 'Hits nails')]\n"
TOOL = "def make(): return 'a tool'\n"


class Case(NamedTuple):
    """A plugin, words of the line that a person reads, and the state it ends in."""

    code: str
    words: str
    state: str = "failed"
    value: str = "{module}"


def offers(*arguments: str) -> str:
    """The code of a plugin that offers one tool."""
    return f"@hookimpl\ndef agentfw_tools(): return [Component({', '.join(arguments)})]\n"


def answers(answer: str) -> str:
    return f"@hookimpl\ndef agentfw_tools(): return {answer}\n"


def spec(arguments: str) -> str:
    return f"@hookimpl\ndef agentfw_specs(): return [{arguments}]\n"


def known(arguments: str) -> str:
    return f"from agentfw.hookspecs import KnownPlugin\n@hookimpl\ndef agentfw_known_plugins(): return [{arguments}]\n"


CASES = {
    "module that isn't installed": Case("import no_such_module", "No module named 'no_such_module'"),
    "syntax error": Case("def broken(:\n", "plugin.py, line 3"),
    "exit at import": Case("import sys; sys.exit(0)", "tried to end Python"),
    "control characters in the error": Case("raise ValueError('a\\x1b[2J\\nb')", "ValueError: a[2J b"),
    "older API": Case("AGENTFW_PLUGIN_API = 0", f"pip install --upgrade {BROKEN}", "incompatible"),
    "API that isn't a number": Case("AGENTFW_PLUGIN_API = '1'", "'1', which isn't a whole number", "incompatible"),
    "entry point to a missing module": Case("", "gone.plugin, which isn't there", value="gone.plugin"),
    "entry point to a missing attribute": Case("", "has no attribute 'nothing'", value="{module}:nothing"),
    "entry point to None": Case("nothing = None", "which is None", value="{module}:nothing"),
    "entry point with an empty module": Case("", "can't be imported", value=":name"),
    "misspelt hook": Case("@hookimpl\ndef agentfw_memorys(): return []", 'did you mean "agentfw_memories"?', "active"),
    "marked, and no hook": Case("@hookimpl\ndef memories(): return []", '"memories", which is not a hook', "active"),
    "hook without a mark": Case("def agentfw_tools(): return []", '"agentfw_tools" without @hookimpl', "active"),
    "no hook at all": Case("", "implements no hook", "active"),
    "wrong arguments": Case("@hookimpl\ndef agentfw_turn(run, trun): pass", "{'trun'} are declared in the hookimpl"),
    "coroutine": Case("@hookimpl\nasync def agentfw_turn(run): pass", "isn't a plain function"),
    "wrapper": Case("@hookimpl(wrapper=True)\ndef agentfw_updated(): return (yield)", "which only deciding"),
    "coroutine of records": Case("@hookimpl\nasync def agentfw_record(record): pass", "agentfw_record is a coroutine"),
    "older wrapper": Case("@hookimpl(hookwrapper=True)\ndef agentfw_request():\n    yield", "may be a wrapper"),
    "hook that raises": Case("@hookimpl\ndef agentfw_tools(): raise KeyError('x')", "agentfw_tools raised KeyError"),
    "hook that returns a string": Case(answers("'saw'"), "an object of type str, not a list"),
    "one component": Case(answers("Component('a', 'b:c', '')"), "one Component, not a list"),
    "hook that returns a live object": Case(answers("[object()]"), "an object of type object in it"),
    "factory without a colon": Case(offers("'saw'", "'package.Saw'", "'Saws'"), "the factory 'package.Saw'"),
    "component name in capitals": Case(offers("'Saw'", "'a:B'", "'Saws'"), "the name 'Saw'"),
    "settings without a colon": Case(offers("'saw'", "'a:B'", "''", "settings='a.B'"), "the settings 'a.B'"),
    "summary that isn't text": Case(offers("'saw'", "'a:B'", "None"), "isn't text"),
    "needs that is one string": Case(offers("'saw'", "'a:B'", "''", "extra='x'", "needs=('torch')"), "isn't a tuple"),
    "needs without an extra": Case(offers("'saw'", "'a:B'", "''", "needs=('torch',)"), "but no extra"),
    "one name twice": Case(answers("[Component('saw', 'a:B', '')] * 2"), 'the name "saw" twice'),
    "spec that is a path": Case(spec("__file__"), "not NamedSpec"),
    "spec with a bad name": Case(spec("NamedSpec('My Spec', __file__, '')"), "the spec name 'My Spec'"),
    "spec that isn't there": Case(spec("NamedSpec('mine', '/no/such/file', '')"), "absolute path of a file"),
    "known plugin that is a name": Case(known("'agentfw-tea'"), "not KnownPlugin"),
    "known plugin with a bad name": Case(known("KnownPlugin('My Tea', {})"), "the known plugin 'My Tea'"),
    "known plugin of no kind": Case(known("KnownPlugin('tea', {'cup': ['a']})"), "give names by what they"),
    "object whose attributes raise": Case(
        "class Plugin:\n    def __getattr__(self, name): raise RuntimeError('no ' + name)\nplugin = Plugin()",
        "RuntimeError: no AGENTFW_PLUGIN_API",
        value="{module}:plugin",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_broken_plugin_is_a_line_until_it_is_selected(make_plugin: MakePlugin, case: Case) -> None:
    make_plugin(BROKEN, case.code, name="broken", value=case.value)
    make_plugin("agentfw-well", WELL, files={"tool.py": TOOL})

    host = Host.load()

    broken, well = host.plugins
    assert (broken.distribution, broken.state, well.state) == (BROKEN, case.state, "active")
    (note,) = host.notes
    assert note.isprintable()
    assert f"{BROKEN} 1.0.0" in note
    assert case.words in note
    assert "pip install" in note or "--no-plugin broken" in note
    assert host.create("tool", "hammer", {}) == "a tool"
    with pytest.raises(PluginError) as caught:
        host.select_distribution(BROKEN)
    assert caught.value.exit_code == 3
    assert BROKEN in caught.value.message
    assert caught.value.fix
    with pytest.raises(UnknownNameError) as missing:
        host.find("tool", "anvil")
    assert BROKEN in missing.value.fix, "it may be what would have it"
    with pytest.raises(PluginError, match=BROKEN):
        Host.load(HostOptions(strict=True))


def test_what_a_failed_plugin_offered_besides_says_why_it_is_gone(make_plugin: MakePlugin) -> None:
    make_plugin(BROKEN, WELL + "@hookimpl\ndef agentfw_memories(): raise ValueError('no')")

    host = Host.load()

    assert host.components() == []
    with pytest.raises(PluginError, match=f"{BROKEN} .* agentfw_memories raised ValueError: no") as caught:
        host.create("tool", "hammer", {})
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_broken_plugin_from_a_folder_is_mended_there(make_plugin: MakePlugin, site: Path, tmp_path: Path) -> None:
    make_plugin(BROKEN, "raise ValueError('no')", name="broken")
    origin = {"url": tmp_path.as_uri(), "dir_info": {"editable": True}}
    (site / "agentfw_broken-1.0.0.dist-info" / "direct_url.json").write_text(json.dumps(origin), encoding="utf-8")
    assert f"fix it in {tmp_path} and install it again" in Host.load().notes[0]


@pytest.mark.parametrize("content", ["[agentfw]\nbroken\n", b"[agentfw]\n\xff = x\n"])
def test_malformed_entry_points(make_plugin: MakePlugin, content: str | bytes) -> None:
    make_plugin(BROKEN, entry_points=content)
    make_plugin("agentfw-well", WELL)

    host = Host.load()

    (note,) = host.notes
    assert "entry_points.txt" in note
    assert f"pip install --force-reinstall {BROKEN}" in note
    assert [offer.component.name for offer in host.components()] == ["hammer"]
    with pytest.raises(PluginError, match=r"entry_points\.txt"):
        host.select_distribution(BROKEN)
    assert Host.load(HostOptions(blocked=(BROKEN,))).notes == []


def test_malformed_entry_points_in_an_archive(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ZipFile(tmp_path / "broken.zip", "w") as archive:
        archive.writestr("agentfw_broken-1.0.0.dist-info/METADATA", f"Name: {BROKEN}\nVersion: 1.0.0\n")
        archive.writestr("agentfw_broken-1.0.0.dist-info/entry_points.txt", b"[agentfw]\n\xff = x\n")
    monkeypatch.syspath_prepend(str(tmp_path / "broken.zip"))

    (note,) = Host.load().notes
    assert "entry_points.txt is not UTF-8 text" in note


def test_one_entry_point_name_in_two_distributions(make_plugin: MakePlugin) -> None:
    make_plugin("agentfw-one", offers("'saw'", "'a:B'", "''"), name="tools")
    make_plugin("agentfw-two", offers("'file'", "'a:B'", "''"), name="tools")

    host = Host.load()

    (note,) = host.notes
    assert 'plugin "tools" is offered twice' in note
    assert [offer.component.name for offer in host.components()] == ["file", "saw"]
    assert len(host.select_distribution("agentfw-one")) == 1
    with pytest.raises(DuplicateComponentError, match=r"agentfw-one 1\.0\.0 and .* agentfw-two 1\.0\.0"):
        host.select_distribution("tools")


def test_a_slow_import_is_told_while_it_lasts(
    make_plugin: MakePlugin, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentfw.boundary.gate.SLOW_SECONDS", 0.05)
    make_plugin("agentfw-slow", f"import time; time.sleep(0.4)\n{WELL}", name="slow")

    host = Host.load()

    told = capsys.readouterr().err.splitlines()
    assert told == ["still importing plugin slow of agentfw-slow 1.0.0 ...; disable it with --no-plugin slow"]
    (slow,) = host.plugins
    assert slow.state == "active"
    assert len(host.select_distribution("agentfw-slow")) == 1


@pytest.mark.parametrize(
    ("code", "needs"),
    [("def Saw(): pass", ("no_such_module",)), ("import no_such_module", ()), ("def Saw(): import no_such_module", ())],
)
def test_a_missing_extra_is_named(make_plugin: MakePlugin, code: str, needs: tuple[str, ...]) -> None:
    make_plugin(
        BROKEN, offers("'saw'", "'{package}.saw:Saw'", "'Saws'", "extra='steel'", f"{needs=}"), files={"saw.py": code}
    )

    with pytest.raises(MissingExtraError) as caught:
        Host.load().create("tool", "saw", {})

    assert caught.value.exit_code == 3
    assert "no_such_module" in caught.value.message
    assert caught.value.fix == f'pip install "{BROKEN}[steel]"'


def test_an_observer_that_raises_breaks_a_strict_run(make_plugin: MakePlugin) -> None:
    make_plugin(BROKEN, "@hookimpl\ndef agentfw_turn(turn): raise ValueError('odd')\n")
    host = Host.load(HostOptions(strict=True))

    with pytest.raises(PluginError, match=BROKEN):
        host.call("agentfw_turn", run=None, episode_id="e1", turn=1)


@pytest.mark.parametrize("code", ["raise KeyboardInterrupt", "@hookimpl\ndef agentfw_tools(): raise KeyboardInterrupt"])
def test_an_interrupt_is_never_taken_for_a_broken_plugin(make_plugin: MakePlugin, code: str) -> None:
    make_plugin(BROKEN, code)

    with pytest.raises(KeyboardInterrupt):
        Host.load()
