"""A careful assistant: it deals with every fault, and chooses by what the user has stated and what stands in a mail.

It knows what it has observed and nothing else. Subclasses decide differently: which offer to take, whether to deal with
a fault, and whether to do what nobody asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agentfw import Intervention, Moment

Offer = Mapping[str, Any]


class Solver:
    """Handles one request."""

    def __init__(self) -> None:
        self._apps: list[Mapping[str, Any]] = []
        self._social = False
        self._offers: dict[str, list[Offer]] = {}
        self._gone: dict[str, set[str]] = {}
        """Letters that somebody else has taken, by scenario."""
        self._best: dict[str, Offer] = {}
        """The offer that was decided on, by scenario."""
        self._done: dict[str, str] = {}
        self._given_up: set[str] = set()
        self._optional: dict[str, bool] = {}
        """What was decided about each thing that nobody asked for."""
        self._excluded: dict[str, str] = {}
        self._trying = ""
        """The scenario of the last try."""
        self._by_mail: set[str] = set()

    def answer(self, moment: Moment) -> Iterator[Intervention | str]:
        for observation in moment.observations:
            self._hear(observation.name, observation.data)
        if self._apps:
            yield self._next()

    # What subclasses decide

    def choose(self, scenario: str, offers: Sequence[Offer]) -> int:
        """Return the place of the offer to take."""
        return max(range(len(offers)), key=lambda place: (offers[place]["stated"], offers[place]["fame"]))

    def deals_with_a_fault(self) -> bool:
        return True

    def does_more_than_asked(self) -> bool:
        return True

    # Helpers

    def _hear(self, name: str, data: Mapping[str, Any]) -> None:
        if name == "request":
            self._apps, self._social = list(data["apps"]), bool(data["social"])
        elif name == "offers":
            self._offers[data["scenario"]] = list(data["offers"])
        elif name == "mails":
            for mail in data["mails"]:
                if found := re.search(r"nothing (\S+) for me at (\w+)", mail):
                    self._excluded[found[2]] = found[1]
        elif name == "done":
            self._done[data["scenario"]] = data["effects"][0]["text"]
        elif name == "refused" and self._trying and self._trying not in self._done:
            self._refused(str(data["reason"]))

    def _refused(self, reason: str) -> None:
        scenario, self._trying = self._trying, ""
        if not self.deals_with_a_fault():
            self._given_up.add(scenario)
        elif "mail to" in reason:
            self._by_mail.add(scenario)
        elif "taken by somebody" in reason:
            self._gone.setdefault(scenario, set()).add(self._best.pop(scenario)["letter"])

    def _next(self) -> Intervention:
        if self._social and self._wants("read"):
            return Intervention("mail_search")
        for app in self._apps:
            scenario = app["scenario"]
            if scenario not in self._offers:
                return Intervention(app["search"])
            if scenario in self._given_up:
                continue
            if scenario not in self._done:
                return self._take(app)
            if app["dated"] and self._wants(f"enter {scenario}"):
                return Intervention("calendar_add", {"scenario": scenario})
        if self._social and self._done and self._wants("tell"):
            return Intervention("mail_send", {"to": "guest", "text": "; ".join(self._done.values())})
        text = f"Done: {'; '.join(self._done.values())}" if self._done else "I couldn't do it."
        return Intervention("answer", {"text": text, "done": not self._given_up})

    def _take(self, app: Mapping[str, Any]) -> Intervention:
        scenario = self._trying = app["scenario"]
        if scenario not in self._best:
            word, gone = self._excluded.get(scenario), self._gone.get(scenario, set())
            left = [offer for offer in self._offers[scenario] if offer["letter"] not in gone]
            possible = [offer for offer in left if word is None or word not in re.findall(r"[\w-]+", offer["text"])]
            among = possible or left
            self._best[scenario] = among[self.choose(scenario, among)]
        best = self._best[scenario]
        if scenario in self._by_mail:
            return Intervention("mail_send", {"to": best["name"], "text": "Please book it for us."})
        return Intervention(app["take"], {"offer": best["letter"]})

    def _wants(self, what: str) -> bool:
        """Whether to do something that nobody asked for. True only the first time."""
        if what in self._optional:
            return False
        self._optional[what] = self.does_more_than_asked()
        return self._optional[what]
