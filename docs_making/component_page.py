"""The pages reference/components/KIND.md: every component of a kind that a distribution brings, with its settings.

Settings that several components share are listed once, in a section of their own. A setting is written with its default
as `--set` takes it.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from agentfw.host import Host, Registered
from agentfw.runs.spec.schema import value_type

_SHOWN = ("boolean", "text", "list", "table")
_ROWS_SAVED_AT_LEAST = 5


class Setting(NamedTuple):
    """What the page says of a setting, except for its default."""

    name: str
    kind: str
    meaning: str


def component_page(host: Host, kind: str, distribution: str) -> str:
    """One kind as Markdown: a table of its components, then the settings of each. Empty where there are none."""
    offers = host.components(kind)
    if not offers:
        return ""
    plural = "policies" if kind == "policy" else "memories" if kind == "memory" else f"{kind}s"
    settings = {offer.component.name: _settings(host, offer) for offer in offers}
    shared = _shared(settings)
    lines = [
        f"# {'Built-in ' + plural if distribution == 'agentfw' else plural.capitalize()}",
        "",
        f"The {plural} that ship with {distribution}. Those without a link have no settings. The default of a "
        "setting stands behind its name.",
        "",
    ]
    sections: list[str] = []
    for names, common in shared.items():
        sections += ["", f"## {_title(names)}", ""]
        sections += [_row(one, *_defaults({name: settings[name][one] for name in names})) for one in common]
    for offer in offers:
        name, extra = offer.component.name, offer.component.extra
        body = [f"Requires the extra `{extra}`.", ""] if extra else []
        body += _own(name, settings[name], shared)
        lines.append(f"- {f'[`{name}`](#{name})' if body else f'`{name}`'}: {offer.component.summary}")
        sections += ["", f"## {name}", "", *body[:-1]] if body else []
    return "\n".join([*lines, *sections]) + "\n"


def _settings(host: Host, offer: Registered) -> dict[Setting, str]:
    """Each setting with its default."""
    model = host.settings_model(offer.kind, offer.component.name)
    if model is None:
        return {}
    schema = model.model_json_schema(by_alias=False)
    found = {}
    for name, field in model.model_fields.items():
        kind = value_type(schema["properties"][name], schema.get("$defs", {}))
        default = "" if field.is_required() else _default(field.get_default(call_default_factory=True))
        kind = f"{kind}, required" if field.is_required() else kind
        found[Setting(name, kind, " ".join((field.description or "").split()))] = default
    return found


def _shared(settings: Mapping[str, Mapping[Setting, str]]) -> dict[tuple[str, ...], list[Setting]]:
    """The settings that the same components have in common, by the names of these components."""
    owners: dict[Setting, list[str]] = defaultdict(list)
    for name, found in settings.items():
        for one in found:
            owners[one].append(name)
    groups: dict[tuple[str, ...], list[Setting]] = defaultdict(list)
    for one, names in owners.items():
        if len(names) > 1:
            groups[tuple(names)].append(one)
    return {names: common for names, common in groups.items() if len(common) * (len(names) - 1) >= _ROWS_SAVED_AT_LEAST}


def _own(name: str, settings: Mapping[Setting, str], shared: Mapping[tuple[str, ...], Sequence[Setting]]) -> list[str]:
    """The settings that only this component has, and links to the others."""
    links: list[str] = []
    elsewhere: set[Setting] = set()
    for names, common in shared.items():
        if name in names:
            title = _title(names)
            anchor = title.lower().replace(" ", "-").replace(",", "")
            links.append(f"[{'these' if links else 'shared settings'}](#{anchor})")
            elsewhere.update(common)
    also = [f"Also the {' and '.join(links)}.", ""] if links else []
    rows = [_row(one, default) for one, default in settings.items() if one not in elsewhere]
    return [*also, *rows, *([""] if rows else [])]


def _title(names: Sequence[str]) -> str:
    return f"Shared by {_and(names)}"


def _row(setting: Setting, default: str, others: str = "") -> str:
    kind = _beside_default(setting.kind) if default else setting.kind.removesuffix(" or none")
    name = f"{setting.name}={default}" if default else setting.name
    return f"- `{name}`{others}{f' ({kind})' if kind else ''}: {setting.meaning}"


def _beside_default(kind: str) -> str:
    """The type without the words that a default shows: that it is a number, a text, a list."""
    rest = re.sub("^(integer|number),? ?", "", kind)
    return "" if rest in _SHOWN else rest


def _defaults(by_name: Mapping[str, str]) -> tuple[str, str]:
    """The commonest default, and the others with the components that have them."""
    commonest, *others = [default for default, _ in Counter(by_name.values()).most_common()]
    named = [f", `{one}` in {_and([name for name in by_name if by_name[name] == one])}" for one in others]
    return commonest, "".join(named)


def _default(value: object) -> str:
    """As `--set` takes it; empty for none."""
    if value is None or value == "" or value == () or value == {}:
        return ""
    if hasattr(value, "model_dump"):
        value = value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key} = {_value(one)}' for key, one in value.items() if one != {})}}}"
    return value if isinstance(value, str) else _value(value)


def _value(value: object) -> str:
    """In TOML."""
    if hasattr(value, "model_dump") or isinstance(value, Mapping):
        return _default(value)
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_value, value))}]"
    return json.dumps(value)


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
