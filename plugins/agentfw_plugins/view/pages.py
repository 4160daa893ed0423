"""Makes the pages from their templates. Everything that was recorded is text in them, and never markup.

A page that is served has its style sheet and its script in itself, and a content security policy that allows these two
alone. Tokens are shown as text where the tokenizer of the run's model is on this machine, and elsewhere as ids.

>>> because({"points": {"words": 0.42, "user": 0.13, "time": 0.0}, "path": "found by its words"})
'it has the words of what was asked (+0.42), it is like this user (+0.13)'
>>> because({"rule": "never before nine", "age": 3})
'rule never before nine, age 3'
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from importlib.resources import files
from itertools import takewhile
from typing import Any
from urllib.parse import quote, urlencode

from agentfw import Host
from agentfw.boundary.gate import needing
from agentfw.report import page_policy, page_style, printable
from agentfw.runs import figure_text

from ..models.conversation import pieces
from ..models.locate import locate
from .episode_view import EpisodeView
from .index import Seen
from .rating_queue import Command
from .search import FAILURES, Filter, Row, address, listed_figures
from .waterfall import Step


@lru_cache(maxsize=8)
def _decoder(model: str) -> Callable[[Sequence[int]], str] | None:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(locate(model, download=False) / "tokenizer.json"))
    except Exception:  # the library raises plain ones where it can't read a file
        return None
    # The same few tokens are decoded again and again: a page of twenty turns has ten thousand.
    return lru_cache(maxsize=100_000)(lambda some: str(tokenizer.decode(list(some), skip_special_tokens=False)))


_WORDS = {
    "vectors": "it means what was asked",
    "words": "it has the words of what was asked",
    "user": "it is like this user",
    "community": "it belongs to the user's circle of skills",
    "neighbours": "what stands beside it is like what was asked",
    "owner": "its owner was named",
    "time": "it became true at the time that was named",
    "context": "its scenario or a tool of it was named",
    "fact": "it states the fact that was asked for",
    "complement": "it completes what else was recalled",
    "conflict": "it contradicts what else was recalled",
    "rating": "of how the user rated answers with it",
}
"""What each part of a score of the skill graph means. Other memories may use the same names."""
_LEAST = 0.005  # what adds less isn't a reason
_LONGEST_REASON = 200


def because(why: object) -> str:
    """The reasons, what adds most first."""
    if not isinstance(why, Mapping):
        return ""
    points = why.get("points")
    if isinstance(points, Mapping):
        adds = {str(name): float(value) for name, value in points.items() if isinstance(value, int | float)}
        ordered = sorted((name for name in adds if adds[name] >= _LEAST), key=lambda name: -adds[name])
        if adds:
            named = ", ".join(f"{_WORDS.get(name, name)} ({adds[name]:+.2f})" for name in ordered)
            return named or _value(why.get("path", ""))
    said = {str(name): _value(value) for name, value in why.items() if value and name != "skill"}
    return ", ".join(f"{name} {value}" for name, value in said.items() if value)


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    text = "" if isinstance(value, Mapping) else str(value)
    return text if len(text) <= _LONGEST_REASON else f"{text[:_LONGEST_REASON]}…"


with needing("agentfw view", "web"):
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup


_LOOKS_MARKED = re.compile(r"^ {0,3}(#{1,6} |[-*+] |\d+\. |> |```|\|.*\|)|\*\*\w|`\w", re.M)
_LONGEST = 20_000  # characters of one text that are shown. The record has the rest, and a link to it
_EVENTS = 400  # events that the list of one turn, and the table of an episode, show
_LONG_AGO = 1e9  # seconds since 1970 from which a time is a date, and not that of a world
_STEPS = 300  # steps of the tree of an episode that are shown
_NEAR = 12  # episodes of the same task before and after one that its page lists. A training can have hundreds


class Links:
    """Where a page is, as seen from another. A folder of pages has other addresses, and not all of the pages. Addresses
    are relative, so that they also hold below the prefix of a proxy."""

    is_live = True

    def __init__(self, base: str = ".", *, of_gateway: str = "") -> None:
        """`of_gateway` is the run of the gateway that has the pages."""
        self.base, self.of_gateway = base, of_gateway

    @property
    def home(self) -> str:
        return self.at("/")

    @property
    def talk(self) -> str:
        """Where somebody can talk with the policy of the gateway, and lead the sessions of its run."""
        return self.at("/../") if self.of_gateway else ""

    def at(self, path: str) -> str:
        return f"{self.base}{path}"

    def episode(self, row: Row, turn: int | None = None) -> str:
        return self.at(f"/episode/{quote(address(row))}") + ("" if turn is None else f"#turn-{turn + 1}")

    def run(self, folder: str) -> str:
        return self.at(f"/run/{quote(folder)}")

    def record(self, row: Row) -> str:
        return self.at(f"/record/{quote(address(row))}")

    def pair(self, left: Row, right: Row) -> str:
        sides = {"left": address(left), "right": address(right)}
        return self.at("/pair?") + urlencode(sides, safe="/", quote_via=quote)

    def list(self, **values: str) -> str:
        return self.home + Filter.of(values).address()


_FILES_ONLY = (
    "default-src 'none'; script-src 'self' file:; style-src 'self' file:; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)


class Pages:
    """The templates, filled in."""

    def __init__(self, links: Links, host: Host, started: Sequence[Command] | None = None) -> None:
        """`started` has what the pages have started, if they may."""
        self.links, self.started = links, started
        self.rules = {found.component.name: found.component.summary for found in host.components("reward")}
        """What each reward model rewards, in the words of its plugin."""
        folder = files(__package__)
        self.style = page_style() + folder.joinpath("view.css").read_text("utf-8")
        self.script = folder.joinpath("view.js").read_text("utf-8")
        self.script += files("agentfw.report").joinpath("report.js").read_text("utf-8")  # sorts the tables of a run
        self.policy = page_policy(self.style, self.script, forms="'self'") if links.is_live else _FILES_ONLY
        self._environment = Environment(
            loader=PackageLoader(__package__ or "", "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=_shown,
        )
        self._environment.filters |= {
            "number": _number,
            "figure": lambda value, name="reward": "–" if value is None else figure_text(name, value),
            "event": _in_one_line,
            "because": because,
            "run": _run_label,
            "moment": _moment,
            "as_read": lambda text: Markup(_markdown().render(str(_shown(text)))) if _LOOKS_MARKED.search(text) else "",
            "shell": shlex.quote,
            "thousandths": lambda values: " ".join(f"{value:.3f}" for value in values),
            "given": lambda values: urlencode({name: value for name, value in values.items() if value}, safe="/:"),
        }
        self._environment.globals |= {
            "page": self,
            "longest": _LONGEST,
            "failures": FAILURES,
            "most_moments": _EVENTS,
            "listed": listed_figures,
            "address": address,
        }

    def rule(self, about: Mapping[str, Any], component: str, scored_by: Mapping[str, str]) -> str:
        """The reward model of the run that a component of a score came from, and what that rewards."""
        given = about.get("spec", {}).get("rewards", ())
        names = {str(choice.get("alias") or choice["name"]): str(choice["name"]) for choice in given}
        label = scored_by.get(component, "")
        rule = ("" if label == component else label, self.rules.get(names.get(label, ""), ""))
        return ": ".join(filter(None, rule))

    def episode(
        self,
        view: EpisodeView,
        others: list[Row],
        steps: Sequence[Step] = (),
        *,
        whole: bool = False,
        seen: Seen | None = None,
        trainings: Sequence[str] = (),
    ) -> str:
        """The page of an episode. `trainings` are runs whose policies can answer its questions again."""
        group = [one for one in others if one["place"] == view.row["place"]]
        here = next((at for at, one in enumerate(others) if one["id"] == view.row["id"]), 0)
        near = others[max(0, here - _NEAR) : here + _NEAR]

        def tokens(ids: Sequence[int]) -> Sequence[str]:
            model = str(view.about.get("settings", {}).get("policy", {}).get("model", ""))
            decode = _decoder(model) if model else None
            return [f"{one} " for one in ids] if decode is None else pieces(tuple(ids), decode, ())

        return self.filled(
            "episode.html",
            seen=seen,
            trainings=trainings,
            view=view,
            row=view.row,
            about=view.about,
            steps=steps[:_STEPS],
            left_out=len(steps) - _STEPS,
            dated=bool(steps) and steps[0].start > _LONG_AGO,
            span=(min((one.start for one in steps), default=0.0), max((one.end for one in steps), default=0.0)),
            group=group if len(group) > 1 else [],
            others=[one for one in near if one["place"] != view.row["place"]],
            before=before(view.row, others),
            longest=len(view.raw) + 1 if whole else _LONGEST,
            events_shown=len(view.raw) if whole else _EVENTS,
            tokens=tokens,
        )

    def filled(self, template: str, **values: Any) -> str:
        """A page that shows these values as they are."""
        return str(self._environment.get_template(template).render(links=self.links, **values))


def before(row: Row, others: list[Row]) -> Row | None:
    """What the version before did with the same task: the last episode of it in an earlier stage or run."""
    earlier = list(takewhile(lambda other: other["place"] != row["place"], others))
    same = [other for other in earlier if other["sample"] == row["sample"]]
    return next(iter(same[-1:] or earlier[:1]), None)


def _shown(value: object) -> object:
    """What a template prints. Control characters would otherwise reach the page."""
    if type(value) is not str:
        return "" if value is None else value
    return value if value.isprintable() else printable(value)


def _number(value: float | None) -> str:
    if value is None or value != value:
        return "–"
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.3f}" if abs(value) < 1000 else f"{value:,.0f}"


@lru_cache(maxsize=1)
def _markdown() -> Any:
    """Reads Markdown without HTML, pictures and links: an address is shown as it was written."""
    from markdown_it import MarkdownIt

    reader = MarkdownIt("commonmark", {"html": False, "breaks": True})
    return reader.enable("table").disable(["image", "link", "autolink"])


def _moment(when: object, *, brief: bool = False) -> str:
    """A moment as the clocks here have it. Records have it in seconds, or as ISO 8601. In a column (`brief`), one of
    this year has no year, and one of another year no time."""
    try:
        if isinstance(when, int | float):
            found = datetime.fromtimestamp(when, UTC).astimezone()
        else:
            found = datetime.fromisoformat(str(when)).astimezone()
    except (ValueError, OverflowError, OSError):
        return ""
    if brief:
        return f"{found:%d %b %H:%M}" if found.year == datetime.now().year else f"{found:%d %b %Y}"
    return f"{found:%Y-%m-%d %H:%M:%S}"


def _run_label(name: str) -> str:
    """A run in a list to choose from: what tells it from others comes first, and is never cut off.

    >>> _run_label("2026-11-21-inbox-7f3a")
    'inbox-7f3a, 2026-11-21'
    """
    return re.sub(r"^(\d{4}-\d\d-\d\d)-(.+)$", r"\2, \1", name)


def _in_one_line(data: Mapping[str, Any]) -> str:
    """What an event says."""
    left_out = "text", "id", "call", "holds"
    rest = {name: value for name, value in data.items() if name not in left_out and value not in (None, "")}
    return str(data.get("text") or ", ".join(f"{name}: {value}" for name, value in rest.items()))
