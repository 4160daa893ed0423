"""Runs coding agents in front of a provider of our own, and keeps what they ask.

The provider speaks every protocol of agentfw. It answers with a line of text. Where `reads` names a
file and the program offers a tool that reads files, it calls that first.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from agentfw_plugins.protocols import Body, Protocol, protocols

Json = dict[str, Any]


class Asked(NamedTuple):
    """One request of a program."""

    path: str
    headers: dict[str, str]
    body: Json


class Program(NamedTuple):
    """A coding agent, and how it is run with one message: {url}, {model}, {text} and {home} are filled in."""

    name: str
    command: Sequence[str]
    goes_on: Sequence[str]
    """What is added to the command for a second message of the same conversation."""
    environment: Mapping[str, str] = {}
    files: Mapping[str, str] = {}
    """Files below the home directory."""
    rules: str = "AGENTS.md"
    """The file of a repository that the program reads by itself."""


OPENCODE = {
    "npm": "@ai-sdk/openai-compatible",
    "name": "own",
    "options": {"baseURL": "{base}/v1", "apiKey": "sk-none"},
    "models": {"gpt-5": {"name": "gpt-5"}},
}
PROGRAMS = {
    one.name: one
    for one in (
        Program(
            "claude-code",
            ("claude", "-p", "{text}", "--allowedTools", "Read"),
            ("--continue",),
            {
                "ANTHROPIC_BASE_URL": "{base}",
                "ANTHROPIC_API_KEY": "sk-none",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
            },
            rules="CLAUDE.md",
        ),
        Program(
            "codex",
            ("codex", "exec", "--skip-git-repo-check", "-s", "read-only", "{text}"),
            ("resume", "--last"),
            {"CODEX_HOME": "{home}/.codex", "KEY": "sk-none"},
            {
                ".codex/config.toml": 'model = "gpt-5-codex"\nmodel_provider = "own"\n[model_providers.own]\n'
                'name = "own"\nbase_url = "{base}/v1"\nenv_key = "KEY"\nwire_api = "responses"\n'
            },
        ),
        Program(
            "opencode",
            ("opencode", "run", "-m", "own/gpt-5", "{text}"),
            ("--continue",),
            {"OPENCODE_CONFIG": "{home}/opencode.json", "OPENCODE_DISABLE_AUTOUPDATE": "1"},
            {"opencode.json": json.dumps({"provider": {"own": OPENCODE}})},
        ),
        Program(
            "gemini-cli",
            ("gemini", "-p", "{text}", "--skip-trust", "-m", "gemini-2.5-pro"),
            ("--resume", "latest"),
            {"GOOGLE_GEMINI_BASE_URL": "{base}", "GEMINI_API_KEY": "none", "GEMINI_CLI_HOME": "{home}"},
            {".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}}}'},
            rules="GEMINI.md",
        ),
        Program(
            "aider",
            ("aider", "--model", "openai/gpt-5", "--message", "{text}", "--yes-always", "--no-check-update"),
            ("--restore-chat-history",),
            {"OPENAI_API_BASE": "{base}/v1", "OPENAI_API_KEY": "sk-none", "AIDER_ANALYTICS": "false"},
            rules="",
        ),
    )
}


def ask(program: Program, base: str, text: str, *, work: Path, path: str, goes_on: bool = False) -> None:
    """Let a program answer one message. The user's home is beside the folder of work."""
    home = work.parent / "home"
    known = {"base": base, "home": str(home), "text": text}

    def filled(form: str) -> str:
        return re.sub(r"\{(base|home|text)\}", lambda found: known[found[1]], form)

    for name, content in program.files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(filled(content), "utf-8")
    command = [filled(part) for part in program.command]
    if goes_on and program.name == "codex":  # its text comes last
        command = ["codex", "exec", *program.goes_on, "--skip-git-repo-check", text]
    elif goes_on:
        command += program.goes_on
    environment = {
        **{name: value for name, value in os.environ.items() if name in ("LANG", "TMPDIR")},
        "PATH": os.pathsep.join(filter(None, (path, os.environ["PATH"]))),
        "HOME": str(home),
        "NO_COLOR": "1",
        **{name: filled(value) for name, value in program.environment.items()},
    }
    subprocess.run(command, cwd=work, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=240)


@contextmanager
def provider(reads: str = "") -> Iterator[tuple[str, list[Asked]]]:
    """The address of a provider, without a version, and what it is asked, in order."""
    asked, lock = list[Asked](), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(json.dumps({"object": "list", "data": [{"id": "gpt-5", "object": "model"}]}).encode())

        def do_HEAD(self) -> None:
            self._send(b"")

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            path = self.path.partition("?")[0]
            protocol, streams = _protocol_at(path)
            try:
                body: Json = json.loads(raw)
            except ValueError:
                protocol = None
            if protocol is None:
                self._send(b"{}")
                return
            with lock:
                asked.append(Asked(self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            if path.endswith(("count_tokens", ":countTokens")):
                self._send(json.dumps(protocol.write_count(10)).encode())
                return
            streams = streams or bool(body.get("stream"))
            given = Body({**body, "stream": streams}, lenient=True)
            chat = protocol.read_request(given)
            calls = _reading(dict(chat.values), reads) if reads else []
            message: Json = {"role": "assistant", "content": "Done.", **({"tool_calls": calls} if calls else {})}
            finish = "tool_calls" if calls else "stop"
            usage = {"prompt_tokens": 9, "completion_tokens": 5, "total_tokens": 14}
            head = {"id": "answer-1", "created": 0, "model": str(body.get("model") or "own"), "usage": usage}
            if not streams:
                choice = {"index": 0, "message": message, "finish_reason": finish}
                reply = {**head, "object": "chat.completion", "choices": [choice]}
                self._send(json.dumps(protocol.write_answer(reply, given)).encode())
                return
            writer = protocol.writer(given)
            delta = message | ({"tool_calls": [{"index": 0, **one} for one in calls]} if calls else {})
            head["object"] = "chat.completion.chunk"
            chunks = [
                {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
                {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
            ]
            events = [event for chunk in chunks for event in writer.take(chunk)] + [*writer.end()]
            self._send(b"".join(events), "text/event-stream")

        def _send(self, data: bytes, kind: str = "application/json") -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    class Listener(ThreadingHTTPServer):
        def handle_error(self, request: Any, client_address: Any) -> None:
            pass  # a program that hung up

    listener = Listener(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    thread = threading.Thread(target=listener.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.server_address[1]}", asked
    finally:
        listener.shutdown()
        listener.server_close()
        thread.join()


def _protocol_at(path: str) -> tuple[Protocol | None, bool]:
    """The protocol that is spoken at a path, and whether the path asks for a stream."""
    for protocol in protocols().values():
        if not protocol.converses:
            continue
        for form in filter(None, (protocol.path, protocol.stream_path, protocol.count_path)):
            ending = re.escape(form.partition("?")[0]).replace(r"\{model\}", ".+")
            if re.search(rf"/{ending}$", path):
                return protocol, form == protocol.stream_path
    return None, False


def _reading(chat: Json, file: str) -> list[Json]:
    """A call that reads a file, if a tool can and none was called so far."""
    if any(message.get("tool_calls") for message in chat["messages"]):
        return []
    for tool in chat.get("tools", ()):
        function = tool.get("function", {})
        names = function.get("parameters", {}).get("properties", {})
        key = next((name for name in ("file_path", "filePath", "absolute_path", "cmd", "command") if name in names), "")
        if not key or not re.search("read|shell|exec_command", str(function.get("name")), re.IGNORECASE):
            continue
        value: Any = f"cat {file}" if key in ("cmd", "command") else file
        if names[key].get("type") == "array":
            value = ["cat", file]
        arguments = json.dumps({key: value})
        return [{"id": "call_1", "type": "function", "function": {"name": function["name"], "arguments": arguments}}]
    return []
