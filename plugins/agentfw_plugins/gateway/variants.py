"""Variants of what a gateway does, each for a share of the users, compared by what these think of the answers.

A variant is another model, a text that is added to the system message, no memory, or a version of the policy. The
gateway as it is is the variant `control`. A user gets the same variant as long as the comparison lasts; a session of
nobody stays with one.

What is compared is the mean of a metric over rated sessions. One may look at the result at any time, and the gateway
does after each session: it ends the comparison by itself when the result is clear. The test is made for that. With as
many rated sessions as were planned, the z-value of a difference wanders like a Brownian motion B(t), t from 0 to 1,
which it is at z * sqrt(t). By the reflection principle, |B| ever passes 2.24 with a probability of 0.05. A confidence
sequence or a mixture test, which need no plan, were simulated beside it (benchmarks/variants.py): they find a
difference of 0.15 within the planned sessions much less often. Sessions of one user are alike, so variances are those
of sums by user (cluster-robust), with the degrees of freedom that the users come to. With several variants, each is
compared with `control`, at the level divided by their number; with `per_team`, for each key of the gateway by itself.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

import click

from agentfw import Episode, Message
from agentfw.errors import RunFolderError, StorageError, UsageError
from agentfw.printing.out import Out
from agentfw.runs import make_folder, read_sessions, write_whole

from ..command_options import gateway_options, json_option, runs_option, show
from ..rewards.measured import Metric, is_feedback

CONTROL, FILE, LEVEL = "control", "variants.json", 0.05
NOTE = "variant"
"""The event of a session that says which variant it gets."""
_LEAST_USERS = 3.0  # of each variant. With fewer, nobody knows how much users differ.
_SHARE = re.compile(r"0?\.\d*[1-9]\d*|1(\.0*)?")


@dataclass(frozen=True, slots=True)
class Variant:
    """What differs from the gateway as it is."""

    name: str = CONTROL
    weight: float = 0.0
    """Its share of the users."""
    model: str = ""
    prompt: str = ""
    remembers: bool = True
    version: str = ""

    def prompted(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """The messages of a conversation, with the text in the system message."""
        first, *others = messages
        if not self.prompt:
            return (first, *others)
        if first.role == "system":
            return (replace(first, content=f"{first.content}\n\n{self.prompt}"), *others)
        return (Message("system", self.prompt), first, *others)


@dataclass(slots=True)
class Comparison:
    variants: list[Variant]
    metric: str = ""
    sessions: int = 300
    """Planned number of rated sessions, of each team with `per_team`."""
    per_team: bool = False
    began: float = field(default_factory=time.time)
    decided: dict[str, str] = field(default_factory=dict)
    """The variant that all get now, by team. The empty name stands for all teams."""

    def team(self, space: str) -> str:
        return space.removesuffix(":") if self.per_team else ""

    def of(self, who: str, space: str) -> Variant:
        """The variant of a user, or of a session of nobody."""
        if not (name := self.decided.get(self.team(space), "")):
            digest = blake2b(f"{self.began} {space}{who}".encode(errors="replace"), digest_size=8).digest()
            drawn = int.from_bytes(digest) / 2**64
            for one in self.variants:
                drawn -= one.weight
                if drawn < 0:
                    return one
        return next((one for one in self.variants if one.name == name), self.variants[0])


class VariantFile:
    """The newest comparison of a directory of runs. Each look sees the file as it is by then."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Comparison | None:
        try:
            values = json.loads(self.path.read_text("utf-8"))
            return Comparison(**{**values, "variants": [Variant(**one) for one in values["variants"]]})
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise StorageError(f"can't read the variants in {self.path}: {error}", fix="move the file away") from error

    def write(self, comparison: Comparison) -> None:
        make_folder(self.path.parent)
        write_whole(self.path, json.dumps(asdict(comparison), indent=2) + "\n", mode=0o600)


def read_variants(texts: Sequence[str]) -> list[Variant]:
    """The variants of a command, with the control in the first place. Those without a weight get equal shares."""
    variants = [_variant(text) for text in texts]
    names = [one.name for one in variants]
    if CONTROL in names or len({*names}) < len(names):
        raise UsageError(f"two variants have the same name, or one is called {CONTROL}", fix="give each its own name")
    given = sum(one.weight for one in variants)
    free = [one for one in variants if not one.weight]
    if given > 1 - 1e-9:  # nobody would get the control, which all are compared with
        raise UsageError(f"the weights come to {given:g}", fix="what is left of 1 is for control and those without one")
    share = (1 - given) / (len(free) + 1)
    weighted = [Variant(**{**asdict(one), "weight": one.weight or share}) for one in variants]
    return [Variant(weight=max(0.0, 1 - sum(one.weight for one in weighted))), *weighted]


def _variant(text: str) -> Variant:
    name, _, settings = text.partition(":")
    values: dict[str, object] = {}
    for setting in filter(None, settings.split(",")):
        key, _, value = setting.partition("=")
        if key == "prompt":
            try:
                values[key] = Path(value).read_text("utf-8-sig").strip()
            except (OSError, UnicodeDecodeError) as error:
                raise UsageError(f"can't read the prompt {value}: {error}", fix="give the path of a text") from None
        elif key == "memory" and value in ("on", "off"):
            values["remembers"] = value == "on"
        elif key == "weight" and _SHARE.fullmatch(value):
            values[key] = float(value)
        elif key in ("model", "version") and value:
            values[key] = value
        else:
            fix = "use model=NAME, prompt=FILE, memory=off, version=vN and weight=0.2, with commas between them"
            raise UsageError(f'"{setting}" says nothing about a variant', fix=fix)
    if not name or not (values.keys() - {"weight"}):
        raise UsageError(f'"{text}" is no variant', fix="write NAME:model=MODEL, or NAME:prompt=FILE")
    return Variant(name, **values)  # type: ignore[arg-type]


class Rated(NamedTuple):
    team: str
    user: str
    variant: str
    value: float


class Result(NamedTuple):
    team: str
    variant: str
    sessions: int
    users: int
    mean: float
    difference: float
    """From the control."""
    z: float
    needed: float
    """The z-value that is clear now."""

    @property
    def clear(self) -> bool:
        return abs(self.z) >= self.needed


def rated_sessions(episodes: Iterable[Episode], comparison: Comparison) -> Iterator[Rated]:
    """The sessions of a comparison that were rated, each by the mean of its ratings."""
    metric = Metric.read(comparison.metric)
    for episode in episodes:
        notes = [one.data for one in episode.events if (one.kind, one.name) == ("session", NOTE)]
        if not notes or notes[-1].get("began") != comparison.began:
            continue
        rated = (one.data for one in episode.events if is_feedback(one, metric.name))
        # The share that is liked, or the number itself.
        is_number = bool(metric.name and not metric.sign)
        newest = {
            one.get("turn"): float(one["value"]) if is_number else (metric.liking(one["value"]) + 1) / 2
            for one in rated
        }
        if newest:
            space, colon, _ = episode.task.query.rpartition(":")
            user = episode.task.user or f"session {episode.task.query}"
            team = comparison.team(f"{space}{colon}")
            yield Rated(team, f"{space}:{user}", notes[-1]["variant"], sum(newest.values()) / len(newest))


def results(rated: Sequence[Rated], comparison: Comparison) -> list[Result]:
    """Each variant beside the control, by team."""
    found = []
    clear = NormalDist().inv_cdf(1 - LEVEL / (4 * max(1, len(comparison.variants) - 1)))
    for team in sorted({one.team for one in rated} or {""}):
        own = [one for one in rated if one.team == team]
        values = [one.value for one in own]
        spread = max(values, default=0.0) - min(values, default=0.0)
        control = _Arm.of((one for one in own if one.variant == CONTROL), spread)
        for variant in comparison.variants:
            arm = _Arm.of((one for one in own if one.variant == variant.name), spread)
            z = 0.0 if variant.name == CONTROL else _z(control, arm)
            done = (control.sessions + arm.sessions) * len(comparison.variants) / 2 / comparison.sessions
            needed = clear / math.sqrt(min(1.0, done)) if done else math.inf
            difference = arm.mean - control.mean
            found.append(Result(team, variant.name, arm.sessions, arm.users, arm.mean, difference, z, needed))
    return found


class _Arm(NamedTuple):
    sessions: int
    users: int
    mean: float
    variance: float
    """Of the mean."""
    effective: float
    """Number of users, as if all had equally many sessions."""

    @classmethod
    def of(cls, rated: Iterable[Rated], spread: float) -> _Arm:
        """`spread` is how far apart values are at most."""
        sums: dict[str, list[float]] = {}
        for one in rated:
            sums.setdefault(one.user, []).append(one.value)
        if not (count := sum(map(len, sums.values()))):
            return cls(0, 0, math.nan, math.inf, 0.0)
        mean = sum(map(sum, sums.values())) / count
        effective = count**2 / sum(len(values) ** 2 for values in sums.values())
        squares = sum((sum(values) - len(values) * mean) ** 2 for values in sums.values())
        variance = squares / count**2 * effective / (effective - 1) if effective > 1 else math.inf
        # Where everybody says the same, it isn't known to be nothing.
        variance = max(variance, (spread / effective) ** 2 / 4)
        return cls(count, len(sums), mean, variance, effective)


def _z(control: _Arm, other: _Arm) -> float:
    """The z-value of the difference of two means: that of a t-value, by Wallace's approximation."""
    variance = control.variance + other.variance
    if min(control.effective, other.effective) < _LEAST_USERS or not 0 < variance < math.inf:
        return 0.0
    t, freedom = (other.mean - control.mean) / math.sqrt(variance), control.effective + other.effective - 2
    z = (8 * freedom + 1) / (8 * freedom + 3) * math.sqrt(freedom * math.log1p(t * t / freedom))
    return math.copysign(z, t)


def decisions(found: Sequence[Result], comparison: Comparison) -> Mapping[str, str]:
    """What is clear now: the variant that all users of a team get from now on, by team."""
    decided = {}
    for team in {one.team for one in found} - comparison.decided.keys():
        own = [one for one in found if one.team == team]
        others = [one for one in own if one.variant != CONTROL]
        better = [one for one in others if one.clear and one.difference > 0]
        done = sum(one.sessions for one in own) >= comparison.sessions
        if better:
            decided[team] = max(better, key=lambda one: one.mean).variant
        elif done or all(one.clear for one in others):
            decided[team] = CONTROL
    return decided


def _compared(file: VariantFile) -> Comparison:
    if (comparison := file.read()) is None:
        raise UsageError("nothing is compared", fix="agentfw serve variants start --variant terse:prompt=FILE")
    return comparison


def sessions_below(runs: Path, since: float) -> Iterator[Episode]:
    """The sessions of all runs of a folder that went on since then."""
    for turns in sorted(runs.glob("*/turns.jsonl")):
        with suppress(RunFolderError, FileNotFoundError):  # it is damaged or deleted; the others are compared
            if turns.stat().st_mtime >= since:
                yield from read_sessions(turns.parent)


def _rated_in(shared: str, since: float) -> Iterator[Episode]:
    from .sessions.session_store import Chosen, SessionJournal

    with closing(SessionJournal(shared)) as journal:
        yield from journal.sessions(Chosen(rated=True, since=since))


@click.group(invoke_without_command=True)
@gateway_options("Sessions that gateways share.")
@click.pass_context
def variants(context: click.Context, runs: Path, shared: str, out: Out) -> None:
    """Compare variants of a gateway, each with a share of the users, or show how a comparison goes."""
    if context.invoked_subcommand is not None:
        return
    file = VariantFile(runs / FILE)
    comparison = _compared(file)
    rated = _rated_in(shared, comparison.began) if shared else sessions_below(file.path.parent, comparison.began)
    found = results(list(rated_sessions(rated, comparison)), comparison)
    if out.json:
        told = [one._asdict() | {"clear": one.clear} for one in found]
        for row in told:  # JSON has no infinity
            row |= {name: None for name, one in row.items() if isinstance(one, float) and not math.isfinite(one)}
        out.data({**asdict(comparison), "results": told})
        return
    weights = {one.name: f"{one.weight:.0%}" for one in comparison.variants}
    rows = []
    for one in found:
        test = ["", "", ""]
        if one.variant != CONTROL and one.sessions:
            test = [f"{one.difference:+.3f}", f"{one.z:+.2f}", f"{one.needed:.2f}{' clear' if one.clear else ''}"]
        mean = f"{one.mean:.3f}" if one.sessions else ""
        served = "*" if comparison.decided.get(one.team, "") == one.variant else ""
        counts = [weights[one.variant], str(one.sessions), str(one.users), mean]
        rows.append([served, one.team, one.variant, *counts, *test])
    columns = ["", "team", "variant", "share", "sessions", "users", comparison.metric or "liked"]
    out.table([*columns, "difference", "z", "clear from"], rows, right=(3, 4, 5, 6, 7, 8))
    for team, name in comparison.decided.items():
        out.line(f"{team or ('those without a key of users' if comparison.per_team else 'all users')} get {name} now")


@variants.command()
@click.option(
    "--variant",
    "texts",
    multiple=True,
    required=True,
    metavar="NAME:KEY=VALUE,...",
    help="Variant, with model=NAME, prompt=FILE, memory=off, version=vN and weight=SHARE. Can be repeated.",
)
@click.option("--metric", default="", metavar="NAME", help="Metric to compare, or a bound of it, such as stars>=4.")
@click.option("--sessions", type=click.IntRange(20), default=300, show_default=True, help="Planned rated sessions.")
@click.option("--per-team", is_flag=True, help="Compare and decide for each key of the gateway by itself.")
@runs_option
@json_option
def start(texts: tuple[str, ...], metric: str, sessions: int, per_team: bool, runs: Path, out: Out) -> None:
    """Begin a comparison. A gateway of this directory of runs follows at once."""
    from .keys import alone_with

    Metric.read(metric)
    comparison = Comparison(read_variants(texts), metric, sessions, per_team)
    with alone_with(runs / FILE):
        VariantFile(runs / FILE).write(comparison)
    shares = ", ".join(f"{one.name} {one.weight:.0%}" for one in comparison.variants)
    show(out, asdict(comparison), f"compared until it is clear, or {sessions} sessions are rated: {shares}")


@variants.command()
@click.option("--serve", "name", default=CONTROL, show_default=True, help="Variant that all users get from now on.")
@runs_option
@json_option
def end(name: str, runs: Path, out: Out) -> None:
    """End a comparison before it is clear."""
    from .keys import alone_with

    file = VariantFile(runs / FILE)
    with alone_with(file.path):
        comparison = _compared(file)
        if name not in [one.name for one in comparison.variants]:
            raise UsageError(f'there is no variant "{name}"', fix="see: agentfw serve variants")
        comparison.per_team, comparison.decided = False, {"": name}
        file.write(comparison)
    show(out, asdict(comparison), f"all users get {name} now")
