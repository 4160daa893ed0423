"""What `agentfw plugins install` promises: the right environment, and a word where it wouldn't last."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agentfw.errors import UsageError
from agentfw.host import installing
from agentfw.host.installing import install, install_command, tool_environment_warning


def without_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(installing, "find_spec", lambda name: None if name == "pip" else found(name))


@pytest.fixture
def uv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A uv that only says what it was called with, alone on the path."""
    program = tmp_path / "bin" / "uv"
    program.parent.mkdir()
    program.write_text(f'#!{sys.executable}\nimport sys\nprint("uv", *sys.argv[1:])\nsys.exit(4)\n', "utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    return program


def test_it_installs_with_the_pip_of_the_python_that_runs() -> None:
    assert install_command(["agentfw-tea>=1", "agentfw-cups"]) == [
        *(sys.executable, "-m", "pip", "install"),
        *("agentfw-tea>=1", "agentfw-cups"),
    ]


def test_without_pip_it_installs_with_uv_into_the_same_environment(monkeypatch: pytest.MonkeyPatch, uv: Path) -> None:
    without_pip(monkeypatch)

    command = install_command(["agentfw-tea"])

    assert command == [str(uv), "pip", "install", "--python", sys.executable, "agentfw-tea"]


def test_without_either_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without_pip(monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UsageError, match="no pip") as caught:
        install_command(["agentfw-tea"])

    assert "-m ensurepip" in caught.value.fix


@pytest.mark.parametrize("requirements", [[], ["--upgrade"], ["agentfw-tea", "-r"], [" "]])
def test_an_option_is_no_requirement(requirements: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        install_command(requirements)

    assert caught.value.fix


@pytest.mark.skipif(os.name == "nt", reason="the stand-in for uv is a script with a first line")
def test_the_command_is_shown_and_its_exit_code_returned(
    monkeypatch: pytest.MonkeyPatch, uv: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    without_pip(monkeypatch)
    echoed: list[str] = []

    exit_code = install(["agentfw-tea"], echoed.append)

    assert exit_code == 4
    assert echoed == [f"{uv} pip install --python {sys.executable} agentfw-tea"]


@pytest.mark.skipif(os.name == "nt", reason="the stand-in for uv is a script with a first line")
def test_what_the_installer_prints_is_no_data(uv: Path) -> None:
    code = (
        "from agentfw.host import installing\n"
        "installing.find_spec = lambda name: None\n"
        "installing.install(['agentfw-tea'], lambda line: None)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert shown.stdout == ""
    assert shown.stderr.startswith("uv pip install")


def test_pipx_is_told_about_a_plugin_by_inject(tmp_path: Path) -> None:
    (tmp_path / "pipx_metadata.json").write_text("{}", "utf-8")

    warning = tool_environment_warning(["agentfw-tea", "agentfw-cups>=2"], prefix=str(tmp_path))

    assert "pipx inject agentfw agentfw-tea 'agentfw-cups>=2'" in warning


def test_uv_is_told_about_plugins_by_with(tmp_path: Path) -> None:
    (tmp_path / "uv-receipt.toml").write_text("[tool]\n", "utf-8")

    warning = tool_environment_warning(["agentfw-tea", "agentfw-cups"], prefix=str(tmp_path))

    assert "uv tool install agentfw --with agentfw-tea --with agentfw-cups" in warning


def test_an_ordinary_environment_needs_no_warning(tmp_path: Path) -> None:
    assert tool_environment_warning(["agentfw-tea"], prefix=str(tmp_path)) == ""


@pytest.mark.nightly
def test_pip_really_installs_into_this_environment_and_not_another(tmp_path: Path) -> None:
    """A venv that sees agentfw: what it installs lands there, and leaves this one as it is."""
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", str(environment)], check=True)
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    wheel = _wheel(tmp_path)
    source = str(Path(installing.__file__).parents[2])
    others = [path for path in sys.path if path.endswith("site-packages")]
    code = f"import sys; from agentfw.host.installing import install; sys.exit(install([{str(wheel)!r}], print))"
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([source, *others]), "PIP_NO_INDEX": "1"}

    subprocess.run([str(python), "-c", code], env=variables, cwd=tmp_path, check=True)

    where = [sys.executable, "-c", "import agentfw_crane_fly"]
    assert subprocess.run(where, cwd=tmp_path, capture_output=True, check=False).returncode != 0
    shown = subprocess.run(
        [str(python), "-c", "import agentfw_crane_fly; print(agentfw_crane_fly.__file__)"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(environment) in shown.stdout


def _wheel(folder: Path) -> Path:
    """A wheel is a zip file: one module and three lines of metadata."""
    content = folder / "content"
    (content / "agentfw_crane_fly-1.0.dist-info").mkdir(parents=True)
    (content / "agentfw_crane_fly.py").write_text("", "utf-8")
    info = content / "agentfw_crane_fly-1.0.dist-info"
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: agentfw-crane-fly\nVersion: 1.0\n", "utf-8")
    (info / "WHEEL").write_text(
        "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n", "utf-8"
    )
    (info / "RECORD").write_text("", "utf-8")
    archive = shutil.make_archive(str(folder / "wheel"), "zip", content)
    return Path(archive).rename(folder / "agentfw_crane_fly-1.0-py3-none-any.whl")
