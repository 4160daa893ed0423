"""What a program's request says of its user, and how that is told by structure where nobody knows the program.

A message of the role user has more than what a person typed: reminders, files, results of tools. Memories hear what was
typed, part by part, and nothing else; secrets in it are masked.

    told = told_by(Sent(headers, body, asked))
    told.user, told.session, told.said[-1]      # what was typed in the last message

A further profile is a class that derives from `Profile`, named in the group of entry points `agentfw.profiles`. It is
asked before those that ship.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import blake2b
from typing import Any, NamedTuple

from agentfw_memory.writing.secrets import masked

from ..protocols import ChatRequest, made_by_entry_points

logger = logging.getLogger(__name__)

GROUP = "agentfw.profiles"
_TAG = re.compile(r"(^[^\S\n]*)?<(/?)([A-Za-z][\w.:-]*)(?:\s[^<>]*)?(/?)>", re.MULTILINE)
_FENCED = re.compile(r"^[ \t>]*(`{3,}|~{3,})[^\n]*(?:\n.*?(?:^[ \t>]*\1[`~]*[ \t]*$|\Z)|\Z)", re.DOTALL | re.MULTILINE)
_RESULT = re.compile(
    r"^(?:"
    r"\[[a-z][\w-]*(?: [^\]\n]*)?\] (?:Result|Output|Error)\b|"  # [read_file for 'notes.md'] Result:
    r"\[(?:ERROR|TASK RESUMPTION)\]|"
    r"(?:Called|Calling|Used|Using) the [\w-]+ tool\b|"
    r"(?:The )?(?:tool|function|command|terminal|shell)(?: [\w`'\"./-]+){0,3} (?:result|output|response|returned)\b|"
    r"(?:result|output|response) (?:of|from) (?:the )?(?:tool|function|command)\b|"
    r"I ran this command:|Here (?:is|are) (?:the )?(?:content|contents|text|output)s? (?:of|from)\b|"
    r"-{2,} ?(?:Content|Context|File|Begin)\b[^\n]*(?<!-)-{2,}[ \t]*$"
    r")",
    re.MULTILINE | re.IGNORECASE,
)
"""Lines that begin what a tool or a file says. It goes on to the end of the part."""
_LONGEST = 4_000  # number of characters at the end of what was typed that are heard. Of more, the rest was pasted.
_FIRST = 1_000
"""Number of characters at the beginning that are heard, too: a request comes before what was pasted, or after it."""
_MOST_PARTS = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")


class Sent(NamedTuple):
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
        agent = sent.headers.get("user-agent", "")
        return bool((self.agent and self.agent.match(agent)) or (self.system and self.system.search(sent.system)))

    def user(self, sent: Sent) -> str:
        """The account or the device, and never the session. Empty if the program doesn't say."""
        return ""

    def session(self, sent: Sent) -> str:
        return next((found for name in self.sessions if (found := sent.headers.get(name, ""))), "")

    def is_side_work(self, sent: Sent) -> bool:
        texts = [sent.system, *(part for place in sent.new for part in sent.asked.parts[place])]
        return self.side_work is not None and any(self.side_work.match(text.lstrip()[:400]) for text in texts)

    def typed(self, part: str) -> str:
        if self.foreign and self.foreign.match(part.lstrip()):
            return ""
        if self.ending and (end := self.ending.search(part)):
            part = part[: end.start()]
        found = [text for name in self.inside for text in _inside(part, name)]
        return "\n\n".join(map(typed, found)) if found else typed(part)

    def told(self, sent: Sent) -> Told:
        side, counts = self.is_side_work(sent), Counter[str]()
        said = [tuple[str, ...]()] * len(sent.asked.messages)
        for place in sent.new if not side else ():
            # The parts of other messages are empty.
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
    opened, found = dict[str, list[tuple[int, bool]]](), list[tuple[int, int]]()
    for tag in _TAG.finditer(text):
        indent, closes, name, is_empty = tag.groups()
        if not closes and not is_empty:
            opened.setdefault(name, []).append((tag.start(2) - 1, indent is not None))
        elif closes and (starts := opened.get(name)):
            (start, alone), end = starts.pop(), tag.end()
            # `<b>so</b>` within a line is how its author writes.
            if alone or re.search(r"[-_]", name) or text.find("\n", start, end) >= 0:
                found.append((start, end))
    return sorted(found, key=lambda block: (block[0], -block[1]))


def _inside(text: str, name: str) -> Iterator[str]:
    rest = text
    while f"<{name}>" in rest and f"</{name}>" in rest:
        inside, _, rest = rest.partition(f"<{name}>")[2].partition(f"</{name}>")
        yield inside


def _whole(text: str, *, at_end: bool) -> str:
    """A piece of a text without the line that was cut in two."""
    before, line, after = text.rpartition("\n") if at_end else text.partition("\n")
    return (before if at_end else after) if line else text


# -- the programs that are known ---------------------------------------------------------------------------------------

# These forms are what the programs sent when benchmarks/coding_agents.py recorded them or, of those that don't run
# without a person (Cline, Roo, Continue, Open WebUI), what is known of them. A test reads every recorded request.


def _starts(*forms: str) -> re.Pattern[str]:
    return re.compile("|".join(forms), re.IGNORECASE)


class ClaudeCode(Profile):
    """Anthropic's Claude Code. Its user is JSON, in older versions a text, with the session's id in it."""

    name = "claude-code"
    agent, system = _starts(r"claude-cli/", r"claude-code/"), _starts(r"You are Claude Code\b")
    sessions = ("x-claude-code-session-id",)
    side_work = _starts(
        r"Your task is to create a detailed summary",
        r"Generate a (?:concise|short)[^\n]* title",
        r"Summarize this coding conversation",
        r"Analyze if this message indicates a new conversation topic",
        r"\[SUGGESTION MODE",
        r"Extract any file paths that this command",
        r"quota$",
    )
    foreign = _starts(
        r"This session is being continued from",
        r"Caveat: The messages below were generated",
        r"\[Request interrupted by user",
        r"\[Image(?: #\d+|:)",
    )
    _OLD_USER = re.compile(r"user_(\w+?)_account_([\w-]*?)_session_([\w-]+)\Z")

    def user(self, sent: Sent) -> str:
        ids = self._ids(sent)
        account, device = ids.get("account_uuid"), ids.get("device_id")
        return f"account-{account}" if account else f"device-{device}" if device else ""

    def session(self, sent: Sent) -> str:
        return super().session(sent) or str(self._ids(sent).get("session_id") or "")

    def is_side_work(self, sent: Sent) -> bool:
        return "x-claude-code-agent-id" in sent.headers or super().is_side_work(sent)

    def typed(self, part: str) -> str:
        # What follows a command that is a text of its own, such as /review, was typed, too.
        said = re.search(r"<command-args>(.*?)</command-args>", part, re.DOTALL)
        return super().typed(said[1] if said else part)

    def _ids(self, sent: Sent) -> Mapping[str, Any]:
        metadata = sent.body.get("metadata")
        given = str(metadata.get("user_id") or "") if isinstance(metadata, Mapping) else ""
        if old := self._OLD_USER.match(given):
            return dict(zip(("device_id", "account_uuid", "session_id"), old.groups(), strict=True))
        return _table(given)


class Codex(Profile):
    name = "codex"
    agent, system = _starts(r"codex[_/-]"), _starts(r"You are (?:a coding agent running in the )?Codex\b")
    sessions = ("session-id", "session_id", "thread-id", "conversation_id")
    side_work = _starts(r"You are performing a CONTEXT CHECKPOINT", r"Another language model started to solve")
    foreign = _starts(r"# AGENTS\.md instructions", r"<(?:environment_context|user_instructions|INSTRUCTIONS)\b")

    def fits(self, sent: Sent) -> bool:
        return sent.headers.get("originator", "").startswith("codex") or super().fits(sent)

    def user(self, sent: Sent) -> str:
        device = self._turn(sent).get("installation_id")
        return f"device-{device}" if device else ""

    def is_side_work(self, sent: Sent) -> bool:
        turn = self._turn(sent)
        is_turn = turn.get("request_kind", "turn") == "turn" and turn.get("thread_source", "user") == "user"
        return not is_turn or "x-openai-subagent" in sent.headers or super().is_side_work(sent)

    def _turn(self, sent: Sent) -> Mapping[str, Any]:
        return _table(sent.headers.get("x-codex-turn-metadata", ""))


class OpenCode(Profile):
    """opencode, whose command line puts what was typed in quotation marks."""

    name = "opencode"
    agent, system = _starts(r"opencode/"), _starts(r"You are opencode\b")
    sessions = ("x-session-id", "x-opencode-session", "x-session-affinity")
    side_work = _starts(
        r"You are a title generator",
        r"Generate a title for this conversation",
        r"You are a helpful AI assistant tasked with summarizing",
        r"You are an anchored context summari[sz]",
        r"Summarize the task tool output",
    )
    foreign = _starts(r"Called the \w+ tool with the following input", r"The following tool was executed by the user")

    def is_side_work(self, sent: Sent) -> bool:
        return "x-parent-session-id" in sent.headers or super().is_side_work(sent)

    def typed(self, part: str) -> str:
        whole = part.strip()
        if len(whole) > 2 and whole[0] == whole[-1] == '"':
            part = whole[1:-1].replace('\\"', '"')
        return super().typed(part)


class Gemini(Profile):
    name = "gemini-cli"
    agent = _starts(r"GeminiCLI")
    foreign = _starts(r"<session_context>", r"This is the Gemini CLI\. We are setting up", r"--- Content from")
    side_work = _starts(r"You are a specialized system component responsible for distilling chat history")

    def user(self, sent: Sent) -> str:
        device = sent.headers.get("x-gemini-api-privileged-user-id", "")
        return f"device-{device}" if device else ""


class Cline(Profile):
    """Cline and Roo: results of tools are text, and what was typed stands in tags."""

    name = "cline"
    agent, system = _starts(r"(?:Cline|RooCode)/"), _starts(r"You are (?:Cline|Roo)\b")
    inside = ("task", "feedback", "user_message", "answer")
    sessions = ("x-task-id",)
    side_work = _starts(r"Your task is to create a detailed summary", r"You are a helpful AI assistant tasked with")
    foreign = _starts(r"\[TASK RESUMPTION\]", r"\[ERROR\]", r"# (?:task_progress|Todo|TODO)", r"<environment_details>")


class Aider(Profile):
    """aider, which sends files as messages of the user and its rules behind what was typed."""

    name = "aider"
    system = _starts(
        r"\AAct as an expert (?:software developer|code analyst|software engineer|architect engineer)\b",
        r"\AYou are (?:diligent and tireless!|an expert software engineer that generates concise)",
        r"\A\*Briefly\* summarize this partial conversation",
        r"\*SEARCH/REPLACE block\*",
    )
    side_work = _starts(
        r"You are an expert software engineer that generates concise, one-line Git commit messages",
        r"\*Briefly\* summarize this partial conversation",
    )
    foreign = _starts(
        r"I have \*added these files to the chat\*",
        r"\*?I have.{0,40}READ ONLY files",
        r"Here are (?:summaries of some files|some READ ONLY files)",
        r"I am not sharing (?:the|any) files",
        r"I switched to a new code base",
        r"I (?:committed the changes|updated the files|added? these files)",
        r"# Fix any errors below",
        r"The LLM did not conform to the edit format",
        r"# \d+ SEARCH/REPLACE blocks? failed",
        r"I edited the files myself",
    )
    ending = re.compile(r"^(?:# (?:\*SEARCH/REPLACE block\*|\*?File editing) ?[Rr]ules|To suggest changes to a)", re.M)


class Continue(Profile):
    """Continue, in an editor. What it adds of files stands in fences."""

    name = "continue"
    agent = _starts(r"Continue/", r"continue(?:\.dev|-cli)?/")
    system = _starts(r"\A<important_rules>\s*You are in (?:agent|chat|plan) mode")
    side_work = _starts(
        r"Given the following(?:\.\.\. | conversation)[^\n]*title", r"(?:Please )?[Gg]enerate a title for the chat"
    )
    foreign = _starts(r"Use the above (?:code|context)", r"This is (?:a|the) (?:file|currently open file)")


class OpenWebUI(Profile):
    """Open WebUI, where it is told to forward who its user is."""

    name = "open-webui"
    sessions = ("x-openwebui-chat-id",)
    inside = ("user_query",)
    side_work = _starts(r"### Task:\s*(?:Generate|Suggest|Analyze the chat history|You are an autocompletion)")

    def fits(self, sent: Sent) -> bool:
        texts = [sent.system, *(sent.asked.messages[place].content[:100] for place in sent.new)]
        return bool(self.account(sent)) or any(text.lstrip().startswith("### Task:") for text in texts)

    def account(self, sent: Sent) -> str:
        return sent.headers.get("x-openwebui-user-email", "") or sent.headers.get("x-openwebui-user-id", "")

    user = account

    def typed(self, part: str) -> str:
        if part.lstrip().startswith("### Task:"):  # what it found stands in <context>, and the question behind it
            _, found, rest = part.rpartition("</context>")
            part = rest if found else ""
        return super().typed(part)


def _table(text: str) -> Mapping[str, Any]:
    """The JSON object in a text. Empty if it is none."""
    try:
        found = json.loads(text) if text[:1] == "{" else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


@cache
def profiles() -> tuple[Profile, ...]:
    """All profiles. One that can't be imported is named in the log, and the others are there."""
    found = list[Profile]()
    for name, _, profile in made_by_entry_points(GROUP, "profile", Profile):
        profile.name = name
        found.append(profile)
    return (*found, ClaudeCode(), Codex(), OpenCode(), Gemini(), Cline(), Aider(), Continue(), OpenWebUI())


def told_by(sent: Sent) -> Told:
    """What a request says of its user, by the first profile that fits, or else by its structure."""
    for profile in profiles():
        try:
            if profile.fits(sent):
                return profile.told(sent)
        except Exception as error:  # a request is answered, whatever a profile of others makes of it
            logger.warning("the profile %s failed: %s: %s", profile.name, type(error).__name__, error)
    return Profile().told(sent)
