"""Pasted text: does a gateway remember anything of what its users paste, on wordings that no rule was made with?

    python benchmarks/gateway_pasted.py
    python benchmarks/gateway_pasted.py --part first --json

Each user sends one message with something that somebody else wrote, such as a forwarded mail, a chat log, a page, a
poem, an application or a table. It states facts and wishes in the first person. Some users say something about
themselves as well. Afterwards the memory is asked for all that it keeps of the user: nothing that was pasted may be in
it, and what the user said should be. Required: none of what was pasted.

The wordings are in three parts. The rules were mended after the 84 of `first` had been measured and looked at, and
again after the 36 of `second`. The 60 of `third`, of other kinds and in eleven languages, were written before that, and
measured once. With them are 20 messages of several parts in which nothing is pasted.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx
from gateway_memory import talk, until_heard

from agentfw_benchmarks import TESTS, Options, tell

sys.path.insert(0, str(TESTS / "plugins" / "gateway"))


def measure(part: str, memory: str, folder: Path) -> dict[str, Any]:
    from killing import start  # type: ignore[import-not-found]

    wordings = json.loads(files("agentfw_benchmarks").joinpath("pasted_text.json").read_text("utf-8"))[part]
    sent = [(kind, number, one) for kind, rows in wordings.items() for number, one in enumerate(rows)]
    process, url, _ = start(folder, "--policy", "scripted", "--set", 'policy.replies=["I see."]', "--memory", memory)
    lost = list[dict[str, Any]]()
    kept, own, said = {kind: list[dict[str, Any]]() for kind in wordings}, 0, 0
    try:
        with httpx.Client(base_url=url, timeout=60) as client:
            for kind, number, one in sent:
                user = f"{kind.replace(' ', '-')}-{number}"
                talk(client, user, user, [one["text"]])
                until_heard(client, user)
                items = client.get("/memory", params={"user": user}).raise_for_status().json()["items"]
                texts = [item["text"] for item in items]
                found = [value for value in one["pasted"] if any(value in text for text in texts)]
                if found:
                    kept[kind].append({"message": number, "kept": texts})
                for value in one.get("own", []):
                    said += 1
                    if any(value in text for text in texts):
                        own += 1
                    else:
                        lost.append({"kind": kind, "message": number, "lost": value})
    finally:
        process.terminate()
        process.communicate(timeout=60)
    count = sum(map(len, kept.values()))
    return {
        "part": part,
        "messages with something pasted": sum(bool(one["pasted"]) for _, _, one in sent),
        "with something pasted in memory": count,
        "by kind": {kind: len(rows) for kind, rows in kept.items()},
        "of what users said themselves, kept": [own, said],
        "kept though pasted": kept,
        "lost though said": lost,
    }


def show(found: dict[str, Any]) -> None:
    for name, value in found.items():
        print(f"{name}: {json.dumps(value, ensure_ascii=False)}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    part, memory = ("third", "part of the wordings: first, second or third"), ("skillgraph", "memory of the gateway")
    parser = Options(__doc__, part=part, memory=memory)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(options.part, options.memory, Path(folder))
    return tell(found, options.json, show)


if __name__ == "__main__":
    main()
