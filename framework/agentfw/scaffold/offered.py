"""Writes a new plugin from a template that a plugin offers.

A template is a folder. Each of its files becomes a file of the new package: one that ends in `.tmpl` loses that ending,
and its placeholders are filled in (`$package`, `$component`, `$distribution`, `$agentfw`; `$$` is a dollar sign). All
other files are copied. A folder or file may be named `{package}` or `{component}`.

    paths = scaffold_from(host.find_template("fastapi-tool"), "agentfw-tea", Path("."), host)
"""

from __future__ import annotations

from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from ..errors import PluginError
from .names import check_name
from .write import SUFFIX, values_for, write

if TYPE_CHECKING:
    from ..hookspecs import NamedTemplate
    from ..host import Host
    from ..host.plugin_answers import Offered

__all__ = ["scaffold_from"]


def scaffold_from(offer: Offered[NamedTemplate], name: str, folder: Path, host: Host) -> list[Path]:
    """Write a plugin made of a template into a new folder below `folder`. Returns the written paths."""
    names = check_name(name, "", host)
    values, source = values_for(names), Path(offer.item.path)
    texts: dict[str, str] = {}
    for file in sorted(source.rglob("*")):
        if not file.is_file() or "__pycache__" in file.parts:
            continue
        place = file.relative_to(source).as_posix()
        try:
            text = file.read_text(encoding="utf-8")
            text = Template(text).substitute(values) if place.endswith(SUFFIX) else text
        except KeyError as error:
            raise _unusable(offer, place, f"has the placeholder ${error.args[0]}, which there is not", values) from None
        except (OSError, ValueError) as error:
            raise _unusable(offer, place, f"can't be used: {error}", values) from None
        for key in ("package", "component"):
            place = place.replace(f"{{{key}}}", values[key])
        texts[place.removesuffix(SUFFIX)] = text
    if "pyproject.toml" not in texts:
        raise _unusable(offer, "pyproject.toml.tmpl", "is missing", values)
    return write(texts, folder / names.distribution)


def _unusable(offer: Offered[NamedTemplate], place: str, why: str, values: dict[str, str]) -> PluginError:
    known = ", ".join(f"${key}" for key in values)
    return PluginError(
        f'{place} of the template "{offer.item.name}" of {offer.record.title} {why}',
        fix=f"tell the authors of {offer.record.distribution}; a template can use {known}, and $$ for a dollar sign",
    )
