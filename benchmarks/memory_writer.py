"""What a memory writes down of what people say in twelve languages: without a model, and with one's answers on tape.

    python benchmarks/memory_writer.py                       # both writers, all four files of sentences
    python benchmarks/memory_writer.py --corrections         # what mem0's issue 5867 reports

Two halves have 100 messages to keep, 50 corrections, 50 messages not to keep, 12 requests to forget and 10 facts in two
messages each. The file `held_out.txt` was written before the memory. `reported.txt` is younger: 60, 24, 60, 24 and 12,
harder ones. `strangers.txt` has 336 messages to keep and 240 not to keep, by somebody who had seen none of the others.
The tape answers as a strong model would: it remembers what stands beside each message. So it measures what comes after.

mem0's issue 5867 reports that after a correction the old value is still retrieved, in every one of its cases, and
decides the answer. With `--corrections` each person says eleven other things, too, and corrects a value in a later
conversation. Counted is whether the new value comes first, whether an old one comes before it, and whether each old
one that is found has dates or names the newer one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentfw_benchmarks import Options, tell
from agentfw_memory import ModelWriter, SkillGraph, Writer

FOLDER = Path(__file__).parent / "library" / "agentfw_benchmarks" / "writer"
DAY = 86_400.0

Row = list[str]
Sets = Mapping[str, list[Row]]


def sentences(half: str) -> Sets:
    """Return the rows of each section of a file."""
    found: dict[str, list[Row]] = {name: [] for name in ("keep", "correct", "drop", "forget", "two")}
    section: list[Row] = []
    for line in (FOLDER / f"{half}.txt").read_text("utf-8").splitlines():
        if line.startswith("#"):
            section = found[line[2:].partition(":")[0]]
        else:
            section.append(line.split(" | "))
    return found


class Tape:
    """A model that was played before: what it answers to each message."""

    def __init__(self, sets: Sets) -> None:
        self._keep = {said: remembered for _, said, remembered in sets["keep"]}
        self._keep |= {said: said for _, said, *_ in (*sets["correct"], *sets["forget"], *sets["two"])}
        self._keep |= {second: f"{first} {second}" for _, first, second, *_ in sets["two"]}
        self._update = {new: old for _, old, new, *_ in sets["correct"]}
        self._delete = {request: said for _, said, request in sets["forget"]}

    async def complete(self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any]) -> str:
        asked = json.loads(messages[-1]["content"])["messages"]
        return json.dumps({"messages": [self._decided(one) for one in asked]})

    def _decided(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        said, known = " ".join(message["own_sentences"]), {one["text"]: one["id"] for one in message["memories"]}
        blank = {"text": "", "id": "", "about": "", "since": "", "shared": False, "always": False, "evidence": said}
        if said in self._delete:
            return [{**blank, "action": "DELETE", "id": known.get(self._delete[said], "")}]
        if said in self._update and self._update[said] in known:
            return [{**blank, "action": "UPDATE", "text": said, "id": known[self._update[said]]}]
        if said in self._keep:
            return [{**blank, "action": "ADD", "text": self._keep[said]}]
        return [{**blank, "action": "NONE"}]


class Memory:
    """A graph in which every case has a user of its own."""

    def __init__(self, embedder: str, writer: Writer | None) -> None:
        self.graph = SkillGraph.open(":memory:", tenant="measured", embedder=embedder, writer=writer)
        self._users, self._at = 0, time.time() - 9_000 * DAY

    def told(self, *messages: str) -> tuple[str, list[Any]]:
        """Return a new user who has said this in one conversation, and what became of it."""
        self._users += 1
        user = f"user {self._users}"
        return user, [self.said(message, user, "talk") for message in messages]

    def said(self, message: str, user: str, talk: str) -> Any:
        self._at += DAY
        return self.graph.hear(message, user=user, conversation=f"{talk} of {user}", at=self._at)


def measured(sets: Sets, memory: Memory) -> dict[str, tuple[int, int]]:
    """Return (how often, of how many) for each figure."""
    counts: dict[str, tuple[int, int]] = {}

    def count(name: str, right: bool) -> None:
        good, whole = counts.get(name, (0, 0))
        counts[name] = good + right, whole + 1

    for _, said, _ in sets["keep"]:
        _, heard = memory.told(said)
        count("kept", bool(heard[0].kept))
    facts = dict(row[:2] for row in sets["keep"])
    for language, said in sets["drop"]:
        _, heard = memory.told(said)
        count("not kept", not heard[0].kept)
        _, heard = memory.told(facts[language], said)
        count("not kept right after a fact", not heard[1].kept)
    for _, old, new, question, before, value in sets["correct"]:
        user, heard = memory.told(old, new)
        hits = memory.graph.recall(question, user=user)
        first = bool(hits) and value in hits[0].skill.text
        count("corrected value first", first)
        older = [hit for hit in hits if before in hit.skill.text and value not in hit.skill.text]
        marked = first and (all(hit.newer for hit in older) if older else bool(hits[0].skill.corrections))
        count("and the older one marked", marked)
    for _, said, request in sets["forget"]:
        user, heard = memory.told(said, request)
        memory.graph.delete(*heard[1].to_forget)
        count("asked to forget: gone", not memory.graph.skills(owner=user))
    for _, first_said, second, question, value in sets["two"]:
        user, _ = memory.told(first_said, second)
        hits = memory.graph.recall(question, user=user)
        count("facts in two messages", any(value in hit.skill.text for hit in hits[:2]))
    return counts


def colleagues(sets: Sets, embedder: str, writer: Writer | None) -> tuple[int, int]:
    """Return how often a colleague's correction of a shared fact comes first, of how many."""
    good = 0
    for _, old, new, question, _, value in sets["correct"]:
        with SkillGraph.open(":memory:", tenant="team", embedder=embedder, writer=writer) as graph:
            graph.add(owner="ann", text=old, visibility="shared", valid_from=time.time() - DAY)
            graph.hear(new, user="ben")
            hits = graph.recall(question, user="ben")
            good += bool(hits) and value in hits[0].skill.text
    return good, len(sets["correct"])


OTHERS = 11
"""Number of other things that somebody says who corrects a value."""


def corrections(embedder: str, halves: Sequence[str]) -> dict[str, Any]:
    """Return the figures of corrections among other memories, by half and writer."""
    rows = []
    for half in halves:
        sets = sentences(half)
        for name in ("none", "tape") if sets["correct"] else ():
            memory = Memory(embedder, ModelWriter(Tape(sets)) if name == "tape" else None)
            counts = dict.fromkeys(("corrected value first", "old value before it", "old ones dated"), 0)
            for place, (language, old, new, question, before, value) in enumerate(sets["correct"]):
                user, _ = memory.told(old)
                same = [said for other, said, _ in sets["keep"] if other == language]
                for said in (same * OTHERS)[place : place + OTHERS]:
                    memory.said(said, user, "another talk")
                memory.said(new, user, "a later talk")
                texts = [(hit, hit.skill.text) for hit in memory.graph.recall(question, user=user)]
                found = ["new" if value in text else "old" for _, text in texts if value in text or before in text]
                older = [hit for hit, text in texts if before in text and value not in text]
                counts["corrected value first"] += bool(texts) and value in texts[0][1]
                counts["old value before it"] += found[:1] == ["old"]
                counts["old ones dated"] += all(hit.newer or hit.skill.valid_to for hit in older)
            memory.graph.close()
            whole = len(sets["correct"])
            shares = {what: good / whole for what, good in counts.items()}
            rows.append({"half": half, "writer": name, "of": whole, "shares": shares})
    return {"embedder": embedder, "rows": rows}


def measure(embedder: str, halves: Sequence[str]) -> dict[str, Any]:
    """Return the figures by half and writer."""
    rows = []
    for half in halves:
        sets = sentences(half)
        for name in ("none", "tape"):
            writer = ModelWriter(Tape(sets)) if name == "tape" else None
            memory = Memory(embedder, writer)
            counts = measured(sets, memory)
            memory.graph.close()
            if sets["correct"]:
                counts["by a colleague: newest first"] = colleagues(sets, embedder, writer)
            shares = {what: good / whole for what, (good, whole) in counts.items()}
            rows.append({"half": half, "writer": name, "shares": shares})
    return {"embedder": embedder, "rows": rows}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    given = Options(
        __doc__,
        embedder=("wordllama", "the embedding model"),
        halves=(["seen", "held_out", "reported", "strangers"], "the files of sentences"),
        corrections=(False, "measure corrections among other memories instead"),
    ).parse_args(arguments)
    if given.corrections:
        return tell(corrections(given.embedder, given.halves), given.json)
    return tell(measure(given.embedder, given.halves), given.json)


if __name__ == "__main__":
    main()
