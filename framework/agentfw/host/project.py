"""Reads agentfw.toml: the settings of a project, shared by everybody who works in its folder.

A mistake in the file is an error before anything is loaded, with its location and the nearest valid key. Paths are
relative to the file, not to the current directory.

    # agentfw.toml
    default = "spec.toml"              # spec that `agentfw run` without arguments runs here
    runs = "runs"                      # folder of the runs
    specs = ["specs"]                  # folders of specs: nightly.toml is the spec `nightly`, as if a plugin shipped it

    [defaults]                         # of specs, where these don't say otherwise
    trackers = ["mlflow"]

    [plugins]
    allow = ["agentfw-notes==1.2.0"]   # only these distributions, in these versions; agentfw's own are always allowed
    disabled = ["agentfw-noisy"]       # plugins or distributions that are not imported
    index = "plugins.toml"             # list of plugins for `agentfw plugins search`: a file or a URL

    project = find_project()
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from ..boundary.metadata import normalise
from ..errors import SettingsError, nearest

__all__ = ["FILE_NAME", "Pin", "ProjectFile", "find_project", "read_project", "runs_directory"]

FILE_NAME = "agentfw.toml"
TOP_KEYS = ("default", "runs", "specs", "defaults", "plugins")
PLUGINS_KEYS = ("allow", "disabled", "index")


class Pin(NamedTuple):
    """A distribution and the only version of it that may be loaded."""

    distribution: str
    version: str


class ProjectFile(NamedTuple):
    """One validated agentfw.toml."""

    path: Path
    allow: tuple[Pin, ...] | None
    """The allow list. None: everything installed may be loaded."""
    default: Path | None
    runs: Path
    disabled: tuple[str, ...] = ()
    specs: tuple[Path, ...] = ()
    defaults: Mapping[str, Any] = MappingProxyType({})
    plugin_list: str = ""
    """The path or the URL of the team's list of plugins."""

    def effect(self) -> dict[str, str]:
        """What the file changes, in words."""
        pins = None if self.allow is None else [f"{pin.distribution}=={pin.version}" for pin in self.allow]
        words = {
            "default spec": self.default,
            "directory of runs": self.runs,
            "folders of specs": ", ".join(map(str, self.specs)),
            "defaults": ", ".join(f"{key} = {value!r}" for key, value in self.defaults.items()),
            "plugins allowed": None if pins is None else ", ".join(pins) or "none",
            "plugins disabled": ", ".join(self.disabled),
            "list of plugins": self.plugin_list,
        }
        return {name: str(value) for name, value in words.items() if value}


def find_project(start: Path | None = None) -> ProjectFile | None:
    """The agentfw.toml of `start` (default: the current folder) or of the nearest parent. None if there is none."""
    folder = (start or Path()).absolute()
    for candidate in (folder, *folder.parents):
        file = candidate / FILE_NAME
        if file.is_file():
            return read_project(file)
    return None


def runs_directory(given: Path | str | None) -> Path:
    """The directory of runs: as given, as agentfw.toml says, or `runs`.

    It is absolute, and has to be asked for before plugins are imported, which may change the current directory.
    """
    if given is not None:
        return Path(given).absolute()
    project = find_project()
    return project.runs if project is not None else Path("runs").absolute()


def read_project(path: Path) -> ProjectFile:
    """Read and validate one file. The SettingsError lists everything that is wrong with it."""
    import tomllib

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        # The message ends with the place: "... (at line 3, column 5)".
        raise SettingsError(f"{path} isn't valid TOML: {error}", fix="fix that line") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} isn't UTF-8 text: {error.reason}", fix="save the file as UTF-8") from error
    except OSError as error:
        raise SettingsError(f"{path} can't be read: {error.strerror}", fix="make the file readable") from error
    problems = _unknown_keys(table, TOP_KEYS, "")
    plugins = table.get("plugins", {})
    if not isinstance(plugins, dict):
        problems.append("plugins: must be a table: [plugins]")
        plugins = {}
    problems += _unknown_keys(plugins, PLUGINS_KEYS, "plugins.")
    allow = None
    if "allow" in plugins:
        allow = _read_pins(plugins["allow"], problems)
    disabled = _read_words(plugins, "disabled", "plugins.", problems)
    index = plugins.get("index", "")
    if not isinstance(index, str):
        problems.append(f"plugins.index: must be a path or a URL in quotes (got {index!r})")
    elif index and not index.startswith(("http://", "https://")):
        index = str(path.parent / index)
    specs = tuple(path.parent / folder for folder in _read_words(table, "specs", "", problems))
    problems += [f"specs: {folder} is no folder" for folder in specs if not folder.is_dir()]
    defaults = table.get("defaults", {})
    if not isinstance(defaults, dict):
        problems.append("defaults: must be a table: [defaults]")
    default = _read_path(table, "default", path.parent, problems)
    runs = _read_path(table, "runs", path.parent, problems)
    if problems:
        raise SettingsError(f"{path}:\n  " + "\n  ".join(problems), fix=f"fix {path}")
    return ProjectFile(path, allow, default, runs or path.parent / "runs", disabled, specs, defaults, index)


def _unknown_keys(table: Mapping[str, object], known: tuple[str, ...], prefix: str) -> list[str]:
    problems = []
    for key in table:
        if key in known:
            continue
        guess = nearest(key, known)
        if guess:
            hint = f'did you mean "{prefix}{guess}"?'
        elif key in TOP_KEYS:
            # In TOML, a key after [plugins] belongs to that table. This is the usual mistake.
            hint = f'write "{key}" above [plugins]'
        else:
            hint = f"known: {', '.join(known)}"
        problems.append(f"{prefix}{key}: no such key; {hint}")
    return problems


def _read_pins(value: object, problems: list[str]) -> tuple[Pin, ...]:
    if not isinstance(value, list):
        problems.append('plugins.allow: must be a list such as ["agentfw-notes==1.2.0"]')
        return ()
    pins: dict[str, Pin] = {}
    for text in value:
        distribution, _, version = text.partition("==") if isinstance(text, str) else ("", "", "")
        pin = Pin(normalise(distribution.strip()), version.strip())
        if not pin.distribution or not pin.version or any(sign in pin.version for sign in " ,<>=*"):
            problems.append(f'plugins.allow: {text!r} must name one exact version, as in "agentfw-notes==1.2.0"')
        elif pin.distribution in pins:
            problems.append(f"plugins.allow: {pin.distribution} is listed twice")
        pins[pin.distribution] = pin
    return tuple(pins.values())


def _read_words(table: Mapping[str, object], key: str, prefix: str, problems: list[str]) -> tuple[str, ...]:
    value = table.get(key, [])
    if isinstance(value, list) and all(isinstance(word, str) and word for word in value):
        return tuple(value)
    problems.append(f"{prefix}{key}: must be a list of names in quotes (got {value!r})")
    return ()


def _read_path(table: Mapping[str, object], key: str, folder: Path, problems: list[str]) -> Path | None:
    value = table.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        problems.append(f"{key}: must be a path in quotes (got {value!r})")
        return None
    return folder / value
