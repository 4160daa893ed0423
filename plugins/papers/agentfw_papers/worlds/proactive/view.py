"""The page that `agentfw view` has for a run of this world: predictions turn by turn, in one self-contained HTML file.

The figures and tables are plain HTML and can be read with scripting off. The grid of a dialogue is drawn by the page's
own script from data that the page holds. The content security policy allows this script and this style sheet alone, by
their hashes, and no text of a model ever becomes markup.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

from agentfw import Host
from agentfw.errors import UsageError
from agentfw.report import web_page
from agentfw.report.statistics import Interval, bootstrap
from agentfw.runs import RunFolder

from .environment import Proactive
from .view_data import Dialogues, Stage, collect

_FIGURES = {
    **Proactive.columns,
    "difference": "difference",
    "late": "late",
    "ready": "ready a turn",
    "ic": "IC",
    "asked_missing": "asks for what is missing",
    "ad": "AD",
    "reward": "reward",
}
_WHERE_EXPECTED = {name: _FIGURES[name] for name in ("ac", "max_ac", "pt", "ftr", "rar", "late", "silent", "ready")}
_MOST = 60
"""Dialogues that the page can open. More would make it too large to send."""
_COLUMNS = ("balance", "ac", "max_ac", "pt", "ftr", "rar")


def view_page(folder: RunFolder, host: Host, episode: str = "", *, most: int = _MOST) -> str:
    """The page of a run. `episode` is a dialogue or an episode to begin with."""
    found = collect(folder, host)
    last = found.stages[-1]
    ordered = sorted(found.examples, key=lambda name: (found.figures(name, last).get("balance", 0.0), name))
    shown = _chosen(ordered, last, episode, most)
    extremes = dict(zip(("worst", "middle", "best"), _spread(ordered, 3), strict=False))
    data: dict[str, Any] = {
        "dialogues": [found.details(name) for name in dict.fromkeys([*shown, *extremes.values()])],
        "stages": [stage.label for stage in found.stages],
        "extremes": list(extremes.items()),
        "names": _FIGURES,
    }
    parts = {
        "TITLE": _text(f"{folder.id}"),
        "SUBTITLE": _text(_subtitle(folder, found)),
        "NOTICES": "".join(f"<p class=notice>{_text(one)}</p>" for one in found.notices),
        "FIGURES": _figures(found.stages) + _legend(found) + _ready(last),
        "DIALOGUES": _dialogues(found, last, {one["id"] for one in data["dialogues"]}),
        "FILTERS": _filters(found),
        # Without `<`, no text can end the script element that holds it.
        "DATA": json.dumps(data, separators=(",", ":")).replace("<", "\\u003c"),
    }
    page = files(__package__).joinpath("view.html").read_text("utf-8")
    return web_page(re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], page)).html


def _subtitle(folder: RunFolder, found: Dialogues) -> str:
    spec = folder.about["spec"]
    unit = "whole dialogues" if found.environment.settings.unit == "dialogue" else "single turns"
    episodes = sum(len(stage.outcomes) for stage in found.stages)
    return (
        f"{found.environment.catalog.name}, policy {spec['policy']['name']}, {episodes} episodes of {unit} from"
        f" {len(found.examples)} dialogues"
    )


def _chosen(ordered: Sequence[str], stage: Stage, episode: str, most: int) -> list[str]:
    """The dialogues that can be opened: the one asked for first, then some from the worst to the best."""
    wanted = next(
        (name for name, rows in stage.by_dialogue.items() for one, _ in rows if episode in (name, one.id)), None
    )
    if episode and wanted is None:
        raise UsageError(f'there is no episode or dialogue "{episode}"', fix="choose one of the table")
    chosen = _spread(ordered, most)
    return list(dict.fromkeys([wanted, *chosen] if wanted else chosen))


def _spread(ordered: Sequence[str], count: int) -> list[str]:
    """So many dialogues at even distances, with the first and the last."""
    count = min(count, len(ordered))
    return [ordered[round(place * (len(ordered) - 1) / max(1, count - 1))] for place in range(count)]


def _figures(stages: Sequence[Stage]) -> str:
    """The figures of each stage with their intervals, as a run's table has them; then where an action is expected."""
    every = _by_stage(stages, [stage.outcomes for stage in stages], _FIGURES)
    if not any(stage.expected for stage in stages):
        return every
    expected = _by_stage(stages, [stage.expected for stage in stages], _WHERE_EXPECTED)
    return f"{every}<h3>At turns where the reference expects an action</h3>{expected}"


def _by_stage(
    stages: Sequence[Stage], outcomes: Sequence[Sequence[Mapping[str, float]]], names: Mapping[str, str]
) -> str:
    rows = []
    for name, label in names.items():
        cells = [_interval(_estimate(stage, name, found)) for stage, found in zip(stages, outcomes, strict=True)]
        if any(cell != "–" for cell in cells):
            rows.append(f"<tr><th scope=row>{label}</th>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    head = "".join(f"<th scope=col>{_text(stage.label or 'mean, with 95% interval')}</th>" for stage in stages)
    return _table(f"<tr><th></th>{head}</tr>", rows)


def _estimate(stage: Stage, name: str, outcomes: Sequence[Mapping[str, float]]) -> Interval | None:
    if name == "reward":
        values = [float(record["reward"]) for rows in stage.by_dialogue.values() for _, record in rows]
    else:
        values = [outcome.get(name, math.nan) for outcome in outcomes]
    return None if not values or all(map(math.isnan, values)) else bootstrap(values)


def _legend(found: Dialogues) -> str:
    """What the short names of the figures stand for."""
    said = "; ".join(
        f"<strong>{_text(word)}</strong>: {_text(meaning)}" for word, meaning in found.environment.meanings.items()
    )
    return f"<p><small>{said}</small></p>"


def _ready(stage: Stage) -> str:
    """How many ready actions are predicted at a turn."""
    counts = Counter(
        int(measure.value)
        for rows in stage.by_dialogue.values()
        for episode, _ in rows
        for measure in episode.measures
        if measure.name == "ready"
    )
    if not counts:
        return ""
    total = counts.total()
    rows = [
        f"<tr><th scope=row>{count}</th><td>{counts[count]:,}</td><td>{counts[count] / total:.0%}</td>"
        f"<td><meter min=0 max={total} value={counts[count]}></meter></td></tr>"
        for count in range(max(counts) + 1)
    ]
    head = "<tr><th scope=col>ready actions</th><th scope=col>turns</th><th scope=col>share</th><th></th></tr>"
    return "<h2>Ready actions per turn</h2>" + _table(head, rows)


def _dialogues(found: Dialogues, stage: Stage, opened: Collection[str]) -> str:
    rows = []
    for name, example in found.examples.items():
        figures = found.figures(name, stage)
        cells = "".join(
            f"<td data-figure={one} data-value={figures[one]:.6f}>{figures[one]:.2f}</td>"
            if one in figures
            else f"<td data-figure={one}>–</td>"
            for one in _COLUMNS
        )
        actions = " ".join(example.annotation.windows)
        title = _text(name)
        link = f"<button type=button data-open='{title}'>{title}</button>" if name in opened else title
        flow = _text(example.dialogue.flow)
        rows.append(
            f"<tr data-flow='{flow}' data-actions='{_text(actions)}'><th scope=row>{link}</th><td>{flow}</td>"
            f"<td data-value={len(example.dialogue.turns)}>{len(example.dialogue.turns)}</td>{cells}</tr>"
        )
    names = ["dialogue", "flow", "turns", *(_FIGURES[one] for one in _COLUMNS)]
    head = "".join(f"<th scope=col><button type=button data-sort>{name}</button></th>" for name in names)
    return _table(f"<tr>{head}</tr>", rows, name="dialogues")


def _filters(found: Dialogues) -> str:
    flows = sorted({one.dialogue.flow for one in found.examples.values() if one.dialogue.flow})
    actions = sorted({name for one in found.examples.values() for name in one.annotation.windows})
    chosen = {one: _FIGURES[one] for one in _COLUMNS}
    return (
        _select("flow", "Flow", {one: one for one in flows})
        + _select("action", "Action", {one: one for one in actions})
        + _select("figure", "Figure", chosen)
        + "<label>from <input id=from type=number step=0.05></label>"
        + "<label>to <input id=to type=number step=0.05></label>"
    )


def _select(name: str, label: str, options: Mapping[str, str]) -> str:
    listed = "".join(f"<option value='{_text(value)}'>{_text(text)}</option>" for value, text in options.items())
    return f"<label>{label} <select id={name}><option value=''>all</option>{listed}</select></label>"


def _table(head: str, rows: Sequence[str], name: str = "") -> str:
    own = f" id={name}" if name else ""
    body = f"<thead>{head}</thead><tbody>{''.join(rows)}</tbody>"
    return f"<div class='scroll{'' if name else ' narrow'}' tabindex=0><table{own}>{body}</table></div>"


def _interval(found: Interval | None) -> str:
    if found is None:
        return "–"
    bounds = "" if math.isnan(found.low) else f" <small>{found.low:.3f} to {found.high:.3f}</small>"
    return f"{found.estimate:.3f}{bounds}"


def _text(text: Any) -> str:
    return escape(str(text), quote=True)
