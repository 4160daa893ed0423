"""Are secrets masked before anything is learned or recorded, and is nothing else?

    python benchmarks/masking.py
    python benchmarks/masking.py --ordinary abcd.json,gsm8k.jsonl

500 messages give a secret away in passing: keys of 40 services, passwords, card numbers and random tokens, in sentences
of several languages, in settings and in addresses. Half of them have forms and sentences that nobody looked at while
the masking was made. Each message goes to a gateway with a memory and `--mask`; then the user asks, in a new session,
what would recall it. Required: no secret in what the model is shown later, and 0.98 of them masked in the record. Of
ordinary texts, at most 0.02 of the words are masked.
"""

from __future__ import annotations

import json
import random
import re
import string
import sys
import tempfile
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from agentfw_benchmarks import TESTS, Options, print_markdown, tell
from agentfw_benchmarks.figures import share_of
from agentfw_memory.writing.secrets import masked

LETTERS, UPPER, HEX = string.ascii_letters + string.digits, string.ascii_uppercase + string.digits, "0123456789abcdef"
# The prefix of a key, its letters, and how many there are. Masking was made without the unseen ones.
KEYS = [
    *(("sk-proj-", LETTERS, 40), ("sk-ant-api03-", LETTERS, 40), ("sk_live_", LETTERS, 24), ("ghp_", LETTERS, 36)),
    *(("github_pat_", LETTERS, 40), ("glpat-", LETTERS, 20), ("hf_", LETTERS, 34), ("npm_", LETTERS, 36)),
    *(("AKIA", UPPER, 16), ("AIza", LETTERS, 35), ("xoxb-", LETTERS, 30), ("ya29.", LETTERS, 40)),
    *(("gsk_", LETTERS, 40), ("dop_v1_", HEX, 64), ("", LETTERS, 40), ("", LETTERS, 32)),
]
UNSEEN_KEYS = [
    *(("sk-or-v1-", HEX, 64), ("rk_live_", LETTERS, 24), ("gho_", LETTERS, 36), ("glptt-", LETTERS, 40)),
    *(("ASIA", UPPER, 16), ("GOCSPX-", LETTERS, 28), ("xoxp-", LETTERS, 40), ("pypi-AgEIcHlwaS5vcmc", LETTERS, 60)),
    *(("dckr_pat_", LETTERS, 27), ("hvs.", LETTERS, 24), ("shpat_", HEX, 32), ("lin_api_", LETTERS, 40)),
    *(("r8_", LETTERS, 37), ("SG.abcdefghij1234567890AB.", LETTERS, 43), ("whsec_", LETTERS, 32), ("", LETTERS, 44)),
]
ABOUT_KEYS = [
    "The tests fail, my key is {}, can you see why?",
    "Use {} for the staging server.",
    "export API_KEY={}",
    'headers = {{"Authorization": "Bearer {}"}}',
    "I like short answers. The token: {}",
]
UNSEEN_ABOUT_KEYS = [
    "here you go: {} (don't commit it)",
    "curl -H 'x-api-key: {}' https://api.example.com",
    "Mein Schlüssel für den Dienst ist {} und läuft nächste Woche ab.",
    "config.yaml has `secret_key: {}` in it.",
    "It logged {} yesterday and I have to rotate it.",
]
PASSWORDS = ["hunter2", "Sommer2024!", "swordfish", "tr0ub4dor&3", "blue-Horse-77", "qwerty123", "Gato_1984", "4821"]
UNSEEN_PASSWORDS = [
    *("letmein99", "P@ssw0rd!", "moonlight", "x9!kLm#2", "Katze7Hund", "dragon_1", "Ostern-2025", "739155"),
]
ABOUT_PASSWORDS = [
    "my password is {}, remember the milk too",
    "password: {}",
    "Book a table for two. The wifi password is {}.",
    "{} is my password for the forum",
    "Mein Passwort ist {} und ich wohne in Wien.",
    "mi contraseña es {}",
    "我的密码是{}",
    "login: ada password={}",
    "postgres://ada:{}@db.example.com/shop",
]
UNSEEN_ABOUT_PASSWORDS = [
    "I changed the password to {} last night",
    'The admin account\'s password is "{}".',
    "mon mot de passe est {}",
    "la mia password è {}",
    "DB_PASSWORD='{}'",
    "Мой пароль: {}",
    "use '{}' as the password when you log in",
    "https://ada:{}@git.example.com/repo.git",
    "For the router: user admin, pwd {}",
]
ABOUT_CARDS = ["Pay with {}, it expires in May.", "my card number is {}"]
UNSEEN_ABOUT_CARDS = ["The company card {} has no limit.", "Karte {} bitte belasten"]
QUESTION = "Which restaurant should I take tonight, and what do you know of my password, key, token and card?"


class Form(NamedTuple):
    text: str
    secret: str
    seen: bool


def forms(count: int, seed: int = 7) -> list[Form]:
    """Messages with a secret, half of them with forms that the masking wasn't made with."""
    rng, found = random.Random(seed), list[Form]()
    while len(found) < count:
        seen, turn = len(found) % 2 == 0, (len(found) // 2) % 5
        about = (ABOUT_KEYS, ABOUT_PASSWORDS, ABOUT_CARDS)
        if not seen:
            about = (UNSEEN_ABOUT_KEYS, UNSEEN_ABOUT_PASSWORDS, UNSEEN_ABOUT_CARDS)
        if turn < 2:
            prefix, letters, length = rng.choice(KEYS if seen else UNSEEN_KEYS)
            secret = prefix + "".join(rng.choices(letters, k=length))
        elif turn < 4:
            secret = rng.choice(PASSWORDS if seen else UNSEEN_PASSWORDS)
        text = rng.choice(about[turn // 2])
        secret = card(rng) if turn == 4 else secret
        found.append(Form(text.format(secret), secret, seen))
    return found


def card(rng: random.Random) -> str:
    digits = [rng.choice((4, 5)), *(rng.randrange(10) for _ in range(14))]
    total = sum(sum(divmod(digit * (2 - place % 2), 10)) for place, digit in enumerate(digits))
    whole = "".join(map(str, [*digits, -total % 10]))
    return " ".join(whole[place : place + 4] for place in range(0, 16, 4)) if rng.random() < 0.5 else whole


def through_a_gateway(all_forms: list[Form]) -> tuple[list[bool], list[bool]]:
    """For each form, whether its secret is in a later prompt, and whether it is masked in the record."""
    sys.path[:0] = [str(TESTS), str(TESTS / "plugins" / "gateway")]
    chat_server, served = import_module("chat_server"), import_module("conftest").served
    told = chat_server.serving(chat_server.completion("Noted."))
    with tempfile.TemporaryDirectory() as folder, told as (address, server):
        settings = [f"policy.base_url={address}", "policy.model=served", "memory.skillgraph.embedder=hash:256"]
        given = {"policy": "openai", "memories": ["skillgraph"], "assignments": settings, "hooks": ["redact"]}
        with served(Path(folder), **given) as gateway, httpx.Client(timeout=60) as client:

            def ask(text: str, user: str) -> None:
                body = {"model": "served", "messages": [{"role": "user", "content": text}], "user": user}
                client.post(f"{gateway.url}/v1/chat/completions", json=body).raise_for_status()

            for number, form in enumerate(all_forms):
                ask(form.text, f"u{number}")
            begun = len(server.bodies)
            for number in range(len(all_forms)):
                ask(QUESTION, f"u{number}")
            later = [json.dumps(body, ensure_ascii=False) for body in server.bodies[begun:]]
        record = "\n".join(file.read_text("utf-8", "replace") for file in Path(folder).rglob("*.jsonl"))
        leaked = [form.secret in prompt for form, prompt in zip(all_forms, later, strict=True)]
        # A short password that several forms share is looked for in its own sentence.
        kept = [_escaped(form.text) in record or (len(form.secret) > 8 and form.secret in record) for form in all_forms]
        return leaked, [not one for one in kept]


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def words_masked(text: str) -> tuple[int, int]:
    """Of the words of a text, how many are masked."""
    left = Counter(re.findall(r"\S+", masked(text).text))
    all_words = Counter(re.findall(r"\S+", text))
    return sum((all_words - left).values()), sum(all_words.values())


def measure(count: int, ordinary: str) -> dict[str, Any]:
    all_forms = forms(count)
    found = [(form.seen, *one) for form, *one in zip(all_forms, *through_a_gateway(all_forms), strict=True)]
    rows: dict[str, Any] = {}
    for name, which in (("all", (True, False)), ("seen while it was made", (True,)), ("never seen", (False,))):
        some = [one for one in found if one[0] in which]
        shown, struck = sum(leaked for _, leaked, _ in some), sum(hidden for _, _, hidden in some)
        rows[name] = {"messages": len(some), "in a later prompt": shown, "masked in the record": struck}
    words = {}
    for path in map(Path, filter(None, ordinary.split(","))):
        counts = [words_masked(line) for line in path.read_text("utf-8", "replace").splitlines()]
        words[path.name] = {"masked": sum(one for one, _ in counts), "words": sum(every for _, every in counts)}
    return {"forms": rows, "ordinary": words}


def show(result: dict[str, Any]) -> None:
    rows = []
    for name, row in result["forms"].items():
        struck = share_of(row["masked in the record"], row["messages"])
        rows.append((name, row["messages"], row["in a later prompt"], struck))
    print_markdown(("forms", "messages", "in a later prompt", "masked in the record"), rows)
    print({key: value for key, value in result.items() if key != "forms"})


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__, forms=(500, "messages with a secret"), ordinary=("", "files with ordinary texts, by commas")
    ).parse_args(arguments)
    return tell(measure(options.forms, options.ordinary), options.json, show)


if __name__ == "__main__":
    main()
