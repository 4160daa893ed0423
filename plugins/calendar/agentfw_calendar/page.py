"""The page of `agentfw calendar serve`: what it shows and does, and one HTML file that loads nothing else.

    planner = Planner(open_session, known, make_policy)
    with planner.reading():
        await planner.week()                            # the calendars as they are now, clashes and proposals
        await planner.decide({"keys": [...], "keep": "...", "scope": "series"})
        await planner.write()                           # marks what was declined; returns drafts

The planner holds no state of its own but what is on disk. The calendars and what is known of the person are read again
for each answer, so that what another client changed, and what was decided on a terminal, is seen at once.

Only this machine can reach the page. Its content security policy allows its own script and style sheet alone, by their
hashes, and connections to this server alone. Requests must name this machine as their host, so that no other site can
lead a browser here, and changes must come from the page itself. Titles that strangers wrote are shown as text and never
become markup.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from importlib.resources import files
from typing import Any

from agentfw import Policy
from agentfw.errors import AgentfwError, MissingExtraError, UsageError
from agentfw.report import web_page

from .deciding.answers import Answer, Question
from .deciding.environment import Outcome
from .deciding.person_file import Noted, PersonFile
from .deciding.precedents import ALWAYS, SERIES, facts
from .ics.occurrences import Occurrence
from .language.wording import described
from .marking import Choice, undo
from .session import Session


class _OnPage:
    """Answers one conflict, and leaves the others open."""

    is_person = True

    def __init__(self, keys: frozenset[str] = frozenset(), answer: Answer | None = None) -> None:
        self.keys, self.given = keys, answer
        self.open: list[Question] = []

    def answer(self, question: Question) -> Answer:
        if self.given is not None and _keys(question) == self.keys:
            answer, self.given = self.given, None
            return answer
        asked = {one.candidates[0].title for one in self.open if one.kind == "whose"}
        if question.kind != "whose" or question.candidates[0].title not in asked:  # it holds for all of this title
            self.open.append(question)
        return Answer("")

    def told(self, question: Question, answer: Answer, declined: Sequence[Occurrence], learned: Sequence[str]) -> None:
        pass


class Planner:
    """One person's calendars, and what is known of them."""

    known: PersonFile

    def __init__(
        self,
        open_session: Callable[[], Session],
        open_known: Callable[[], PersonFile],
        make_policy: Callable[[], Policy],
    ) -> None:
        self._open, self._open_known, self._make_policy = open_session, open_known, make_policy
        self._session = ""

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Read what is known of the person. All answers of one page are one session."""
        with self._open_known() as self.known:
            self._session = self.known.session = self._session or self.known.session
            yield

    async def week(self) -> dict[str, Any]:
        """Everything that the page shows."""
        person = _OnPage()
        session = await self._played(person)
        declined = {one.key for outcome in session.outcomes for one in outcome.declined}
        marked = {noted.mark.key for noted in self.known.written.marks}
        decided = [_outcome(outcome, session, marked) for outcome in session.outcomes if outcome.known]
        shown = {tuple(one["keys"]) for one in decided}
        own = {source.identity for source in session.sources}
        # What is marked on a server is in no conflict any more, and can still be undone.
        earlier = {tuple(sorted(noted.seen)): noted for noted in self.known.written.marks if noted.source in own}
        decided += [_noted(noted, session) for keys, noted in earlier.items() if keys not in shown]
        clashing = {key for question in person.open for key in _keys(question)}
        return {
            "person": session.person,
            "zone": session.zone,
            "calendars": [source.name for source in session.sources],
            "from": session.since.astimezone(session.home).date().isoformat(),
            "until": session.until.astimezone(session.home).date().isoformat(),
            "events": [
                {
                    **_event(one, session),
                    "declined": one.key in declined or one.key in marked,
                    "clashes": one.key in clashing,
                    "away": session.agenda.is_away(one),
                }
                for one in session.found
            ],
            "open": [_question(question, session) for question in person.open],
            "decided": decided,
            "unwritten": len(declined - marked),
            "problems": len(session.problems),
            "language": session.texts.language,
            "texts": session.texts.said,
        }

    async def decide(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Answer one conflict as the page asks."""
        keys, keep, scope = given.get("keys"), given.get("keep"), given.get("scope", "")
        if not isinstance(keys, list) or scope not in ("", SERIES, ALWAYS):
            raise UsageError("this is no decision", fix="reload the page")
        session = await self._played(asked := _OnPage())
        question = next((one for one in asked.open if _keys(one) == frozenset(keys)), None)
        if question is None:
            raise UsageError("these events have changed meanwhile", fix="look at the conflict again")
        if keep is None:
            answer = Answer("", both=True, scope=scope)
        else:
            some = keep if isinstance(keep, list) else [keep]
            letter = "".join(each.letter for each in question.candidates if each.one.key in some)
            if not letter or (len(letter) > 1 and not question.kind):
                raise UsageError("this event isn't part of the conflict", fix="reload the page")
            why = str(given.get("why", ""))
            answer = Answer(letter, why=why, scope=scope, move=bool(given.get("move")) and scope == SERIES)
        session = await self._played(asked := _OnPage(frozenset(keys), answer))
        if asked.given is not None:
            raise UsageError("these events have changed meanwhile", fix="look at the conflict again")
        return await self.week() if session.found else {}

    async def undo(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Take back what was decided about these events."""
        keys = given.get("keys")
        if not isinstance(keys, list):
            raise UsageError("this is no decision", fix="reload the page")
        own = [one for one in self.known.decisions if one["keys"] == sorted(keys) and not one.get("again")]
        undo(self.known, Choice([one for one in self.known.written.marks if set(one.seen) == set(keys)], own[-1:]))
        if not own:
            session = self._open()
            there = {one.key: facts(one, session.people, session.home) for one in session.found if one.key in keys}
            self.known.ask_again(keys, there)
        return await self.week()

    async def write(self) -> dict[str, Any]:
        """Mark what was declined. Returns where, and what to write to whom."""
        session = await self._played(_OnPage())
        written = session.write(self.known)
        told = [session.texts.say(one) for one in written]
        return {**await self.week(), "written": told, "drafts": session.other_times()}

    async def _played(self, person: _OnPage) -> Session:
        session = self._open()
        await session.play(self._make_policy(), person, self.known)
        return session


def _keys(question: Question) -> frozenset[str]:
    return frozenset(each.one.key for each in question.candidates)


def _event(one: Occurrence, session: Session) -> dict[str, Any]:
    return {
        "key": one.key,
        "title": one.entry.title,
        "start": one.start.astimezone(session.home).isoformat(),
        "end": one.end.astimezone(session.home).isoformat(),
        "all_day": one.entry.all_day,
        "place": one.entry.texts.get("LOCATION", ""),
    }


def _question(question: Question, session: Session) -> dict[str, Any]:
    before, texts = question.before, session.texts
    return {
        "keys": sorted(_keys(question)),
        "events": [
            {
                **_event(each.one, session),
                "about": described(each.tags, texts),
                "proposed": each.letter in question.proposed,
            }
            for each in question.candidates
        ],
        "kind": question.kind,
        "beside": [each.title for each in question.instead],
        "reason": question.because(texts),
        "before": "" if before is None else before.title,
        "changed": [] if before is None else [texts.say(change) for change in before.changed],
        "series": sum(each.one.of_series is not None for each in question.candidates) > 1,
    }


def _outcome(outcome: Outcome, session: Session, marked: set[str]) -> dict[str, Any]:
    return {
        "keys": sorted(_keys(outcome.question)),
        "start": min(each.one.start for each in outcome.question.candidates).astimezone(session.home).isoformat(),
        "kept": "" if outcome.kept is None else outcome.kept.entry.title,
        "declined": [one.entry.title for one in outcome.declined],
        "scope": outcome.scope,
        "written": bool(outcome.declined) and all(one.key in marked for one in outcome.declined),
    }


def _noted(noted: Noted, session: Session) -> dict[str, Any]:
    return {
        "keys": sorted(noted.seen),
        "start": datetime.fromisoformat(noted.start).astimezone(session.home).isoformat(),
        "kept": ", ".join(one["title"] for key, one in noted.seen.items() if key != noted.mark.key),
        "declined": [noted.title],
        "scope": "",
        "written": True,
    }


_MOST = 100_000
"""Maximum size of a request in bytes."""


def page_app(planner: Planner) -> Any:
    """The page as an ASGI application."""
    try:
        from starlette.applications import Starlette
        from starlette.middleware import Middleware
        from starlette.middleware.trustedhost import TrustedHostMiddleware
        from starlette.requests import Request
        from starlette.responses import JSONResponse, Response
        from starlette.routing import Route
    except ImportError as error:
        raise MissingExtraError(
            "the page of the calendar", "web", distribution="agentfw-calendar", module=error.name or ""
        ) from None
    html, policy = web_page(files(__package__).joinpath("page.html").read_text("utf-8"))
    headers = {
        "cache-control": "no-store",
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "content-security-policy": f"{policy}; frame-ancestors 'none'",
    }
    one_at_a_time = asyncio.Lock()

    async def page(request: Request) -> Response:
        return Response(html, headers=headers, media_type="text/html")

    def answered(act: Callable[[Mapping[str, Any]], Awaitable[dict[str, Any]]]) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            given: Any = {}
            if request.method == "POST":
                body = await request.body() if int(request.headers.get("content-length", _MOST)) < _MOST else b""
                # A form of another site can't send this type of content.
                if request.headers.get("content-type") != "application/json":
                    return JSONResponse({"error": "this isn't from the page", "fix": "reload it"}, 403)
                try:
                    given = json.loads(body)
                except ValueError:
                    given = None
            if not isinstance(given, dict):
                return JSONResponse({"error": "this is no request of the page", "fix": "reload it"}, 400)
            try:
                async with one_at_a_time:
                    with planner.reading():
                        return JSONResponse(await act(given), headers={"cache-control": "no-store"})
            except AgentfwError as error:
                return JSONResponse({"error": error.message, "fix": error.fix}, 409)

        return answer

    return Starlette(
        routes=[
            Route("/", page),
            Route("/week", answered(lambda given: planner.week())),
            Route("/decide", answered(planner.decide), methods=["POST"]),
            Route("/undo", answered(planner.undo), methods=["POST"]),
            Route("/write", answered(lambda given: planner.write()), methods=["POST"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])],
    )


async def serve_page(planner: Planner, port: int, told: Callable[[str], None]) -> None:
    """Serve until this is cancelled."""
    from agentfw_plugins.serving import serving

    async with serving(page_app(planner), "127.0.0.1", port) as address:
        told(address)
        await asyncio.Event().wait()
