"""The gateway: exact tokens, `kill -9`, and hostile input. gateway_chaos.py has what fails and who leaves.

    python benchmarks/gateway.py tokens --sessions 100
    python benchmarks/gateway.py kill --kills 50
    python benchmarks/gateway.py hostile --requests 10000

`tokens`: random sessions with tools, branches, retries and edits, with a small model; do the recorded tokens equal
those that the policy drew, and does a learner agree about their logprobs within 1e-5? `kill`: a gateway under load is
killed at random moments; is all that it had answered on disk? `hostile`: mutated requests.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx

from agentfw_benchmarks import TESTS, Options, make_model, tell

sys.path.insert(0, str(TESTS / "plugins" / "gateway"))


def tokens(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    from random_sessions import Noting, lead  # type: ignore[import-not-found]

    from agentfw.runs import read_sessions
    from agentfw_plugins.gateway.app import Gateway
    from agentfw_plugins.gateway.live import opened
    from agentfw_plugins.gateway.sessions.session_finder import LiveSessionFinder
    from agentfw_plugins.learners.model_learner import LoraLearner
    from agentfw_plugins.learners.settings import LoraSettings
    from agentfw_plugins.serving import serving

    model = options.model or make_model(folder / "model")
    live = opened(folder, policy="transformers", assignments=[f"policy.model={model}", "policy.device=cpu"])
    noting = Noting(live.assembly.policy.inside)
    live.assembly.policy.inside = noting

    async def run() -> None:
        async with (
            live,
            httpx.AsyncClient(timeout=600) as client,
            serving(Gateway(LiveSessionFinder(live)).app, "127.0.0.1", 0) as url,
        ):
            await asyncio.gather(*(lead(client, f"{url}/s/s{i}/v1", i) for i in range(options.sessions)))

    asyncio.run(run())
    episodes = read_sessions(live.folder.path)
    turns = [turn for episode in episodes for turn in episode.turns]
    recorded = sorted((turn.prompt_ids, turn.token_ids, turn.logprobs) for turn in turns)
    drawn = sorted((one.prompt_ids, one.token_ids, one.logprobs) for one in noting.drawn)
    learner = LoraLearner(LoraSettings(model=str(model), device="cpu"))
    learner.open(folder)
    apart: list[float] = []
    for turn in turns:
        found = learner.logprobs(turn.prompt_ids, turn.token_ids)
        apart += [abs(a - b) for a, b in zip(found, turn.logprobs, strict=True)]
    learner.close()
    return {
        "sessions": len(episodes),
        "turns": len(turns),
        "tokens": sum(len(turn.token_ids) for turn in turns),
        "branches": sum(len({turn.shown for turn in episode.turns}) for episode in episodes),
        "recorded are those that were drawn": recorded == drawn,
        "largest difference of a logprob": max(apart),
        "tokens with a difference above 1e-5": sum(each > 1e-5 for each in apart),
    }


def kill(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    from killing import kill_under_load, lost  # type: ignore[import-not-found]

    draw, answered, gone, sessions = random.Random(options.seed), 0, 0, 0
    from agentfw.runs import read_sessions

    for number in range(options.kills):
        run, known = kill_under_load(folder / str(number), draw.uniform(0.02, 1.0))
        answered += len(known)
        gone += len(lost(run, known))
        sessions += len(read_sessions(run))
    return {"kills": options.kills, "answered": answered, "lost": gone, "sessions read": sessions}


def hostile(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    from killing import start
    from mutations import mutated  # type: ignore[import-not-found]

    process, url, _run = start(folder, "--policy", "scripted", "--set", 'policy.replies=["yes"]', "--model", "any")
    found: dict[str, int] = {}
    try:
        with httpx.Client(timeout=20) as client:
            for number in range(options.requests):
                path, raw, headers = mutated(number)
                try:
                    status = str(client.post(f"{url}{path}", content=raw, headers=headers).status_code)
                except (httpx.InvalidURL, httpx.LocalProtocolError):
                    status = "not sent by the client"
                found[status] = found.get(status, 0) + 1
        alive = process.poll() is None
    finally:
        process.terminate()
        _out, err = process.communicate(timeout=60)
    return {
        "requests": options.requests,
        "answers": dict(sorted(found.items())),
        "of 500 and above": sum(count for status, count in found.items() if status >= "5" and status.isdigit()),
        "alive": alive,
        "exit code": process.returncode,
        "lines on stderr": len(err.splitlines()),
        "the first of them": err.splitlines()[:3],
    }


def show(found: dict[str, Any]) -> None:
    for name, value in found.items():
        print(f"{name}: {value:.4g}" if isinstance(value, float) else f"{name}: {value}")


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        sessions=100,
        model=("", "folder of a model; default: a random one is made"),
        kills=50,
        requests=10_000,
        seed=7,
    )
    measures = {"tokens": tokens, "kill": kill, "hostile": hostile}
    parser.add_argument("what", choices=measures)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        found = measures[options.what](options, Path(folder))
    return tell(found, options.json, show)


if __name__ == "__main__":
    main()
