"""Remembers what a user says, as soon as it is said.

A writer decides what to write down of the author's own words. Without one, or where its answer doesn't hold, sentences
that say something lasting are kept as they were said. A message is heard once, by its id, and written in one
transaction. Nothing is deleted before it is confirmed, and secrets are never written.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import numpy as np

from ...errors import BadInputError
from ...writing.kinds import kinds_of, may_ask_to_forget, own_words
from ...writing.secrets import has_secret
from ...writing.writer import NEAREST, Decision, KnownMemory, Said, Writer, checked
from ..forgetting import check_user
from ..recall.recall import ALIKE, EVERY_ANSWER, NOBODY, Recaller, every_answer
from ..records import EdgeKind, Float32Array, Heard, NewSkill, Skill, Visibility
from ..row_types import EdgeRow, digest, told_apart
from ..stores.store import Change
from ..validation import check_metadata, check_name, check_skill, check_time, storable
from ..words import terms
from .editing import Editor

MOST_KEPT = 20  # maximum number of things that are kept of one message
TURNS_BEFORE = 6  # number of turns of a conversation that a writer is shown
CONVERSATIONS = 1_000  # number of conversations whose latest turns are kept in memory
RELATED = 0.3  # similarity from which on two texts without a common word are about the same thing
NEARLY_THE_SAME = 0.85
"""Similarity from which on two sayings are about the same thing though neither is called a correction."""
CORRECTED = 0.45  # minimum similarity of a correction to what it corrects, unless that was said just before
TO_FORGET = 0.6  # share of the best score from which on a memory counts as what the user asked to forget


@dataclass(frozen=True, slots=True)
class Saying:
    """A message of a user."""

    text: str
    user: str
    conversation: str = ""
    at: float | None = None
    """When it was said. Default: now."""
    id: str = ""
    answer_to: str = ""
    """What the assistant had said just before."""

    @property
    def name(self) -> str:
        """Under which it is known to have been heard, until its user is forgotten. Empty without an id."""
        return digest(self.user) + digest(self.id) if self.id else ""


class Hearer:
    """Hears for one tenant."""

    def __init__(self, recaller: Recaller, editor: Editor, writer: Writer | None) -> None:
        self._recaller, self._rows, self._settings = recaller, recaller.rows, recaller.settings
        self._editor, self.writer = editor, writer
        self._before: OrderedDict[tuple[str, str, int], deque[tuple[str, str]]] = OrderedDict()

    def said(self, saying: Saying) -> Said | None:
        """Return what a writer is asked, or None if there is nothing to decide."""
        check_user("user", saying.user)
        if saying.conversation:
            check_name("conversation", saying.conversation)
        if not isinstance(saying.text, str):
            raise BadInputError(f"a saying is of type {type(saying.text).__name__}, not a string", fix="pass a string")
        now = self._rows.store.now()
        at = now if saying.at is None else min(check_time("at", saying.at), now)
        # Without a writer, who would be asked once more, it is enough to look for it when something is written.
        if not self._settings.evolve or (self.writer is not None and self._was_heard(saying)):
            return None
        longest = self._settings.longest_text
        own = tuple(storable(one, longest) for one in own_words(saying.text) if not has_secret(one))
        before: tuple[tuple[str, str], ...] = ()
        if saying.conversation:
            # Turns from before somebody was forgotten, or a memory erased, may say what is gone.
            key = saying.user, saying.conversation, self._recaller.head.forgotten
            turns = self._before.setdefault(key, deque(maxlen=TURNS_BEFORE))
            self._before.move_to_end(key)
            if len(self._before) > CONVERSATIONS:
                self._before.popitem(last=False)
            if saying.answer_to:  # what was answered to a secret may repeat it, whatever was said after it
                answered = takewhile(lambda turn: turn[0] == "user", reversed(turns))
                is_shown = all(text for _, text in answered) and not has_secret(saying.answer_to)
                turns.append(("assistant", saying.answer_to[:1_000] if is_shown else ""))
            before = tuple(turn for turn in turns if turn[1])
            turns.append(("user", "" if has_secret(saying.text) else saying.text[:1_000]))
        if not own:
            return None
        hits = []
        if self.writer is not None:
            hits = self._recaller.recall(" ".join(own)[:longest], saying.user, NEAREST, at_least=0.0)
        known = tuple(
            KnownMemory(one.id, one.text, one.owner, one.visibility == "shared", one.valid_from)
            for one in (hit.skill for hit in hits)
        )
        return Said(saying.text, saying.user, at, before, known, own)

    def hear(self, saying: Saying) -> Heard:
        return self.write(saying, self.said(saying))

    def write(self, saying: Saying, said: Said | None, answer: object = None, problem: str = "") -> Heard:
        """Write down what was said, as a writer answered, or without one as it was said."""
        if said is None:
            return Heard(saying.id, known_already=self._was_heard(saying))
        decisions, wrong, rest = list[Decision](), list[str](), list(said.own)
        if self.writer is not None and not problem:
            decisions, wrong = checked(said, answer, self._related)
            problem = "; ".join(dict.fromkeys(wrong))
            told = [one.evidence.casefold().strip(" .!") for one in decisions]
            rest = [one for one in said.own if wrong and not any(part in one.casefold() for part in told)]
        decisions += self._plain(said, rest)
        to_forget = self._to_forget(said, [one for one in decisions if one.action == "DELETE"])
        wanted = [one for one in decisions if one.action in ("ADD", "UPDATE")][:MOST_KEPT]
        problem += "; what was said was kept as it was said" if problem else ""
        if not wanted:
            return Heard(saying.id, problem=problem, to_forget=to_forget)
        vectors = self._recaller.embed([one.text for one in wanted])
        with self._recaller.writing(waits=self._settings.hearing_waits or not saying.id) as change:
            if self._was_heard(saying):
                return Heard(saying.id, known_already=True)
            self._recaller.focus(saying.user, (), vectors)
            written = [self._carry_out(change, saying, said, *one) for one in zip(wanted, vectors, strict=True)]
            self._note_said(change, saying, [*dict.fromkeys(written)])
            if always := [one for one, decision in zip(written, wanted, strict=True) if decision.always]:
                fact = every_answer(self._rows.nodes(change, "user", [saying.user])[saying.user])
                node = self._rows.nodes(change, "fact", [fact])[fact]
                self._rows.add_edges(change, [EdgeRow("STATES", one, node) for one in always])
            self._rows.touch(change, written)
        kept = tuple(dict.fromkeys(f"s{one}" for one in written))
        return Heard(saying.id, kept=kept, problem=problem, to_forget=to_forget)

    def _note_said(self, change: Change, saying: Saying, skills: Sequence[int]) -> None:
        """Note skills as said in this conversation and message, instead of where they were said before."""
        ends: dict[EdgeKind, Iterable[int]] = {}
        if saying.conversation:
            ends["SAID_IN"] = self._rows.nodes(change, "conversation", [saying.conversation]).values()
        if saying.id:
            ends["SAID_AS"] = self._rows.nodes(change, "saying", [saying.name]).values()
        for one in skills:
            self._rows.end_edges(change, [row for row in self._rows.edge_rows(one) if row.kind == "SAID_IN"])
        edges = [EdgeRow(kind, one, node) for one in skills for kind, some in ends.items() for node in some]
        self._rows.add_edges(change, edges)

    def asked_to_forget(self, text: str, user: str) -> list[Skill]:
        if not may_ask_to_forget(text):
            return []
        said = Said(text, user, self._rows.store.now(), own=tuple(own_words(storable(text, len(text)))))
        found = self._to_forget(said, [one for one in self._plain(said, said.own) if one.action == "DELETE"])
        return list(self._rows.skills([check_skill(one) for one in found]).values())

    def _plain(self, said: Said, sentences: Sequence[str]) -> list[Decision]:
        """Keep sentences as they were said, by their kinds."""
        if not sentences:
            return []
        before = own_words(next((text for who, text in reversed(said.before) if who == "user"), ""))
        found = []
        for sentence, kind in zip(sentences, kinds_of(sentences, before, self._recaller.embedder), strict=True):
            if kind == "forget":
                found.append(Decision("DELETE", evidence=sentence))
            elif kind != "other":
                corrects = "corrects" if kind == "correction" else ""
                found.append(Decision("ADD", sentence, sentence, id=corrects, always=kind == "wish"))
        return found

    def _to_forget(self, said: Said, requests: Sequence[Decision]) -> tuple[str, ...]:
        """Return the user's memories that requests are about. A writer names them, otherwise the nearest ones are."""
        found = dict[str, None]()
        for one in requests:
            if one.id:
                found[one.id] = None
                continue
            hits = self._recaller.recall(one.evidence, said.user, NEAREST, at_least=0.0)
            own = [hit for hit in hits if hit.skill.owner == said.user and self._related(one.evidence, hit.skill.text)]
            found.update({hit.skill.id: None for hit in own[:3] if hit.score >= TO_FORGET * own[0].score})
        return tuple(found)

    def _related(self, one: str, other: str) -> bool:
        if set(terms(one)) & set(terms(other)):
            return True
        mine, theirs = self._recaller.embed([one, other])
        return float(mine @ theirs) >= RELATED

    def _carry_out(self, change: Change, saying: Saying, said: Said, decision: Decision, vector: Float32Array) -> int:
        """Write what was decided. Return the number of the skill."""
        since = said.at if decision.since is None else decision.since
        visibility: Visibility = "shared" if decision.shared else "private"
        metadata: dict[str, Any] = {"about": decision.about} if decision.about else {}
        if decision.evidence and decision.evidence != decision.text:
            metadata["said"] = decision.evidence
        new = NewSkill(saying.user, decision.text, visibility=visibility, valid_from=since, metadata=metadata)
        known = self._rows.skills([check_skill(decision.id)]) if decision.action == "UPDATE" else {}
        older = None
        for older, old in known.items():
            when = max(since, old.valid_from)
            user, named = self._rows.find("user", saying.user) or NOBODY, told_apart(new.text, check_metadata(metadata))
            if old.owner != saying.user:
                # Somebody else's: both stay under the name of who said it, and the newer one comes first.
                metadata = {**metadata, "corrects": f"s{older}"}
                new = replace(new, visibility="shared", valid_from=when, metadata=metadata)
            elif self._rows.twins([(user, named)]).get((user, named), older) == older:
                self._editor.supersede(change, older, replace(new, visibility=old.visibility), vector, when)
                return older
        if not known and decision.text == decision.evidence and not decision.always:
            older = self._older(saying, vector, decision.id == "corrects")
        skill = self._editor.write(change, [new], vector[np.newaxis])[0]
        added = check_skill(skill.id)
        if older is not None and older != added:
            # Both state the same fact, by which the newer one comes first and the older one is marked.
            facts = [name for name in self._rows.facts(older) if not name.endswith(EVERY_ANSWER)]
            fact = facts[0] if facts else f"s{older}"
            node = self._rows.nodes(change, "fact", [fact])[fact]
            self._rows.add_edges(change, [EdgeRow("STATES", one, node) for one in (older, added)])
            self._rows.touch(change, [older, added])
        if skill.valid_from < since:  # it was said before
            stating = {one for fact in self._rows.facts(added) for one in self._rows.stating(fact)}
            others = (one.valid_from for one in self._rows.skills([*stating]).values())
            if skill.valid_from < max(others, default=0.0) <= since:  # and holds again, after something else did
                again = replace(new, visibility=skill.visibility, expires_at=skill.expires_at)
                self._editor.supersede(change, added, again, vector, since)
        return added

    def _older(self, saying: Saying, vector: Float32Array, corrects: bool) -> int | None:
        """Return the older skill that a new saying is about, by the same person or shared by another. A correction is
        about the most similar one, or about the one just before it in its conversation. Any other saying is about an
        older one only if both are nearly the same text."""
        cache = self._recaller.cache
        own = cache.private_skills(self._rows.find("user", saying.user))
        found, similarity = cache.index.search(vector, ALIKE, own)
        for nearest in self._recaller.no_cases(found.tolist())[:1]:
            if similarity[found == nearest][0] >= (CORRECTED if corrects else NEARLY_THE_SAME):
                return nearest
        if not (corrects and saying.conversation):
            return None
        talk = self._rows.find("conversation", saying.conversation)
        before = [] if talk is None else [edge.source for edge in self._rows.edge_rows(talk) if edge.kind == "SAID_IN"]
        by_user = [one for one, skill in self._rows.skills(before).items() if skill.owner == saying.user]
        return by_user[-1] if by_user else None

    def _was_heard(self, saying: Saying) -> bool:
        return bool(saying.id) and self._rows.find("saying", saying.name) is not None


async def ask(writer: Writer, sayings: Sequence[Said]) -> tuple[Sequence[object], str]:
    """Return a writer's answers, or what failed."""
    try:
        answers = await writer.write(sayings)
    except Exception as error:  # it may be anybody's
        return [None] * len(sayings), f"the writer failed ({type(error).__name__}: {error})"
    if not isinstance(answers, (list, tuple)) or len(answers) != len(sayings):
        return [None] * len(sayings), "the writer didn't answer each message"
    return answers, ""
