"""Writes the report of a run: report.html, one self-contained page, and curve.svg.

It uses only the run folder, so it can be written again at any time, also during the run.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...episode import Episode, Usage
from ...printing.out import counted
from ...report import Page
from ...report.html import Cell, Number
from ...report.statistics import Interval, bootstrap
from ..records.call_record import call_table, read_calls
from ..records.figure_table import EPISODE_FIGURES, figure_text, figure_title, figures_of, in_order
from ..records.folder import RunFolder
from ..records.journal import write_whole
from ..records.play_records import reasons
from ..records.summary import WHY_NO_LEARNING, Summary, beside, change, columns, intervals, leading, nothing_learned
from ..spec.run_spec import label_of_name
from .run_charts import best_player, curve, phases_table, timeline_picture, transcript, update_charts, updates_table

_GROUPS = 4  # maximum number of groups of which episodes are shown in full: the worst, the median and the best of each
_LONGEST = 60_000  # maximum number of characters of a transcript. A command shows the rest
_SAMPLED = 100  # maximum number of updates whose answers are shown; updates.jsonl has those of all
_ROWS = 1000  # maximum number of episodes in the table. More would make the page slow

_Records = Sequence[Mapping[str, Any]]


def write_report(folder: RunFolder) -> list[Path]:
    """Write report.html and curve.svg. Returns both paths."""
    records = folder.metrics()
    if not records:
        raise folder.without_episodes()
    files = {"report.html": _page(folder, records).render(), "curve.svg": curve(folder).to_svg()}
    for name, data in files.items():
        write_whole(folder.path / name, data)
    return [folder.path / name for name in files]


def run_results(folder: RunFolder) -> Page:
    """The first part of the report: what came of the run so far, in figures, curves and tables."""
    spec: Mapping[str, Any] = folder.about["spec"]
    records, lines, stages = folder.metrics(), folder.updates(), folder.stages()
    title = f"{spec['environment']['name']}, {spec['policy']['name']}"
    title += f" by {spec['optimizer']['name']}" if folder.planned_updates else ""
    page = Page(title, subtitle=f"{folder.id}, {folder.how_far}")
    for note in training_notes(lines):
        page.paragraph(note)
    if not records:
        return page
    summary = folder.summary()
    player = best_player(folder)
    beyond = f"the best simple player, {player[0]}: {player[1]:.3f}" if player else ""
    cards = _cards_of_training(folder, stages, lines, beyond) if folder.planned_updates and stages else []
    page.highlights([*(cards or _cards(folder, records, beyond)), *(_cards_of_usage(summary) if summary else [])])
    # Say it at the top where updates have taught nothing, because the curves look like those of any training.
    if why := [words for words in map(nothing_learned, lines) if words]:
        named = "; ".join(dict.fromkeys(why))
        page.paragraph(f"{len(why)} of {counted(len(lines), 'update')}: {named}. {WHY_NO_LEARNING}")
    page.figure(curve(folder))
    if len(stages) > 1:
        _figures_by_stage(page, folder, stages)
    else:
        _figures(page, folder, records)
    _beside(page, folder, summary)
    if lines:
        intro = "Figures of the episodes that were learned from, and of the learner."
        # In a training whose updates have a single step each, no clipping setting has an effect.
        known = [line["learner"]["on_policy"] for line in lines if "on_policy" in line["learner"]]
        page.section("During training", f"{intro} On policy: no clipping took part." if known and all(known) else intro)
        for chart in update_charts(lines):
            page.figure(chart)
        page.table(*phases_table(lines))
    return page


def _page(folder: RunFolder, records: _Records) -> Page:
    page, lines = run_results(folder), folder.updates()
    if sampled := [line for line in lines if line.get("samples")][-_SAMPLED:]:
        intro = f"The best, the median and the worst of each of the last {len(sampled)} updates."
        page.section("Sampled answers", intro)
        for line in reversed(sampled):
            said = [
                f"{each['which']}, reward {each['reward']:.3g}, episode {each['episode']}\n{each['answer']}"
                for each in line["samples"]
            ]
            note = f"reward {figure_text('reward', line['rollouts'].get('reward', math.nan))}"
            page.details(f"Update {line['update']}", "\n\n".join(said), note=note)
    if left_out := reasons(folder.failed()):
        page.section("Left out", "Episodes that failed. They are in no figure of this report.")
        page.table(["episodes", "reason"], [[count, reason] for reason, count in left_out.items()])
    ids = [name for group in _groups(records) for name in _spread(group)]
    chosen = {episode.id: episode for episode in folder.episodes() if episode.id in ids}
    if shown := [chosen[name] for name in ids if name in chosen]:
        _single_episodes(page, folder, records, shown)
    page.section("What each part did")
    page.facts(list(what_each_did(folder).items()))
    heads, rows = call_table(read_calls(folder.path))
    if rows:
        intro = "How often each component was asked and failed, and its time. That of calls side by side is added up."
        page.section("Calls", intro)
        page.table(heads, [[name, *map(_numeral, rest)] for name, *rest in rows])
    # The settings, and the origin of every component.
    page.section("Settings")
    settings = {"spec": folder.about["spec"], "settings": folder.about.get("settings", {})}
    page.details("Settings", json.dumps(settings, indent=2, ensure_ascii=False))
    facts = [("made", str(folder.about.get("created", ""))[:19].replace("T", " "))]
    facts += [("agentfw", folder.about.get("agentfw", "")), ("Python", folder.about.get("python", ""))]
    page.facts([(str(key), str(value)) for key, value in (*facts, *folder.about.get("components", {}).items())])
    for line in folder.segments:
        page.paragraph(f"Resumed {line}")
    # The tables come last, because they are the longest.
    if lines:
        page.section("Updates", "All metrics of each are in updates.jsonl.")
        page.table(*updates_table(lines))
    _episodes(page, folder, records, leading(columns(records), folder.headline))
    return page


def _cards(folder: RunFolder, records: _Records, beyond: str) -> list[tuple[str, str, str]]:
    figures = intervals(records)
    headline = leading(figures, folder.headline)
    shown = [headline, *(name for name in ("utility", "reward") if name != headline)][:2]
    left_out = len(folder.failed())
    cards = [("failed", f"{left_out:,}", "in no other figure")] if left_out else []
    for name in filter(figures.__contains__, shown):
        note = _range(figures[name], beyond if name == folder.headline else "")
        cards.append((figure_title(name, folder), figure_text(name, figures[name].estimate), note))
    turns, failures = (sum(int(record[name]) for record in records) for name in ("turns", "failures"))
    cards.append(("turns", f"{turns:,}", f"{turns / len(records):.0f} an episode"))
    cards.append(("not understood", f"{failures:,}", "answers that were no valid action"))
    calls, failed = (sum(int(record.get(f"tool_{name}", 0)) for record in records) for name in ("calls", "failures"))
    if calls:
        cards.append(("tool calls", f"{calls:,}", f"{1 - failed / calls:.0%} were carried out"))
    return cards


def _cards_of_training(
    folder: RunFolder, stages: Mapping[int, _Records], lines: Sequence[Mapping[str, Any]], beyond: str
) -> list[tuple[str, str, str]]:
    found = [intervals(records) for records in stages.values()]
    name = leading(found[0].keys() & found[-1].keys(), folder.headline)
    cards = []
    if name in found[0]:
        cards.append((f"{name} before", f"{found[0][name].estimate:.3f}", _range(found[0][name])))
    if len(found) > 1 and name in found[-1]:
        note = _range(found[-1][name], beyond if name == folder.headline else "")
        cards.append((f"{name} now", f"{found[-1][name].estimate:.3f}", note))
    if (difference := change(folder)) is not None:
        note = f"{_range(difference.difference)}, {difference.chance}"
        cards.append(("change", f"{difference.difference.estimate:+.3f}", note))
    tokens = sum(int(line["rollouts"]["tokens"]) for line in lines)
    # With staleness the policy plays meanwhile, and the learner waits for it.
    clocks = [line["seconds"] for line in lines]
    seconds = sum(sum(each.values()) - (each["play"] if "wait" in each else 0.0) for each in clocks)
    minutes, rest = divmod(round(seconds), 60)
    took = f"{minutes} min {rest} s" if minutes else f"{rest} s"
    cards.append(("tokens to learn from", f"{tokens:,}", f"{counted(len(lines), 'update')}, {took}"))
    return cards


def _cards_of_usage(summary: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """The tokens of the policy and of the judge, and what they cost. Programs have none."""
    cards = []
    for of, key in (("", "usage"), ("judge, ", "judged")):
        usage = Usage(**summary[key])
        if usage.tokens is None and usage.cost is None:
            cards.append((f"{of}prompt tokens", "unknown", "not reported by the server, so their cost is unknown"))
        elif usage.prompt:
            sampled = "" if usage.sampled is None else f"{usage.sampled:,} sampled"
            cached = "" if usage.cached is None else f"{usage.cached:,} from a cache"
            cards.append((f"{of}prompt tokens", f"{usage.prompt:,}", ", ".join(filter(None, (cached, sampled)))))
            if usage.cost is None:
                cards.append((f"{of}cost", "unknown", "its price is not set"))
            elif usage.cost:
                cards.append((f"{of}cost", f"{usage.cost:.4g}", "in the currency of its price"))
    return cards


def _figures(page: Page, folder: RunFolder, records: _Records) -> None:
    values = columns(records)
    figures = {name: bootstrap(some) for name, some in values.items()}
    names = in_order(figures, folder.headline)
    if len(records) == 1:
        page.section("Figures", f"Of one episode, so without an interval.{_meanings(folder, names)}")
        rows = [[figure_title(name, folder), _number(name, figures[name].estimate)] for name in names]
        page.table(["figure", "value"], rows)
        return
    page.section("Figures", f"The mean over episodes with its 95% interval.{_meanings(folder, names)}")
    alike: dict[tuple[float, ...], list[str]] = {}
    for name in names:
        alike.setdefault(tuple(values[name]), []).append(name)
    rows = []
    for some, (name, *others) in alike.items():
        title = " = ".join(figure_title(each, folder) for each in (name, *others))
        known = [value for value in some if not math.isnan(value)]
        rows.append([title, *_bounds(name, figures), _number(name, min(known)), _number(name, max(known))])
    page.table(["figure", "mean", "from", "to", "least", "most"], rows)


def _figures_by_stage(page: Page, folder: RunFolder, stages: Mapping[int, _Records]) -> None:
    first, last = min(stages), max(stages)
    figures = {number: intervals(stages[number]) for number in (first, last)}
    intro = "The mean over held-out episodes with its 95% interval."
    page.section("Figures", intro + _meanings(folder, figures[last]))
    heads = ["figure", *(head for number in figures for head in (f"after {number}", "from", "to"))]
    rows = [
        [figure_title(name, folder), *(cell for some in figures.values() for cell in _bounds(name, some))]
        for name in in_order(figures[last], folder.headline)
    ]
    page.table(heads, rows)


def _beside(page: Page, folder: RunFolder, record: Mapping[str, Any] | None) -> None:
    """Results of simple players in the same episodes, once the run is done."""
    summary = Summary.from_record(record) if record else None
    if summary is None or not summary.references:
        return
    headline, players = folder.headline, beside(summary, folder)
    # A short run has no figure for later rounds.
    measured = {name for _, figures in players for name in figures} - {headline}
    others = {name: title for name, title in folder.columns.items() if name in measured}
    page.section("Compared with simple players", "Means over the same episodes. Intervals belong to the first column.")
    rows = [
        [who, *_bounds(headline, figures), *(_bounds(name, figures)[0] for name in others)] for who, figures in players
    ]
    page.table(["", headline, "from", "to", *others.values()], rows)


def _numeral(text: str) -> Cell:
    """A number that was written as a text, with its unit."""
    digits = text.replace(",", "").removesuffix(" s")
    return Number(float(digits), text) if digits.replace(".", "").isdigit() else text or None


def _groups(records: _Records) -> Sequence[_Records]:
    """The samples of each task, those whose rewards differ most first. Without several samples, all are one group."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        found.setdefault(str(record["task"]).rpartition("/")[0], []).append(record)
    if len(found) == len(records):
        return [records]
    rewards = {task: [float(record["reward"]) for record in group] for task, group in found.items()}
    order = sorted(found, key=lambda task: max(rewards[task]) - min(rewards[task]), reverse=True)
    return [found[task] for task in order[:_GROUPS]]


def _spread(group: _Records) -> list[str]:
    order = sorted(group, key=lambda record: float(record["reward"]))
    return [str(order[place]["episode"]) for place in sorted({0, len(order) // 2, len(order) - 1})]


def _single_episodes(page: Page, folder: RunFolder, records: _Records, shown: Sequence[Episode]) -> None:
    middle = shown[len(shown) // 2]
    if middle.ended > middle.started:
        intro = "Time runs from left to right. Work that was put aside continues where it stopped."
        page.section("On the timeline", intro)
        page.figure(timeline_picture(middle, title=f"Episode {middle.id}", unit=folder.time_unit))
    notes = ["The episodes with the lowest, the median and the highest reward."] if len(shown) > 1 else []
    if len(shown) > len(_spread(records)):
        notes = ["Of the tasks whose samples differ most: those with the lowest, the median and the highest reward."]
    notes.append(f"Any other: agentfw runs show {folder.id} --episode ID")
    page.section("Transcripts", " ".join(notes))
    for episode in shown:
        record = next(record for record in records if record["episode"] == episode.id)
        rated = "unrated" if record.get("unrated") else f"reward {record['reward']:.3f}"
        note = f"{rated}, {counted(len(episode.turns), 'turn')}"
        text = transcript(episode)
        rest = f"\n\n... the rest: agentfw runs show {folder.id} --episode {episode.id}"
        page.details(f"Episode {episode.id}", text if len(text) <= _LONGEST else text[:_LONGEST] + rest, note=note)


def _episodes(page: Page, folder: RunFolder, records: _Records, headline: str) -> None:
    figures = [figures_of(record, averaged=False) for record in records]
    listed = [name for name, one in EPISODE_FIGURES.items() if one.listed and any(name in some for some in figures)]
    shown = list(dict.fromkeys([headline, *listed]))
    cut = f"The first {_ROWS:,} of {len(records):,}; metrics.jsonl has them all." if len(records) > _ROWS else ""
    page.section("Episodes", cut)
    rows: list[list[Cell]] = []
    for record, some in zip(records[:_ROWS], figures, strict=False):
        cells = [_number(name, some[name]) if name in some else None for name in shown]
        rows.append([str(record["episode"]), str(record["user"]), *cells, str(record["finish"]).replace("_", " ")])
    page.table(["episode", "user", *(figure_title(name, folder) for name in shown), "ended by"], rows)


def _meanings(folder: RunFolder, names: Iterable[str]) -> str:
    usual = {one.heading: one.meaning for name, one in EPISODE_FIGURES.items() if name in names and one.meaning}
    lower = f" The lower the {folder.headline}, the better." if folder.lower_is_better else ""
    return lower + "".join(f" {word}: {meaning}." for word, meaning in {**folder.meanings, **usual}.items())


def _range(interval: Interval, beyond: str = "") -> str:
    """The interval in words, and the best simple player, where it has the same figure."""
    words = f"95%: {interval.low:.3f} to {interval.high:.3f}" if interval.count > 1 else "one episode"
    return f"{words}; {beyond}" if beyond else words


def _number(name: str, value: float) -> Cell:
    """A value of a figure. A bound that isn't known is none."""
    return None if math.isnan(value) else Number(value, figure_text(name, value))


def _bounds(name: str, figures: Mapping[str, Interval]) -> list[Cell]:
    """The mean of a figure and its interval. None of it where it was not measured."""
    if name not in figures:
        return [None] * 3
    return [_number(name, value) for value in (figures[name].estimate, figures[name].low, figures[name].high)]


def what_each_did(folder: RunFolder) -> dict[str, str]:
    """What the memories, tools, rewards and the policy of a run did, in a few words each."""
    spec, records = folder.about["spec"], list(folder.played())
    calls = {(row["kind"], row["name"]): row for row in read_calls(folder.path)}
    turns, called, refused, recalled = (
        sum(int(record.get(name, 0)) for record in records)
        for name in ("turns", "tool_calls", "tool_failures", "recalled")
    )
    policy = counted(turns, "turn")
    if turns and refused >= called > 0:
        policy += f", and all of its {counted(called, 'call')} were refused"
    elif called:
        policy += f", {counted(called, 'call')}, {refused:,} of them refused"
    elif turns and sum(int(record["failures"]) for record in records) >= turns:
        policy += ", and no answer was understood"
    found = {f"policy {label_of_name(spec['policy']['name'])}": policy}
    if memories := [label_of_name(choice["name"]) for choice in spec["memories"]]:
        found[f"memory {' and '.join(memories)}"] = f"recalled in {recalled:,} of {counted(turns, 'turn')}"
    for (kind, name), row in calls.items():
        if kind == "tool":
            found[f"tool {name}"] = f"{counted(row['calls'], 'call')}, {row['failures']:,} failed"
    for name in (label_of_name(choice["name"]) for choice in spec["rewards"]):
        scored = sum(name in record.get("scored_by", {}).values() for record in records)
        found[f"reward {name}"] = f"scored {scored:,} of {counted(len(records), 'episode')}"
    return found


_NOTABLE = 0.01  # share of corrected tokens from which it is told


def training_notes(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a reader of the updates has to know, the most important first."""
    notes = []
    # What the optimizer has said after every update, in its newest words.
    said = [str(line.get("note", "")) for line in lines]
    if said and all(said):
        notes.append(said[-1])
    # Whether the sampler's probabilities were so different that tokens were learned from less, or not at all. Where
    # older versions sampled them, that was asked for.
    shares = [line["learner"]["importance_corrected"] for line in lines if "importance_corrected" in line["learner"]]
    mean = sum(shares) / max(1, len(shares))
    if mean >= _NOTABLE and not any("age" in line["rollouts"] for line in lines):
        notes.append(
            f"{mean:.1%} of the sampled tokens counted less or not at all, because sampler and trainer give them "
            "different probabilities. Let the policy serve what is trained, in the same precision."
        )
    # Whether it is certain that the policy served every version that was learned.
    published = [line["served"] for line in lines if line["served"]]
    checked = [served["proven"] for served in published if "proven" in served]
    if checked and not (len(checked) == len(published) and all(checked)):
        count = f"Only {int(sum(checked))}" if any(checked) else "None"
        notes.append(
            f"{count} of {len(published)} versions could be proven to be served: "
            "the others are closer to the versions before them than rounding allows to tell."
        )
    # Tables and scripts have no tokens to compare, and no other program that could serve something else.
    elif published and not checked and any(line["learner"].get("tokens_trained") for line in lines):
        notes.append("Which versions were served was not verified: the policy or the learner gives no logprobs.")
    return notes
