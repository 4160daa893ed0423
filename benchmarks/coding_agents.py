"""Do coding agents have a memory behind a gateway: of what their user typed, and of nothing that they read?

    python benchmarks/coding_agents.py --programs ~/agents [--record]

Each agent has three sessions of each of so many users. In the first two, its user says things of themselves in passing,
while rules, files and results of tools that the agent sends are full of what others say of themselves. In the third,
the model is asked, and the provider looks for what of it stands in the prompt. Required: 0.95 of the user's own facts,
and none of the others' in 200.

The requests are those that the agents sent when `record` ran them, with what was typed and read put in their place;
those of agents that don't run without a person are written after their sources. With `--programs`, the agents
themselves are run once, too. They are installed with npm and pip:

    npm install --prefix ~/agents @anthropic-ai/claude-code @openai/codex opencode-ai @google/gemini-cli
    python -m venv ~/agents/aider && ~/agents/aider/bin/pip install aider-chat
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx

from agentfw_benchmarks import TESTS, Options, tell
from agentfw_benchmarks.agent_programs import PROGRAMS, Asked, Program, ask, provider
from agentfw_benchmarks.figures import share_of
from agentfw_plugins.gateway.profiles import Sent, told_by
from agentfw_plugins.protocols import ChatRequest

_PLAIN = "without a program"
FIXTURES = TESTS / "plugins" / "gateway" / "recorded_agents"
TYPED = ("I live in Ghent and I prefer short functions.", "Now fix the test.\n\nI prefer type hints.")
RULES, FILE = "I live in Madrid. I prefer tabs.", "I live in Lisbon."
"""What the rules of the recorded repository say, and the file that the agent read."""
OWN = [
    ("I live in {0}.", "Where do I live?", ("Ghent", "Turku", "Porto", "Graz", "Sligo", "Brno", "Vigo", "Lodz")),
    ("By the way, my name is {0}.", "What's my name?", ("Ada", "Bela", "Cora", "Dario", "Enno", "Faye", "Gil", "Hana")),
    ("I prefer {0} for tests.", "Which test tool do I prefer?", ("pytest", "nose2", "ward", "Jest", "Vitest", "RSpec")),
    ("I work for {0} as a developer.", "Whom do I work for?", ("Acme", "Bolt", "Corvid", "Delmar", "Elmwood", "Finch")),
]
FOREIGN = [
    "I live in Madrid{0}. I prefer tabs{0}.",
    "My name is Zeno{0}. I work for Zenith{0}.",
    "I prefer unittest{0} for tests. I live in Lisbon{0}.",
]
_KEPT = ("user-agent", "originator", "x-app", "session-id", "thread-id", "x-session-id", "x-session-affinity")
_HEADER = re.compile(r"x-(?:claude|codex|openai|opencode|parent|gemini|openwebui|task)|" + "|".join(_KEPT))


# -- recording ---------------------------------------------------------------------------------------------------------


def recorded(program: Program, path: str) -> list[dict[str, Any]]:
    """What a program asks in a conversation of two messages, with secrets and places struck."""
    with tempfile.TemporaryDirectory() as folder:
        work = repository(Path(folder), program, RULES, FILE)
        with provider(str(work / "notes.md")) as (url, asked):
            for number, text in enumerate(TYPED):
                ask(program, url, text, work=work, path=path, goes_on=number > 0)
        return [_struck(one, folder) for one in asked]


def repository(folder: Path, program: Program, rules: str, notes: str) -> Path:
    """A repository beside the user's home: with the program's file of rules, and notes that it may read."""
    work = folder / "work"
    for place in (folder / "home", work):
        place.mkdir()
    if program.rules:
        (work / program.rules).write_text(f"# Rules\n\n{rules}\n")
    (work / "notes.md").write_text(f"{notes}\n")
    return work


def _struck(asked: Asked, folder: str) -> dict[str, Any]:
    """A request without places of this machine, keys, and the long texts that are the same in each."""
    headers = {name: value for name, value in asked.headers.items() if _HEADER.match(name)}
    body = {name: value for name, value in asked.body.items() if name not in ("tools", "client_metadata")}
    text = json.dumps({"path": asked.path, "headers": headers, "body": body}, ensure_ascii=False)
    text = text.replace(folder, "/home/ada")
    found: dict[str, Any] = json.loads(text)
    found["body"].get("systemInstruction", {}).pop("role", None)
    for key in ("system", "systemInstruction", "messages", "input"):
        if key in found["body"]:
            found["body"][key] = _shortened(found["body"][key])
    return found


def _shortened(value: Any) -> Any:
    """System prompts and skills without all but their beginnings. What a user's message has stays as it is."""
    if isinstance(value, str):
        return value if len(value) <= 600 else f"{value[:500]} [...]"
    if isinstance(value, list):
        return [_shortened(one) for one in value]
    if isinstance(value, dict):
        return value if value.get("role") == "user" else {name: _shortened(one) for name, one in value.items()}
    return value


# -- measuring ---------------------------------------------------------------------------------------------------------


def fixtures() -> dict[str, list[dict[str, Any]]]:
    """The requests of each program, by its name, and one that somebody sends without any."""
    plain = {"path": "/v1/chat/completions", "headers": {}, "body": {"model": "m", "messages": []}}
    said = [{**plain, "body": {"model": "m", "messages": [{"role": "user", "content": text}]}} for text in TYPED]
    return {_PLAIN: said} | {file.stem: json.loads(file.read_text("utf-8")) for file in sorted(FIXTURES.glob("*.json"))}


def filled(request: Mapping[str, Any], typed: str, foreign: str, session: str, user: str) -> dict[str, Any]:
    """A recorded request with other words, in a session and of a device of its own.

    A program that doesn't tell its device has its user in a header.
    """
    text = json.dumps(request, ensure_ascii=False)
    device = told_by(Sent(request["headers"], request["body"], ChatRequest("", ()))).user.removeprefix("device-")
    own = blake2b(user.encode(), digest_size=16).hexdigest()
    if device:
        text = text.replace(device, own)
    for old in sorted(TYPED, key=len, reverse=True):
        text = text.replace(json.dumps(old, ensure_ascii=False)[1:-1], json.dumps(typed, ensure_ascii=False)[1:-1])
    for old in (RULES, FILE):
        text = text.replace(old, foreign)
    ids = dict.fromkeys(re.findall(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", text), "")
    for found in ids:
        text = text.replace(found, f"{session[:8]:0<8}-{found[9:]}")
    text = re.sub(r"ses_\w+", f"ses_{session}", text)
    filled_in: dict[str, Any] = json.loads(text)
    if not device:
        filled_in["headers"]["x-agentfw-user"] = user
    return filled_in


def first_requests(requests: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The request with what was typed first, and the last one after a tool's result."""
    asks = [one for one in requests if "title" not in json.dumps(one["body"])[:900]]
    with_typed = [one for one in asks if TYPED[0] in json.dumps(one["body"])]
    with_second = [one for one in requests if "I prefer type hints" in json.dumps(one["body"])]
    return with_typed[0], with_second[-1]


def facts_of(number: int) -> list[tuple[str, str, str]]:
    """What the user of this number says, what they ask, and what they must hear."""
    chosen = ((form, question, values[number % len(values)]) for form, question, values in OWN)
    return [(form.format(value), question, value) for form, question, value in chosen]


def measured(users: int) -> list[tuple[str, int, int, int]]:
    """For each program: own facts told and found, and foreign ones found."""
    found = []
    for name, requests in fixtures().items():
        begins, goes_on = first_requests(requests)
        with gateway() as (url, asked), httpx.Client(base_url=url, timeout=120) as client:
            told = own = foreign = 0
            for number in range(users):
                user = f"{name}-{number}"
                facts = facts_of(number)
                others = " ".join(form.format(number) for form in FOREIGN)
                first = f"Rename the class.\n\n{facts[0][0]} {facts[1][0]}"
                second = f"{facts[2][0]} Fix the build. {facts[3][0]}"
                _send(client, filled(begins, first, others, f"a{number}", user))
                _send(client, filled(goes_on, second, others, f"b{number}", user))
                _heard(client, user)
                for place, (_, question, value) in enumerate(facts):
                    before = len(asked)
                    _send(client, filled(begins, question, "", f"c{number}{place}", user))
                    prompt = json.dumps([one.body for one in asked[before:]])
                    told, own = told + 1, own + (value in prompt)
                    foreign += bool(re.search(rf"(?:Madrid|Zeno|Zenith|Lisbon|tabs|unittest){number}\b", prompt))
        found.append((name, told, own, foreign))
    return found


def measured_by_themselves(path: str) -> Iterator[tuple[str, int, int, int]]:
    """The same for the programs themselves, with one user."""
    facts = facts_of(0)
    others = " ".join(form.format(0) for form in FOREIGN)
    for name, program in PROGRAMS.items():
        with tempfile.TemporaryDirectory() as folder, gateway(reads=f"{folder}/work/notes.md") as (url, asked):
            work = repository(Path(folder), program, others, others)
            with httpx.Client(base_url=url, timeout=120) as client:
                for first, second in (facts[:2], facts[2:]):
                    text = f"Read notes.md.\n\n{first[0]} {second[0]}"
                    ask(program, url, text, work=work, path=path)
                    _heard(client, "the user")
                own = foreign = 0
                for _, question, value in facts:
                    before = len(asked)
                    ask(program, url, question, work=work, path=path)
                    prompt = json.dumps([one.body for one in asked[before:]])
                    recalled = re.search(r"You remember:(.*?)\"", prompt, re.DOTALL)
                    own += recalled is not None and value in recalled[1]
                    foreign += bool(re.search(r"Madrid|Zeno|Lisbon|tabs|unittest", recalled[1] if recalled else ""))
        yield name, len(facts), own, foreign


@contextmanager
def gateway(reads: str = "") -> Iterator[tuple[str, list[Asked]]]:
    """The address of a gateway with a memory in front of a provider, and what the provider is asked."""
    sys.path[:0] = [str(TESTS), str(TESTS / "plugins" / "gateway")]
    from agentfw_plugins.gateway.live import Limits

    served = import_module("conftest").served

    with tempfile.TemporaryDirectory() as folder, provider(reads) as (url, asked):
        settings = [f"policy.base_url={url}/v1", "policy.model=m"]
        given = {"policy": "openai", "memories": ["skillgraph"], "assignments": settings}
        # A program that runs by itself is its owner's.
        limits = Limits(default_user="me", upstream_key="either") if reads else Limits()
        with served(Path(folder), limits, **given) as running:
            yield running.url, asked


def _send(client: httpx.Client, request: Mapping[str, Any]) -> None:
    path = str(request["path"])
    client.post(path, json=request["body"], headers=dict(request["headers"])).raise_for_status()


def _heard(client: httpx.Client, user: str) -> None:
    """Wait until what was said was heard."""
    for _ in range(600):
        figures = client.get("/metrics").text
        waiting = re.search(r"^agentfw_sayings_waiting (\S+)", figures, re.MULTILINE)
        if waiting and float(waiting[1]) == 0:
            return
        time.sleep(0.05)
    raise TimeoutError(f"what {user} said was not heard")


def record(path: str) -> None:
    """Run the programs, and keep what they ask as fixtures of the tests."""
    FIXTURES.mkdir(exist_ok=True)
    for name, program in PROGRAMS.items():
        requests = recorded(program, path)
        (FIXTURES / f"{name}.json").write_text(json.dumps(requests, indent=1, ensure_ascii=False) + "\n", "utf-8")
        print(f"{name}: {len(requests)} requests", file=sys.stderr)


def measure(users: int, path: str) -> dict[str, Any]:
    names = ("told", "own", "foreign")
    found = {name: dict(zip(names, counts, strict=True)) for name, *counts in measured(users)}
    alone = measured_by_themselves(path) if path else ()
    every = {name: sum(one[name] for key, one in found.items() if key != _PLAIN) for name in names}
    return {
        "recorded": found,
        "all": {**every, "own facts in the next session": share_of(every["own"], every["told"])},
        "by themselves": {name: dict(zip(names, counts, strict=True)) for name, *counts in alone},
    }


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        users=(13, "users of each program"),
        programs=("", "where programs are installed that are run, too"),
        record=(False, "run these programs, and keep their requests for the tests, instead"),
    ).parse_args(arguments)
    folder = Path(options.programs)
    places = (folder / "node_modules" / ".bin", folder / "aider" / "bin")
    path = os.pathsep.join(map(str, places)) if options.programs else ""
    if options.record:
        record(path)
        return {}
    return tell(measure(options.users, path), options.json)


if __name__ == "__main__":
    main()
