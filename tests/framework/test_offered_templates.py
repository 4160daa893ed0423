"""`agentfw plugins new --template`: plugins that are made of a template that another plugin brings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentfw.errors import DuplicateComponentError, PluginError, UnknownNameError, UsageError
from agentfw.host import Host
from agentfw.scaffold import scaffold_from
from agentfw_cli.main import main

MakePlugin = Callable[..., str]

FILES = {
    "pyproject.toml.tmpl": '[project]\nname = "$distribution"\ndependencies = ["agentfw>=$agentfw"]\n',
    "{package}/__init__.py": "",
    "{package}/{component}.py.tmpl": 'NAME = "$component"\nPRICE = "5 $$"\n',
    "data/prices.csv": "tea,$3\n",
}


@pytest.fixture
def template(tmp_path: Path) -> Path:
    """The folder of a template."""
    folder = tmp_path / "template"
    for place, text in FILES.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(text, encoding="utf-8")
    return folder


def offering(name: str, folder: Path) -> str:
    code = "from agentfw.hookspecs import NamedTemplate\n@hookimpl\n"
    return f"{code}def agentfw_templates(): return [NamedTemplate({name!r}, {str(folder)!r}, 'A price list')]\n"


def test_a_package_is_made_of_the_template_of_a_plugin(
    make_plugin: MakePlugin, template: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_plugin("agentfw-one", offering("prices", template))

    with pytest.raises(SystemExit) as ended:
        main(["plugins", "new", "agentfw-tea", "--template", "prices", "--into", str(tmp_path)])

    assert ended.value.code == 0
    made = tmp_path / "agentfw-tea"
    assert "agentfw plugins check agentfw-tea" in capsys.readouterr().err
    assert 'name = "agentfw-tea"' in (made / "pyproject.toml").read_text("utf-8")
    assert (made / "agentfw_tea" / "tea.py").read_text("utf-8") == 'NAME = "tea"\nPRICE = "5 $"\n'
    assert (made / "data" / "prices.csv").read_text("utf-8") == "tea,$3\n"
    assert len([path for path in made.rglob("*") if path.is_file()]) == len(FILES)


def test_an_unknown_template_is_told_with_the_nearest(make_plugin: MakePlugin, template: Path) -> None:
    make_plugin("agentfw-one", offering("prices", template))

    with pytest.raises(UnknownNameError, match='no template is called "price"; did you mean "prices"'):
        Host.load().find_template("price")


def test_two_templates_of_one_name_are_told_with_their_plugins(make_plugin: MakePlugin, template: Path) -> None:
    make_plugin("agentfw-one", offering("prices", template))
    make_plugin("agentfw-two", offering("prices", template))
    host = Host.load()

    with pytest.raises(DuplicateComponentError, match=r"agentfw-one 1\.0\.0 and agentfw-two"):
        host.find_template("prices")
    assert len(host.notes) == 1


@pytest.mark.parametrize(
    ("file", "content", "words"),
    [
        ("a.py.tmpl", b"$colour", r"a\.py\.tmpl .*has the placeholder \$colour, which there is not"),
        ("a.py.tmpl", b"$ 3", r"a\.py\.tmpl .*can't be used: Invalid placeholder"),
        ("a.csv", b"\xff", r"a\.csv .*can't be used: 'utf-8' codec"),
        ("pyproject.toml.tmpl", None, r"pyproject\.toml\.tmpl .*is missing"),
    ],
)
def test_a_template_that_can_not_be_used_is_told_with_its_plugin_and_writes_nothing(
    make_plugin: MakePlugin, template: Path, tmp_path: Path, file: str, content: bytes | None, words: str
) -> None:
    make_plugin("agentfw-one", offering("prices", template))
    (template / file).unlink() if content is None else (template / file).write_bytes(content)
    host = Host.load()

    with pytest.raises(PluginError, match=words) as caught:
        scaffold_from(host.find_template("prices"), "agentfw-tea", tmp_path / "new", host)

    assert 'the template "prices" of plugin agentfw-one of agentfw-one 1.0.0' in caught.value.message
    assert "agentfw-one" in caught.value.fix
    assert not (tmp_path / "new").exists()


def test_a_name_that_can_not_be_used_is_refused(make_plugin: MakePlugin, template: Path, tmp_path: Path) -> None:
    make_plugin("agentfw-one", offering("prices", template))
    host = Host.load()

    with pytest.raises(UsageError, match="has a module called json"):
        scaffold_from(host.find_template("prices"), "json", tmp_path / "new", host)


@pytest.mark.parametrize("options", [(), ("--kind", "tool", "--template", "prices")])
def test_either_a_kind_or_a_template_is_needed(options: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["plugins", "new", "agentfw-tea", *options])

    assert ended.value.code == 2
    assert "either --kind, --template or --from" in capsys.readouterr().err
