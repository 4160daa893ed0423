"""Two users of one gateway: does one ever get at what is the other's?

    python benchmarks/gateway_isolation.py
    python benchmarks/gateway_isolation.py --attempts 100 --json

Ada and Eve have keys of their own, and a program has a key with which it names its users, Ada and Eve among them. Ada
leads sessions with both, rates them, and the memory learns from them. Eve knows the names of all her sessions, and
tries to read, go on with, rate and end them, to call tools in them, to be recalled what is Ada's, and to see or change
what is kept of Ada: by names of
sessions and users in every place of a request, left out, in other cases and forms of Unicode, with pasted
conversations, with her key, the program's, none or a wrong one. Required: no answer has a word that only Ada was told,
and Ada's record is afterwards what it was.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from agentfw_benchmarks import TESTS, Options, tell

sys.path.insert(0, str(TESTS / "plugins" / "gateway"))

SECRET, WISH, PASTED, REPLY = "rosebud", "violets", "what ada said in public", "I see."
SESSIONS = ("tea", "Trip", "ada.notes")


class Attack:
    """Draws Eve's requests."""

    def __init__(self, seed: int, secrets: dict[str, str], shown: Sequence[str]) -> None:
        self.draw, self.secrets, self.shown = random.Random(seed), secrets, shown

    def request(self) -> tuple[str, str, dict[str, str], bytes | None]:
        """Method, path, headers and body."""
        draw, name = self.draw, self._name()
        body: dict[str, Any] = {"model": "scripted"}
        headers = {"content-type": "application/json", **self._key()}
        query = self._identify(body, headers)
        below = f"/s/{quote(name, safe=draw.choice(['', ':~@+!']), errors='replace')}"
        asked = ["chat", "chat", "messages", "responses", "completions", "embeddings", "messages/count_tokens"]
        what = draw.choice([*asked, "feedback", "end", "call", "read", "list", "memory"])
        if what in ("read", "list"):
            return "GET", (below if what == "read" else "/sessions") + query, headers, None
        if what == "memory":
            method, item = draw.choice(["GET", "DELETE", "PATCH"]), draw.choice(["s1", "s2", "s3", "run/00000-0/0"])
            place = "/memory" if method == "GET" else f"/memory/{self._disguised(item)}"
            return method, quote(place, errors="replace") + query, headers, json.dumps(body | {"text": "eve"}).encode()
        if what in ("feedback", "end", "call"):
            body |= {"value": -1, "words": "eve was here", "id": "1", "name": "forget", "arguments": {}}
            return "POST", f"{below}/{what}{query}", headers, json.dumps(body).encode()
        said = [{"role": "user", "content": PASTED}, {"role": "assistant", "content": REPLY}]
        said = [*draw.choice([[], said]), {"role": "user", "content": "What do I like, and what was said before?"}]
        if draw.random() < 0.5:
            below = ""
            headers |= draw.choice([{}, {"x-agentfw-session": name.encode("utf-8", "replace").decode("latin-1")}])
        path = {"chat": "chat/completions"}.get(what, what)
        text = {"responses": {"input": said}, "completions": {"prompt": PASTED}, "embeddings": {"input": PASTED}}
        body |= text.get(what, {"messages": said, "max_tokens": 50})
        body |= {"stream": True} if draw.random() < 0.2 else {}
        return "POST", f"{below}/v1/{path}{query}", headers, json.dumps(body).encode()

    def _name(self) -> str:
        """What Eve calls a session of Ada's."""
        name = self.draw.choice([*SESSIONS, *self.shown])
        return self._disguised(self.draw.choice([name, name, f"ada:{name}", f"program:{name}", f"eve:../ada:{name}"]))

    def _disguised(self, text: str) -> str:
        forms = [str.upper, str.lower, str.title, lambda one: f"{one} ", lambda one: f"{one}.", lambda one: f"./{one}"]
        forms += [lambda one: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in one)]  # full width
        forms += [lambda one: unicodedata.normalize("NFKD", one), lambda one: one.replace("a", "\u0430")]  # Cyrillic
        forms += [lambda one: f"{one}\u200b", lambda one: f"{one}\x00", lambda one: f"{one}\ud800", quote]
        return self.draw.choice(forms)(text) if self.draw.random() < 0.4 else text

    def _identify(self, body: dict[str, Any], headers: dict[str, str]) -> str:
        """Name Ada, or nobody, in some of the places where a user can be named. Returns the end of the address."""
        query = ""
        for place in ("user", "safety_identifier", "metadata", "query", "header"):
            if self.draw.random() > 0.3:
                continue
            user = self._disguised("ada")
            if place == "metadata":
                body["metadata"] = {"user_id": user}
            elif place == "query":
                query = f"?user={quote(user, safe='', errors='replace')}"
            elif place == "header":
                headers["x-agentfw-user"] = user.encode("utf-8", "replace").decode("latin-1")
            else:
                body[place] = user
        return query

    def _key(self) -> dict[str, str]:
        own = self.secrets["eve"]
        return self.draw.choice(
            [
                *[{"authorization": f"Bearer {own}"}] * 6,
                {"x-api-key": own},
                {"authorization": f"Bearer {own}", "x-api-key": "ada"},
                {"authorization": "Bearer ada"},
                {"authorization": f"Bearer {own[:-1]}"},
                {},
            ]
        )


def attack(attempts: int, seed: int, memory: str, folder: Path) -> dict[str, Any]:
    from killing import start  # type: ignore[import-not-found]

    from agentfw.runs import read_sessions
    from agentfw_plugins.gateway.keys import KeyFile

    keys = KeyFile(folder / "keys.json")
    users = {"ada": "ada", "eve": "eve", "program": None}
    secrets = {name: keys.add(name, user=user) for name, user in users.items()}
    more = ["--memory", memory] if memory else []
    process, url, run = start(folder, "--policy", "scripted", "--set", f'policy.replies=["{REPLY}"]', *more)
    found: dict[str, Any] = {"attempts": attempts}
    try:
        with httpx.Client(base_url=url, timeout=60) as client:
            shown = [ada_leads(client, {"authorization": f"Bearer {secrets[key]}"}) for key in ("ada", "program")]
            before = record_of_ada(read_sessions(run))
            draw = Attack(seed, secrets, [*shown[0], *shown[1]])
            statuses, leaks = Counter[int](), 0
            for _ in range(attempts):
                method, path, headers, content = draw.request()
                try:
                    answer = client.request(method, path, headers=headers, content=content)
                except (httpx.InvalidURL, httpx.LocalProtocolError, UnicodeEncodeError):
                    statuses[0] += 1  # the client itself won't send it
                    continue
                statuses[answer.status_code] += 1
                leaks += SECRET in answer.text or WISH in answer.text
            # The program's key may name Ada. Who leaves the user out, or names another, gets at nothing of hers.
            by_program = {"authorization": f"Bearer {secrets['program']}"}
            for name in (*SESSIONS, *shown[1]):
                for user in ("", "eve", "ADA", "ada "):
                    for path, body in (("", None), ("/feedback", {"value": -1}), ("/end", {}), ("/v1/messages", TURN)):
                        where, named = f"/s/{name}{path}", {"user": user} if user else {}
                        answer = (
                            client.get(where, params=named, headers=by_program)
                            if body is None
                            else client.post(where, json={**body, **named}, headers=by_program)
                        )
                        statuses[answer.status_code] += 1
                        leaks += SECRET in answer.text or WISH in answer.text
        kept = read_sessions(run)
        after = record_of_ada(kept)
    finally:
        process.terminate()
        process.communicate(timeout=60)
    others = [message.content for one in kept if one.task.user != "ada" for message in one.messages]
    return found | {
        "sent": statuses.total(),
        "answers": {str(status): count for status, count in sorted(statuses.items())},
        "answers with a word of Ada's": leaks,
        "messages with a word of Ada's in other sessions": sum(SECRET in one or WISH in one for one in others),
        "sessions of Ada's": len(before),
        "of them changed": sum(before[name] != after.get(name) for name in before) + len(after.keys() - before.keys()),
    }


TURN = {"model": "scripted", "max_tokens": 5, "messages": [{"role": "user", "content": "What was said?"}]}


def ada_leads(client: httpx.Client, headers: dict[str, str]) -> list[str]:
    """Ada's sessions: with names, and one without. The memory learns from what she says of one more."""
    asked = {"model": "scripted", "messages": [{"role": "user", "content": f"My word is {SECRET}."}], "user": "ada"}
    learned = client.post("/s/learned/v1/chat/completions", json=asked, headers=headers)
    learned.raise_for_status()
    rated = {"value": -1, "words": f"I prefer {WISH} on my table.", "turn": 0, "user": "ada"}
    client.post("/s/learned/feedback", json=rated, headers=headers).raise_for_status()
    client.post("/s/learned/end", json={"user": "ada"}, headers=headers).raise_for_status()
    for name in SESSIONS:
        client.post(f"/s/{name}/v1/chat/completions", json=asked, headers=headers).raise_for_status()
    public = {**asked, "messages": [{"role": "user", "content": PASTED}]}
    answer = client.post("/v1/chat/completions", json=public, headers=headers)
    answer.raise_for_status()
    asked["messages"] = [*public["messages"], answer.json()["choices"][0]["message"], *asked["messages"]]
    client.post("/v1/chat/completions", json=asked, headers=headers).raise_for_status()
    return [answer.headers["x-agentfw-session"], "learned"]


def record_of_ada(episodes: Sequence[Any]) -> dict[str, Any]:
    return {one.task.query: one.to_record() for one in episodes if one.task.user == "ada"}


def show(found: dict[str, Any]) -> None:
    for name, value in found.items():
        print(f"{name}: {value}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__, attempts=1000, seed=7, memory=("skillgraph", "memory of the gateway, or an empty text"))
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        return tell(attack(options.attempts, options.seed, options.memory, Path(folder)), options.json, show)


if __name__ == "__main__":
    main()
