"""The programs whose requests are known: coding agents and chats.

The forms are those that the programs sent when benchmarks/coding_agents.py recorded them or, of those that don't run
without a person (Cline, Roo, Continue, Open WebUI), what is known of their forms. A test reads every recorded request.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from ...protocols import made_by_entry_points
from .profile import Profile, Sent, Told

logger = logging.getLogger(__name__)

GROUP = "agentfw.profiles"


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
    """OpenAI's Codex."""

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
    """Google's Gemini CLI."""

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
    ending = None

    def fits(self, sent: Sent) -> bool:
        texts = [sent.system, *(sent.asked.messages[place].content[:100] for place in sent.new)]
        return bool(self.account(sent)) or any(text.lstrip().startswith("### Task:") for text in texts)

    def account(self, sent: Sent) -> str:
        return sent.headers.get("x-openwebui-user-email", "") or sent.headers.get("x-openwebui-user-id", "")

    user = account

    def typed(self, part: str) -> str:
        if part.lstrip().startswith("### Task:"):  # what it found stands in <context>, and the question behind it
            _, found, rest = part.rpartition("</context>")
            return super().typed(rest if found else "")
        return super().typed(part)


def _table(text: str) -> Mapping[str, Any]:
    """The JSON object in a text. Empty if it is none."""
    try:
        found = json.loads(text) if text[:1] == "{" else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


_PROGRAMS: tuple[Profile, ...] = (
    ClaudeCode(),
    Codex(),
    OpenCode(),
    Gemini(),
    Cline(),
    Aider(),
    Continue(),
    OpenWebUI(),
)


@cache
def profiles() -> tuple[Profile, ...]:
    """All profiles. One that can't be imported is named in the log, and the others are there."""
    found = list[Profile]()
    for name, _, profile in made_by_entry_points(GROUP, "profile", Profile):
        profile.name = name
        found.append(profile)
    return (*found, *_PROGRAMS)


def told_by(sent: Sent) -> Told:
    """What a request says of its user, by the first profile that fits, or else by its structure."""
    for profile in profiles():
        try:
            if profile.fits(sent):
                return profile.told(sent)
        except Exception as error:  # a request is answered, whatever a profile of others makes of it
            logger.warning("the profile %s failed: %s: %s", profile.name, type(error).__name__, error)
    return Profile().told(sent)
