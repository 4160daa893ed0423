"""The policy `timing_judge`: a program that marks predictions for their timing, as the judge of the reward `rubric`.

    [[rewards]]
    name = "rubric"
    settings = { policy = { name = "timing_judge", settings = { domain = "my_domain" } } }

It reads the question alone: the dialogue so far and the attempts. It never sees a reference. From the domain's phrases
it guesses the customer's wish, and from its slots which inputs have been said. Then it counts, at this turn:

- hits: actions of the wish that are ready, with all inputs said that they are always used with. The longer they have
  been, the less a hit counts.
- false alarms: actions that are ready with an input missing, or that the wish doesn't need.
- misses: actions that could be ready and aren't.

The mark is 0.5 + 0.5 (hits - false alarms - misses) / (hits + false alarms + misses), or 0.5 where there is nothing to
count. It is an opinion that can be wrong, like that of a language model, but always the same one. A table that rests on
it has to say so.

Where nobody records which actions were triggered, it hears from the professional that something is being done, and
takes that for the next action of the wish.

With `workflows` it has no opinion on other wishes than these: all attempts get 0.5. So a table can tell what a judge
teaches from what it only repeats of the references, which are made from the same domain.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from pydantic import Field

from agentfw import Generation, Policy, Request, Settings
from agentfw.errors import UnknownNameError
from agentfw_papers.timing import Action, Domain, Opportunity, Parameter, normalise, read_answer

from .domains import domain_names, load_domain
from .phrases import Phrases

_LINE = re.compile(r"^(\d+) (customer|professional|action): (.*)$", re.M)
_SHARED = re.compile(r"<shared-(\w+)>\n(.*?)\n</shared-\1>", re.S)
_ATTEMPT = re.compile(r'<attempt-(\w+) id="(\d+)">\n(.*?)\n</attempt-\1>', re.S)
_BLANK = re.compile(r"\{\w+\}")
_RECOGNISED = 0.75
"""Share of an opening's words that a customer has to say."""


class TimingJudgeSettings(Settings):
    domain: str = Field("", description="Domain of the dialogues: a name or a folder. Default: the first that ships.")
    workflows: tuple[str, ...] = Field(
        (), description="Workflows that it has an opinion on. Default: all of the domain."
    )


class TimingJudge(Policy):
    """Marks the attempts of a rubric question."""

    is_program = True

    def __init__(self, settings: TimingJudgeSettings | None = None) -> None:
        settings = settings or TimingJudgeSettings()
        self._domain = load_domain(settings.domain or domain_names()[0])
        self._listener = Listener(self._domain)
        known = {one.name for one in self._domain.catalog.workflows}
        for name in settings.workflows:
            if name not in known:
                raise UnknownNameError("workflow", name, sorted(known))
        self._workflows = frozenset(settings.workflows or known)

    async def generate(self, request: Request) -> Generation:
        question = next((message.content for message in request.messages if message.role == "user"), "")
        shared = _SHARED.search(question)
        before = shared[2] if shared else ""
        scores = []
        for _, number, attempt in _ATTEMPT.findall(question):
            *told, answer = _messages(before) + _messages(attempt) or [("", "")]
            said = self._listener.listen("\n".join(text for role, text in told if role == "user"))
            mark, why = self._mark(said, read_answer(answer[1], self._domain.catalog).opportunities)
            scores.append({"id": int(number), "why": why, "score": mark})
        text = json.dumps({"scores": scores})
        return Generation(text, count=len(text.split()), version="program")

    def _mark(self, said: Said, predicted: Sequence[Opportunity]) -> tuple[float, str]:
        if not said.workflows <= self._workflows:
            return 0.5, "no opinion on this wish"
        ready = {one.name for one in predicted if one.ready}
        hits = sum(1 / (1 + said.turn - said.possible[name]) for name in ready if name in said.possible)
        false_alarms = len(ready - said.possible.keys())
        misses = len(said.possible.keys() - ready)
        total = hits + false_alarms + misses
        mark = 0.5 + 0.5 * (hits - false_alarms - misses) / total if total else 0.5
        return round(mark, 6), f"hits {hits:.2f}, false alarms {false_alarms}, misses {misses}"


@dataclass(frozen=True, slots=True)
class Said:
    """What the judge makes of a dialogue so far."""

    turn: int
    """The last turn."""
    possible: dict[str, int]
    """The actions that could be triggered now, with the turn from which they could."""
    workflows: frozenset[str] = frozenset()
    """What the customer's wish may be. Empty before it is recognised."""


class Listener:
    """Guesses from the words of a dialogue which actions could be triggered."""

    def __init__(self, domain: Domain) -> None:
        self.catalog = domain.catalog
        self.phrases = Phrases.of(domain.phrases, domain.catalog.name)
        self._workflows = {one.name: one.actions for one in domain.catalog.workflows}
        self._openings = [
            (workflow, frozenset(normalise(_BLANK.sub("", opening)).split()))
            for workflow, openings in self.phrases.openings.items()
            for opening in openings
        ]
        self._entries = {
            action: frozenset(normalise(_BLANK.sub("", entry)).split())
            for action, entry in self.phrases.entries.items()
        }
        self._observed = domain.observed
        self._acting = frozenset(map(normalise, self.phrases.acting))
        patterns = {one.name: one.pattern for action in domain.catalog.actions for one in action.parameters}
        self._shared = frozenset(one for one, count in Counter(patterns.values()).items() if one and count > 1)
        """Patterns of several slots: such a value alone doesn't say which of them it is."""
        self._wish_of = lru_cache(maxsize=4096)(self._recognised)

    def listen(self, text: str) -> Said:
        """What could be triggered after these lines of the form `NUMBER SPEAKER: TEXT`."""
        lines = [(int(number), speaker, text) for number, speaker, text in _LINE.findall(text)]
        last = max((number for number, _, _ in lines), default=0)
        wishes, since = self._wish(lines)
        # Of several wishes that sound alike, what all of them need.
        first, *others = [self._workflows[one] for one in sorted(wishes)] or [()]
        wish = [name for name in dict.fromkeys(first) if all(name in other for other in others)]
        possible = {}
        for name in self._left(wish, lines):
            action = self.catalog.find(name)
            if action is None:
                continue
            known = [self._first_said(one, lines, since) for one in self._needed(action)]
            if all(turn is not None for turn in known):
                possible[name] = max([since, *(turn for turn in known if turn is not None)])
        return Said(last, possible, wishes)

    def _left(self, wish: Sequence[str], lines: Sequence[tuple[int, str, str]]) -> Sequence[str]:
        """The actions of a wish that haven't been done."""
        if self._observed:
            return [name for name in wish if not ((action := self.catalog.find(name)) and self._done(action, lines))]
        acting = [text for _, speaker, text in lines if speaker == "professional" and normalise(text) in self._acting]
        return wish[len(acting) :]

    def _wish(self, lines: Sequence[tuple[int, str, str]]) -> tuple[frozenset[str], int]:
        """The workflows that the customer's wish may be, and the turn at which it was said."""
        best, wishes, since = 0.0, frozenset[str](), 0
        for number, speaker, text in lines:
            if speaker == "customer":
                score, found = self._wish_of(text)
                if score > best:
                    best, wishes, since = score, found, number
        return wishes, since

    def _recognised(self, text: str) -> tuple[float, frozenset[str]]:
        """The workflows whose openings a text resembles most, and how much."""
        words = set(normalise(text).split())
        best, found = 0.0, set[str]()
        for workflow, opening in self._openings:
            share = len(opening & words) / len(opening)
            # Of two openings that are said in full, the longer one is the better evidence.
            score = share * len(opening) if share >= _RECOGNISED else 0.0
            if score > best:
                best, found = score, {workflow}
            elif score == best > 0:
                found.add(workflow)
        return best, frozenset(found)

    def _needed(self, action: Action) -> list[Parameter]:
        """The inputs that an action can't do without: required ones, and optional ones that it is always used with."""
        uses = self.phrases.uses.get(action.name, ())
        always = () if isinstance(uses, int) else uses
        return [one for one in action.parameters if one.required or one.name in always]

    def _done(self, action: Action, lines: Sequence[tuple[int, str, str]]) -> bool:
        """Whether an entry reports the action."""
        entries = [one for one in (self._entries.get(action.name), frozenset(normalise(action.name).split())) if one]
        reported = [set(normalise(text).split()) for _, speaker, text in lines if speaker == "action"]
        return any(len(entry & words) >= _RECOGNISED * len(entry) for entry in entries for words in reported)

    def _first_said(self, one: Parameter, lines: Sequence[tuple[int, str, str]], since: int) -> int | None:
        """The turn by which a value was said: by its look, as one of the allowed ones, or after being asked for."""
        slot = self.phrases.slots.get(one.name)
        if slot is not None and slot.by == "nobody":
            return since
        label = normalise(slot.label if slot and slot.label else one.name)
        asked, unclear = False, one.pattern in self._shared
        for number, speaker, text in lines:
            if speaker == "action":
                continue
            words = f" {normalise(text)} "
            fits = _looks_like(one, text)
            if f"<{one.name}>" in text or (fits and not unclear) or self._names_one(one, words):
                return number
            named = f" {label} " in words if unclear else f" {label} is " in words
            if speaker == "customer" and (asked or named) and (fits or not unclear):
                return number
            # What could be several things is waited for, also if the customer first asks why.
            asked = (asked and unclear) or (speaker == "professional" and f" {label} " in words)
        return None

    def _names_one(self, one: Parameter, words: str) -> bool:
        return any(f" {normalise(other)} " in words for value in one.values for other in one.spellings(value))


def _looks_like(one: Parameter, text: str) -> bool:
    return bool(one.pattern and re.search(rf"(?<!\w)(?:{one.pattern})(?!\w)", text))


def _messages(part: str) -> list[tuple[str, str]]:
    """Role and text of the messages, one JSON object a line. A line of which the middle was cut out keeps its end."""
    found = []
    for line in part.split("\n"):
        try:
            message = json.loads(line)
            found.append((str(message["role"]), str(message["content"])))
        except (ValueError, KeyError, TypeError):
            if line.endswith('"}'):
                found.append(("user", line[:-2].replace("\\n", "\n").replace('\\"', '"')))
    return found
