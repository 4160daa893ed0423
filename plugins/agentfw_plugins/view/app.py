"""Serves the pages on this machine. Nothing is written but the index, and only requests of this host are answered."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from copy import copy
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from agentfw.boundary.gate import needing
from agentfw.errors import AgentfwError, UnknownNameError, UsageError
from agentfw.runs import ComparedFigure, RunFolder, compare_runs, figure_title, run_results

from .annotations import KINDS, Marks, Target, annotate, changed_at, read_annotations
from .difference import Pair, Side, pairs_of, remarkable, turn_pairs
from .episode_view import EpisodeView
from .index import Index, Seen
from .pages import Links, Pages
from .rating_queue import Command, add_task, asking_again, next_unrated, rated_runs, save_filter, saved_filters
from .search import Filter, choices, divided, episode_at, find, of_task, run_at, run_rows, select, stage_rows, trainings
from .waterfall import steps_of

with needing("agentfw view", "web"):
    from markupsafe import Markup
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
    from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from agentfw import Host

_HOSTS = ("localhost", "127.0.0.1")
_RUNS = 12  # runs that the first page lists. The filter has all
_STAGES = 16  # evaluations and rollouts that the page of a run lists, unless all are asked for
_SUGGESTED = 20  # the newest runs among which two are looked for that can be compared
_WITHIN = re.compile(r"[\w.~%-][\w./~%-]*(\?[\w.~%+=&/:-]*)?(#[\w-]*)?|(\?[\w.~%+=&/:-]*)?")
"""An address below these pages."""
_PRIVATE = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}

_Answer = Callable[[Request, Pages, sqlite3.Connection], str | Response]
"""What answers a request: given the pages as seen from its own, and the index."""


class Viewer:
    """The application."""

    def __init__(self, index: Index, host: Host, *, of_gateway: str = "", allow_start: bool = False) -> None:
        """A gateway has these pages one level below its own. `of_gateway` is its run. With `allow_start`, the pages
        start trainings, and ask questions again."""
        self.index, self.host, self.of_gateway = index, host, of_gateway
        self.started = list[Command]() if allow_start else None
        self.pages = Pages(Links(), host, self.started)
        paths = {
            "/": self._episodes,
            "/episode/{name:path}": self._episode,
            "/record/{name:path}": self._record,
            "/pair": self._pair,
            "/runs": self._runs,
            "/rate": self._rate,
            "/run/{name:path}": self._run,
            # Changes when there is something new.
            "/news": lambda request, pages, rows: JSONResponse(self.index.look()),
        }
        self.handlers = {path: self._guarded(answer) for path, answer in paths.items()}
        posted = {"/annotate": self._annotate, "/save": self._save, "/start": self._start}
        self.changes = {path: self._guarded(answer, changes=True) for path, answer in posted.items()}
        """What is posted: pages of this server alone may do so."""
        routes = [Route(path, answer) for path, answer in self.handlers.items()]
        routes += [Route(path, answer, methods=["POST"]) for path, answer in self.changes.items()]
        self.app: ASGIApp = Starlette(routes=[*routes, Route("/{name:path}", self._guarded(self._missing))])

    def _guarded(self, answer: _Answer, *, changes: bool = False) -> Callable[[Request], Awaitable[Response]]:
        async def guarded(request: Request) -> Response:
            # A page elsewhere whose name was made to lead here must not read what is private.
            # A gateway looks at the name itself, as it may have others.
            if not self.of_gateway and request.url.hostname not in _HOSTS:
                return PlainTextResponse("this page is for this machine only", 403)
            if changes:
                # A page of this server posts this, or a program that is no browser.
                if (origin := request.headers.get("origin")) is not None:
                    is_ours = urlsplit(origin).netloc == request.headers.get("host")
                else:
                    is_ours = request.headers.get("sec-fetch-site", "same-origin") == "same-origin"
                if not is_ours:
                    return PlainTextResponse("only the pages of this server may change anything", 403)
                form = parse_qsl((await request.body()).decode("utf-8", "replace"), keep_blank_values=True)
                request.state.form = {name: value.replace("\r\n", "\n") for name, value in form}  # as browsers send it
            depth = request.path_params["name"].count("/") + 1 if "name" in request.path_params else 0
            base = "/".join([".."] * depth) or "."
            pages = copy(self.pages)
            pages.links = Links(base, of_gateway=self.of_gateway)  # as seen from this page

            def answered() -> str | Response:
                with self.index.reading() as rows:
                    return answer(request, pages, rows)

            try:
                found = await asyncio.to_thread(answered)
                found = self._html(found) if isinstance(found, str) else found
            except (AgentfwError, sqlite3.OperationalError) as error:
                message, fix = getattr(error, "message", str(error)), getattr(error, "fix", "change the filter")
                status = 404 if isinstance(error, UnknownNameError) else 400
                told = {"message": message, "fix": fix, "seen": self.index.look(0)}
                found = self._html(pages.filled("problem.html", **told), status)
            found.headers.update(_PRIVATE)
            return found

        return guarded

    def _html(self, page: str, status: int = 200) -> Response:
        policy = {"content-security-policy": f"{self.pages.policy}; frame-ancestors 'none'"}
        return Response(page.encode("utf-8", "replace"), status, policy, "text/html; charset=utf-8")

    # -- pages ---------------------------------------------------------------------------------------------------------

    def _episodes(self, request: Request, pages: Pages, rows: sqlite3.Connection) -> str | Response:
        wanted = Filter.of(request.query_params)
        if "" in request.query_params.values():
            # a form sends its empty fields
            return RedirectResponse(f"{pages.links.home}{wanted.address()}".removesuffix("?"))
        seen, everything = self.index.look(), "runs" in request.query_params
        found, runs = find(rows, wanted), run_rows(rows, -1 if everything else _RUNS + 1)
        for row in found.rows:
            run, place = self.index.run_of(row)
            row["marks"] = read_annotations(run).get((place, row["episode"], None))
        values = {"found": found, "runs": runs, "choices": choices(rows), "seen": seen}
        values |= {"saved": saved_filters(self.index.beside), "most": len(runs) if everything else _RUNS}
        return pages.filled("episodes.html", wanted=wanted, **values)

    def _episode(self, request: Request, pages: Pages, rows: sqlite3.Connection) -> str | Response:
        seen, whole = self.index.look(), "whole" in request.query_params
        view = EpisodeView.read(self.index, episode_at(rows, request.path_params["name"]), rows)
        steps = steps_of(self.index, view, rows, pages.links.episode)
        trained = trainings(rows) if self.started is not None else []
        others = of_task(rows, view.row)
        return pages.episode(view, others, steps, whole=whole, seen=seen, trainings=trained)

    def _record(self, request: Request, pages: Pages, rows: sqlite3.Connection) -> str | Response:
        """The lines of an episode as they are on disk."""
        view = EpisodeView.read(self.index, episode_at(rows, request.path_params["name"]), rows)
        return PlainTextResponse(view.raw.encode("utf-8", "replace"))

    def _run(self, request: Request, pages: Pages, rows: sqlite3.Connection) -> str | Response:
        """What a run is, with which plugins and settings, and what came of it so far."""
        seen = self.index.look()
        run = run_at(rows, request.path_params["name"].strip("/"))
        stages, by = stage_rows(rows, run["id"]), divided(rows, run["id"])
        folder = RunFolder.open(self.index.root / run["folder"])
        parts, results, problem, path = list[_Part](), "", "", folder.path
        try:
            parts = list(_parts(folder.about["spec"], folder.about.get("settings", {}), folder.about["components"]))
            # The files that the results of a run are made of.
            names = ("run.json", "metrics.jsonl", "updates.jsonl", "failed.jsonl", "summary.json")
            files_of = [*(path / name for name in names), *sorted(path.glob("evaluations/*/metrics.jsonl"))]
            results = _results(path, tuple(map(changed_at, files_of)))
        except (AttributeError, KeyError, TypeError, ValueError) as error:  # another version has written other values
            problem = f"{type(error).__name__}: {error}"
        values = {"run": run, "folder": folder, "about": folder.about, "parts": parts, "seen": seen}
        values |= {"results": results, "problem": problem, "stages": stages, "fell": _largest_fall(stages)}
        values |= {"most": len(stages) if "stages" in request.query_params else _STAGES, "divided": by}
        marks = read_annotations(path).get(("", "", None), Marks())
        return pages.filled("run.html", marks=marks, **values)

    def _pair(self, request: Request, pages: Pages, rows: sqlite3.Connection) -> str | Response:
        found = [episode_at(rows, request.query_params.get(name, "")) for name in ("left", "right")]
        left, right = (EpisodeView.read(self.index, row, rows) for row in found)
        return pages.filled("pair.html", left=left, right=right, pairs=turn_pairs(left, right))

    def _runs(self, request: Request, pages: Pages, rows: sqlite3.Connection) -> str | Response:
        seen = self.index.look()
        known = _sides(rows)
        chosen = [request.query_params.get(name, "") for name in ("left", "right")]
        if not all(chosen):
            chosen = _suggested(rows, known, chosen[1] or chosen[0])
        sides = list[Side]()
        for name in chosen:
            if name not in known:
                raise UnknownNameError("run", name, list(known), fix="choose one of the list")
            run, stage, number = known[name]
            played = select(rows, Filter(run=run, stage=f"{stage} {number}" if stage else "run"))
            folder = RunFolder.open(self.index.root / played[0]["run_folder"])
            sides.append(Side(name, folder, number if stage else None, played))
        table, pairs, problem = list[ComparedFigure](), list[Pair](), ""
        figure = request.query_params.get("figure", "")
        if sides:
            try:
                table = compare_runs([side.folder for side in sides], (), [side.evaluation for side in sides])
            except AgentfwError as error:  # sessions in progress, or no episode that ended well
                problem = error.message
            figures = [row.figure for row in table if " after " not in row.figure] or ["reward"]
            figure = figure if figure in figures else figures[0]
            pairs = pairs_of(sides[0], sides[1], figure)
        better = next((row.better for row in table if row.figure == figure), "")
        titles = {row.figure: figure_title(row.figure, sides[0].folder) for row in table}
        values = {"sides": sides, "table": table, "titles": titles, "figure": figure, "better": better, "pairs": pairs}
        values |= {"first": remarkable(pairs, better), "problem": problem, "choices": known, "seen": seen}
        return pages.filled("runs.html", **values)

    def _rate(self, request: Request, pages: Pages, rows: sqlite3.Connection) -> str | Response:
        """The next answer that nobody has rated, among those of the filter, or one that is named."""
        asked, wanted = request.query_params.get, Filter.of(request.query_params)
        seen = self.index.look()
        at = asked("at", "") or next_unrated(self.index, rows, wanted, asked("after", ""))
        view = turn = None
        if at:
            name, _, number = at.rpartition(":")
            view = EpisodeView.read(self.index, episode_at(rows, name), rows)
            turn = int(number) if number.isdecimal() and int(number) < len(view.turns) else 0
        done = rated_runs(self.index, rows, wanted.run)
        values = {"turn": turn, "wanted": wanted, "at": at, "before": asked("before", ""), "rated": done, "seen": seen}
        return pages.filled("rate.html", view=view, **values)

    def _annotate(self, request: Request, pages: Pages, rows: sqlite3.Connection) -> str | Response:
        """Write what somebody thinks of an episode or one of its turns, and go on with the page that `back` names."""
        form = request.state.form
        if self.index.beside != self.index.root:  # of sessions that gateways share, there is a copy here
            words = "what is said on these pages isn't kept with shared sessions"
            raise UsageError(words, fix="rate their answers: agentfw feedback SESSION")
        if form.get("episode"):
            row, turn = episode_at(rows, form["episode"]), form.get("turn", "")
            run, place = self.index.run_of(row)
            target = Target(place, row["episode"], int(turn) if turn.isdecimal() else None, row["user"] or "")
        else:
            run = self.index.root / run_at(rows, form.get("run", ""))["folder"]
            target = Target("", "", None, "")
        now = read_annotations(run).get(target[:3], Marks())
        for kind in KINDS:
            # A form sends all of its fields, also those that say nothing new.
            if kind in form and form[kind] != getattr(now, kind, ""):
                annotate(run, target, kind, form[kind])
        return self._back(request, pages)

    def _save(self, request: Request, pages: Pages, rows: sqlite3.Connection) -> str | Response:
        """Keep a filter by a name, or add a question to the set of tasks."""
        form = request.state.form
        if form.get("task"):
            view = EpisodeView.read(self.index, episode_at(rows, form["task"]), rows)
            add_task(self.index.beside, view, int(form.get("turn") or 0))
        else:
            save_filter(self.index.beside, form.get("name", ""), form.get("filter", ""))
        return self._back(request, pages)

    def _start(self, request: Request, pages: Pages, rows: sqlite3.Connection) -> str | Response:
        """Train on what is rated in a run, or ask the questions of a session again."""
        form = request.state.form
        if self.started is None:
            raise UsageError("these pages may start nothing", fix="allow it: agentfw view --allow-start")
        words = ["train", "--from", form.get("train", ""), "--model", form.get("model", "")]
        leads_to = "/run/{run}"
        if form.get("ask"):
            row = episode_at(rows, form["ask"])
            sides = urlencode({"left": form["ask"], "right": ""}, safe="/")
            words, leads_to = asking_again(row, form), f"/pair?{sides}{{run}}/{row['episode']}"
        self.started.append(Command(words, self.index, leads_to, form.get("prompt", "")))
        return self._back(request, pages)

    def _back(self, request: Request, pages: Pages) -> Response:
        back = request.state.form.get("back", "")
        return RedirectResponse(pages.links.at(f"/{back}" if _WITHIN.fullmatch(back) else "/"), 303)

    def _missing(self, request: Request, pages: Pages, rows: sqlite3.Connection) -> str | Response:
        message, fix = f'there is no page "{request.path_params["name"]}"', "go back to the list of episodes"
        page = pages.filled("problem.html", message=message, fix=fix, seen=Seen(0, is_whole=True))
        return self._html(page, 404)


_KINDS = ("environment", "policy", "memories", "tools", "rewards", "optimizer", "learner", "trackers", "hooks")
_Part = tuple[str, str, str, dict[str, Any], dict[str, Any]]


def _parts(spec: Mapping[str, Any], settled: Mapping[str, Any], sources: Mapping[str, str]) -> Iterator[_Part]:
    """What took part: its kind, name and distribution, the settings that were chosen, and all others."""
    for kind in _KINDS:
        chosen = spec.get(kind) or []
        for one in chosen if isinstance(chosen, list) else [chosen]:
            singular = {"memories": "memory"}.get(kind, kind.rstrip("s"))
            name, changed = str(one["name"]), dict(one.get("settings") or {})
            full = settled.get(one.get("alias") or (kind if kind in settled else name)) or {}
            rest = {key: value for key, value in full.items() if key not in changed} if isinstance(full, dict) else {}
            yield singular, name, sources.get(f"{singular} {name}", ""), changed, rest


@lru_cache(maxsize=8)
def _results(run: Path, changed: tuple[tuple[int, int], ...]) -> Markup:
    """The results of a run as they are since these changes. They are read from all of its episodes."""
    return Markup(run_results(RunFolder.open(run)).body)


def _largest_fall(stages: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The evaluation or the rollouts whose mean reward is furthest below that of the ones before, if any is."""
    fall, fell = 0.0, None
    for kind in ("evaluation", "rollout"):
        measured = [one for one in stages if one["stage"] == kind and one["reward"] is not None]
        for earlier, later in pairwise(sorted(measured, key=lambda one: int(one["number"]))):
            if earlier["reward"] - later["reward"] > fall:
                fall, fell = earlier["reward"] - later["reward"], later
    return fell


_Sides = Mapping[str, tuple[str, str, int]]
"""What can be compared, by its name: a run, and the stage and the number of an evaluation. A run as such has none."""


def _sides(rows: sqlite3.Connection) -> _Sides:
    """All that can be compared, the newest first."""
    found = rows.execute(
        "SELECT r.name, p.stage, p.number FROM places p JOIN runs r ON r.id = p.run"
        " WHERE EXISTS (SELECT 1 FROM episodes e WHERE e.place = p.id) AND p.stage != 'rollout'"
        " ORDER BY r.began DESC, p.number DESC"
    )
    return {f"{run}, {stage} {number}" if stage else run: (run, stage, number) for run, stage, number in found}


def _suggested(rows: sqlite3.Connection, known: _Sides, wanted: str) -> list[str]:
    """The two newest that have played a task in common, with the one that is wanted if one is. Of a training, these are
    the first evaluation and the last."""
    names = list(known)
    if wanted and wanted not in known:
        return []
    since = names.index(wanted) if wanted else 0
    near = [(name, set(map(tuple, rows.execute(_TASKS, known[name])))) for name in names[since : since + _SUGGESTED]]
    for place, (right, played) in enumerate(near[:1] if wanted else near):
        older, (run, *_) = near[place + 1 :], known[right]
        of_run = [one for one in reversed(older) if known[one[0]][0] == run and known[one[0]][1]]
        for left, tasks in [*of_run, *older]:
            if played & tasks:
                return [left, right]
    return []


_TASKS = (
    "SELECT DISTINCT e.environment, e.task FROM episodes e JOIN places p ON p.id = e.place"
    " JOIN runs r ON r.id = e.run WHERE r.name = ? AND p.stage = ? AND p.number = ? AND e.task IS NOT NULL"
)
