"""Makes a plugin of a single file: a tool, a reward or a policy in ten lines, without a package.

    host.find("tool", "./weather.py")

The file takes the place of an entry point. It is imported, registered with pluggy, asked and guarded as every other
plugin is, and what stands for its version is a hash of its content.
"""

from __future__ import annotations

import hashlib
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from ..boundary.metadata import EntryPoint
from ..component import KINDS, Component
from ..errors import UsageError
from ..hookspecs import hookimpl
from .names import component_name

__all__ = ["FileEntryPoint", "file_entry_point", "import_file"]


class FileEntryPoint(EntryPoint):
    """Stands in for the entry point of a distribution."""

    def load(self) -> object:
        """The plugin: an object whose only hook offers the component of the kind that the value names."""
        module, kind = import_file(Path(self.file)), self.value.partition(":")[2]

        def make() -> object:
            from .from_functions import component_of

            return component_of(kind, module, self.name)

        def offer() -> list[Component]:
            name = f"_{kind}"
            setattr(module, name, make)
            summary = next(iter((module.__doc__ or "").strip().splitlines()), "") or self.file
            return [Component(self.name, f"{module.__name__}:{name}", summary)]

        offer.__name__ = KINDS[kind].hook
        return SimpleNamespace(**{KINDS[kind].hook: hookimpl(offer)})


def file_entry_point(kind: str, name: str) -> FileEntryPoint:
    """What stands in for an entry point: the file's name for the distribution, and its hash for the version."""
    file = Path(name).absolute()
    return FileEntryPoint(component_name(file), f"{_module_name(file)}:{kind}", file.name, _digest(file), str(file))


def import_file(file: Path) -> ModuleType:
    """The module of a file, imported once in the state that it has now."""
    name = _module_name(file)
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module: Any = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return sys.modules[name]


def _module_name(file: Path) -> str:
    return f"agentfw_file_{hashlib.sha256(f'{file}:{_digest(file)}'.encode()).hexdigest()[:12]}"


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"can't read {file}: {reason}", fix="give the path of a Python file that is there") from None
