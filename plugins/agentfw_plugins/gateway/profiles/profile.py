"""What a program's request says of its user, and how that is told by structure where nobody knows the program.

A message of the role user has more than what a person typed: reminders, files, results of tools, instructions of the
repository. Memories hear what was typed, part by part, and nothing else; secrets in it are masked.

    told = told_by(Sent(headers, body, asked))
    told.user, told.session, told.said[-1]      # what was typed in the last message
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple

from agentfw_memory.writing.secrets import masked

from ...protocols import ChatRequest

_TAG = re.compile(r"<(/?)([A-Za-z][\w.:-]*)(?:\s[^<>]*)?(/?)>")
_FENCED = re.compile(r"^[ \t>]*(`{3,}|~{3,})[^\n]*(?:\n.*?(?:^[ \t>]*\1[`~]*[ \t]*$|\Z)|\Z)", re.DOTALL | re.MULTILINE)
_RESULT = re.compile(
    r"^(?:"
    r"\[[a-z][\w-]*(?: [^\]\n]*)?\] (?:Result|Output|Error)\b|"  # [read_file for 'notes.md'] Result:
    r"\[(?:ERROR|TASK RESUMPTION)\]|"
    r"(?:Called|Calling|Used|Using) the [\w-]+ tool\b|"
    r"(?:The )?(?:tool|function|command|terminal|shell)(?: [\w`'\"./-]+){0,3} (?:result|output|response|returned)\b|"
    r"(?:result|output|response) (?:of|from) (?:the )?(?:tool|function|command)\b|"
    r"I ran this command:|Here (?:is|are) (?:the )?(?:content|contents|text|output)s? (?:of|from)\b|"
    r"-{2,} ?(?:Content|Context|File|Begin)\b[^\n]*-{2,}[ \t]*$"
    r")",
    re.MULTILINE | re.IGNORECASE,
)
"""Lines that begin what a tool or a file says. It goes on to the end of the part."""
_LONGEST = 4_000
"""Number of characters at the end of what was typed that are heard. Of more, the rest was pasted."""
_FIRST = 1_000
"""Number of characters at the beginning that are heard, too: a request comes before what was pasted, or after it."""
_MOST_PARTS = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


class Sent(NamedTuple):
    """A request of a program."""

    headers: Mapping[str, str]
    body: Mapping[str, Any]
    asked: ChatRequest

    @property
    def system(self) -> str:
        """The system prompt's beginning."""
        first = self.asked.messages[0] if self.asked.messages else None
        return first.content[:4_000] if first is not None and first.role == "system" else ""

    @property
    def new(self) -> range:
        """Indexes of the messages after the last answer."""
        messages = self.asked.messages
        return range(max((i for i, one in enumerate(messages, 1) if one.role == "assistant"), default=0), len(messages))


class Told(NamedTuple):
    """What a request says of its user."""

    program: str = ""
    """The program's name. Empty if it isn't known."""
    user: str = ""
    """The account or the device, if the program tells it."""
    session: str = ""
    said: tuple[tuple[str, ...], ...] = ()
    """What was typed in each message, part by part. Nothing in those up to the last answer."""
    masked: Mapping[str, int] = {}
    """How many secrets of each kind were masked in what was typed."""
    is_side_work: bool = False
    """Whether the program asks for itself: a title, a summary, the task of a sub-agent."""


class Profile:
    """One program. What is said here holds for programs that nobody knows."""

    name = ""
    agent: re.Pattern[str] | None = None
    """What its header `user-agent` begins with."""
    system: re.Pattern[str] | None = None
    """What its system prompt has, if its header may be another's."""
    side_work: re.Pattern[str] | None = None
    """What the system prompt, or the new message, of side work begins with."""
    foreign: re.Pattern[str] | None = None
    """What a part begins with that nobody typed."""
    ending: re.Pattern[str] | None = None
    """What follows what was typed, to the end of the part."""
    inside: tuple[str, ...] = ()
    """Tags around what was typed. Nothing else was, in a message with one of them."""
    sessions: tuple[str, ...] = ()
    """Headers that name the session."""

    def fits(self, sent: Sent) -> bool:
        """Whether a request is this program's."""
        agent = sent.headers.get("user-agent", "")
        return bool(
            (self.agent is not None and self.agent.match(agent))
            or (self.system is not None and self.system.search(sent.system))
        )

    def user(self, sent: Sent) -> str:
        """The account or the device, and never the session. Empty if the program doesn't say."""
        return ""

    def session(self, sent: Sent) -> str:
        return next((found for name in self.sessions if (found := sent.headers.get(name, ""))), "")

    def is_side_work(self, sent: Sent) -> bool:
        if self.side_work is None:
            return False
        texts = [sent.system, *(part for place in sent.new for part in sent.asked.parts[place])]
        return any(self.side_work.match(text.lstrip()[:400]) for text in texts)

    def typed(self, part: str) -> str:
        """What a person typed of a part of a message."""
        if self.foreign is not None and self.foreign.match(part.lstrip()):
            return ""
        if self.ending is not None and (end := self.ending.search(part)):
            part = part[: end.start()]
        found = [text for name in self.inside for text in _inside(part, name)]
        return "\n\n".join(map(typed, found)) if found else typed(part)

    def told(self, sent: Sent) -> Told:
        side, counts = self.is_side_work(sent), Counter[str]()
        said = [tuple[str, ...]()] * len(sent.asked.messages)
        for place in sent.new if not side else ():
            if sent.asked.messages[place].role == "user":
                found = [masked(text) for text in self._said(sent.asked.parts[place])]
                said[place] = tuple(one.text for one in found)
                for one in found:
                    counts.update(one.counts)
        session = self.session(sent)
        if session and not _NAME.fullmatch(session):
            session = blake2b(session.encode(errors="replace"), digest_size=12).hexdigest()
        named = f"{self.name}-{session}" if session else ""
        return Told(self.name, self.user(sent)[:100], named, tuple(said), counts, side)

    def _said(self, parts: tuple[str, ...]) -> Iterator[str]:
        parts = parts[-_MOST_PARTS:]
        if any(f"<{name}>" in part for part in parts for name in self.inside):
            parts = tuple(part for part in parts if any(f"<{name}>" in part for name in self.inside))
        result_follows = False
        for part in parts:
            text = "" if result_follows else self.typed(part).strip()
            header = _RESULT.match(part)  # some send it as a part of its own
            result_follows = header is not None and not part[header.end() :].strip(" :")
            if len(text) > _LONGEST:
                yield _whole(text[:_FIRST], at_end=True)
                text = _whole(text[-(_LONGEST - _FIRST) :], at_end=False)
            if text:
                yield text


def typed(part: str) -> str:
    """What a person typed of a text, by its structure: without what stands in tags, fences or a tool's result.

    >>> typed("<context>I live in Rome.</context>Fix it.\\n[read_file for 'a'] Result:\\nI live in Oslo.")
    'Fix it.'
    """
    found, last = list[str](), 0
    for start, end in _blocks(part):
        if start >= last:
            found += [part[last:start], "\n"]
            last = end
    text = _FENCED.sub("\n", "".join([*found, part[last:]]))
    result = _RESULT.search(text)
    return (text[: result.start()] if result else text).strip()


def _blocks(text: str) -> list[tuple[int, int]]:
    """Where tags begin and end that are closed, the outermost before those in them."""
    opened, found = dict[str, list[int]](), list[tuple[int, int]]()
    for tag in _TAG.finditer(text):
        closes, name, is_empty = tag[1], tag[2], tag[3]
        if not closes and not is_empty:
            opened.setdefault(name, []).append(tag.start())
        elif closes and (starts := opened.get(name)):
            start, end = starts.pop(), tag.end()
            alone = not text[text.rfind("\n", 0, start) + 1 : start].strip()
            # `<b>so</b>` within a line is how its author writes.
            if alone or re.search(r"[-_]", name) or "\n" in text[start:end]:
                found.append((start, end))
    return sorted(found, key=lambda block: (block[0], -block[1]))


def _inside(text: str, name: str) -> Iterator[str]:
    """What stands in tags of a name."""
    rest = text
    while f"<{name}>" in rest and f"</{name}>" in rest:
        inside, _, rest = rest.partition(f"<{name}>")[2].partition(f"</{name}>")
        yield inside


def _whole(text: str, *, at_end: bool) -> str:
    """A piece of a text without the line that was cut in two."""
    before, line, after = text.rpartition("\n") if at_end else text.partition("\n")
    return (before if at_end else after) if line else text
