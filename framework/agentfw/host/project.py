"""Reads agentfw.toml: the settings of a project, of a user, or of everybody who has installed a distribution.

The nearest file from the current folder upwards is the project's. The user's is in the folder for configuration of
their system. A distribution names a package of its own in the entry-point group `agentfw.defaults`; the file in that
package holds for whoever has installed it, and nothing is imported. What a user says wins over a distribution, and a
project over both. A mistake in a file is an error before anything is loaded, with its location and the nearest valid
key. Paths are relative to the file, not to the current directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from ..boundary.metadata import EntryPoint, normalise
from ..errors import SettingsError, nearest
from .trust import OF_ANOTHER_USER, is_of_another_user, require_trusted, user_folder

Value = TypeVar("Value", str, list[str])

FILE_NAME = "agentfw.toml"
DEFAULTS_GROUP = "agentfw.defaults"
TOP_KEYS = ("default", "runs", "specs", "defaults", "plugins")
PLUGINS_KEYS = ("allow", "disabled", "package_index")
SHIPPED_KEYS = ("default", "defaults", "plugins")
"""What a distribution may say. Which plugins are loaded, and where runs are, is up to those who install it."""
SHIPPED_PLUGINS_KEYS = ("package_index",)


class Pin(NamedTuple):
    """A distribution and the only version of it that may be loaded."""

    distribution: str
    version: str


class ProjectFile(NamedTuple):
    """One validated agentfw.toml."""

    path: Path
    allow: tuple[Pin, ...] | None = None
    """The allow list. None: everything installed may be loaded."""
    default: str = ""
    """The absolute path or the name of a spec."""
    runs: Path | None = None
    disabled: tuple[str, ...] = ()
    specs: tuple[Path, ...] = ()
    defaults: Mapping[str, Any] = MappingProxyType({})
    package_index: str = ""
    """The URL of the index of packages that plugins are installed from."""
    shipped_by: str = ""
    """The distribution that ships the file. Empty for a user's and a project's."""

    @property
    def title(self) -> str:
        return f"{FILE_NAME} of {self.shipped_by}" if self.shipped_by else str(self.path)

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
            "index of packages": self.package_index,
        }
        return {name: str(value) for name, value in words.items() if value}

    def said(self) -> dict[str, Any]:
        """What a person has to allow before it holds. In a file of another user, that is everything."""
        others = {OF_ANOTHER_USER: self.effect()} if is_of_another_user(self.path) else {}
        places = {"package_index": self.package_index}
        return {"defaults": dict(self.defaults), "plugins": places, **others}

    def require_trusted(self) -> None:
        """Raise unless a person has allowed what the file wants."""
        require_trusted(self.path, self.said())


def find_project(start: Path | None = None) -> ProjectFile | None:
    """The agentfw.toml of `start` (default: the current folder) or of the nearest parent. None if there is none."""
    folder = (start or Path()).absolute()
    files = (above / FILE_NAME for above in (folder, *folder.parents))
    return next((read_project(file) for file in files if file.is_file()), None)


def find_user_file() -> ProjectFile | None:
    file = user_folder() / FILE_NAME
    return read_project(file) if file.is_file() else None


def read_shipped(entry: EntryPoint) -> ProjectFile:
    """The file in the package that an entry point of a distribution names."""
    folder = entry.folder()
    if folder is None or not (folder / FILE_NAME).is_file():
        raise SettingsError(
            f"{entry.distribution} {entry.version} has its defaults in {entry.value}, and there is no {FILE_NAME}",
            fix=f"put {FILE_NAME} into that package, or leave it out with --no-plugin {entry.distribution}",
        )
    return read_project(folder / FILE_NAME, shipped_by=entry.distribution)


def runs_directory(given: Path | str | None) -> Path:
    """The directory of runs: as given, as the project's or the user's agentfw.toml says, or `runs`.

    Without a word of either, it is beside the project's agentfw.toml, else in the current folder. It is absolute, and
    has to be asked for before plugins are imported, which may change the current directory.
    """
    if given is not None:
        return Path(given).absolute()
    project = find_project()
    if project is not None and is_of_another_user(project.path):
        project.require_trusted()
    for file in (project, find_user_file()):
        if file is not None and file.runs is not None:
            return file.runs
    return project.path.parent / "runs" if project is not None else Path("runs").absolute()


def read_project(path: Path, *, shipped_by: str = "") -> ProjectFile:
    """Read and validate one file. The SettingsError lists everything that is wrong with it."""
    import tomllib

    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        # The message ends with the place: "... (at line 3, column 5)".
        raise SettingsError(f"{path} isn't valid TOML: {error}", fix="fix that line") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path} isn't UTF-8 text: {error.reason}", fix="save the file as UTF-8") from error
    except OSError as error:
        raise SettingsError(f"{path} can't be read: {error.strerror}", fix="make the file readable") from error
    problems = _unknown_keys(table, SHIPPED_KEYS if shipped_by else TOP_KEYS, "")
    plugins = table.get("plugins", {})
    if not isinstance(plugins, dict):
        problems.append("plugins: must be a table: [plugins]")
        plugins = {}
    problems += _unknown_keys(plugins, SHIPPED_PLUGINS_KEYS if shipped_by else PLUGINS_KEYS, "plugins.")
    allow = _read_pins(plugins["allow"], problems) if "allow" in plugins else None
    disabled = tuple(_read(plugins, "plugins.disabled", list, "a list of names", problems, []))
    package_index = _read(plugins, "plugins.package_index", str, "a URL", problems, "")
    is_url = package_index.startswith(("http://", "https://"))
    if package_index and (not is_url or "@" in urlsplit(package_index).netloc):
        problems.append(
            "plugins.package_index: must be a URL (http or https) without a password; pip finds that in ~/.netrc"
        )
    specs = tuple(path.parent / folder for folder in _read(table, "specs", list, "a list of names", problems, []))
    problems += [f"specs: {folder} is no folder" for folder in specs if not folder.is_dir()]
    defaults = table.get("defaults", {})
    if not isinstance(defaults, dict):
        problems.append("defaults: must be a table: [defaults]")
    default = _read(table, "default", str, "a path or the name of a spec", problems, "")
    if default.endswith(".toml") or "/" in default:
        default = str(path.parent / default)
    runs = _read(table, "runs", str, "a path", problems, "")
    if problems:
        raise SettingsError(f"{path}:\n  " + "\n  ".join(problems), fix=f"fix {path}")
    place = path.parent / runs if runs else None
    return ProjectFile(path, allow, default, place, disabled, specs, defaults, package_index, shipped_by)


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


def _read(
    table: Mapping[str, object], key: str, form: type[Value], what: str, problems: list[str], default: Value
) -> Value:
    """The value of a dotted key, of which the last part is that in the table: a text, or a list of texts."""
    last = key.rpartition(".")[2]
    value = table.get(last, default)
    texts = value if isinstance(value, list) else [value]
    if isinstance(value, form) and (last not in table or all(isinstance(text, str) and text for text in texts)):
        return value
    problems.append(f"{key}: must be {what} in quotes (got {value!r})")
    return default
