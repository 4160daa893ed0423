"""Every file of a run, a training, a memory and a gateway, hurt in four ways: is anything taken for done, or closed?

Each file is flipped (one bit in its middle), cut in half, emptied, or removed, in a copy of the folder. Then `agentfw
runs show` and `agentfw report` must open it, or name the file that keeps them from it. A run with a file that holds its
results must not be called done, and a training with a damaged version must be offered the whole one before. A memory
must open, or name its file. What a gateway keeps (its record, with annotations and spans, keys, spendings, variants and
memory) must be read by every command that reads it, or be named, and no key is valid any more that can't be read. A
traceback is a failure everywhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from agentfw import Message
from agentfw.errors import AgentfwError
from agentfw.runs import Journal
from agentfw_benchmarks import Options, tell
from agentfw_benchmarks.places import SITE
from agentfw_cli.main import main as agentfw
from agentfw_memory import SkillGraph
from agentfw_plugins.gateway.live import opened
from agentfw_plugins.view.annotations import Target, annotate

RUN = ("run", "guessing", "--policy", "hashing", "--episodes", "3")
TRAINING = (
    *("train", "bandit", "--policy", "biased", "--optimizer", "centred", "--learner", "bias", "--updates", "3"),
    *("--set", "tasks=2", "--set", "evaluation.tasks=3"),
)
NO_RESULTS = ("report.html", "curve.svg", "lock", "calls.jsonl", "package/", "states/", "learner/")
"""Files that show, explain or repeat a run. Its results are elsewhere, so without them it is still done."""


def called(*words: str) -> tuple[int, str, str]:
    """The exit code of a command, and what it wrote."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            agentfw(list(words))
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
    return code, out.getvalue(), err.getvalue()


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :] if content else b""


WAYS: dict[str, Callable[[bytes], bytes | None]] = {
    "flipped": flipped,
    "cut": lambda content: content[: len(content) // 2],
    "emptied": lambda content: b"",
    "removed": lambda content: None,
}


def hurt_copies(folder: Path, room: Path) -> Iterator[tuple[str, str, Path]]:
    """A copy of the folder for each of its files and each way; what isn't changed by it is left out."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        name, content = file.relative_to(folder).as_posix(), file.read_bytes()
        copy = room / folder.name
        for way, change in WAYS.items():
            if (changed := change(content)) == content:
                continue
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(folder, copy)
            if changed is None:
                (copy / name).unlink()
            else:
                (copy / name).write_bytes(changed)
            yield name, way, copy


def judged_run(name: str, copy: Path, newest: Sequence[str]) -> str:
    """What is wrong with how a damaged run is treated. Empty if nothing is."""
    code, out, err = called("runs", "show", str(copy), "--json")
    if "Traceback" in err:
        return "traceback"
    if code:
        return "" if name == "run.json" and "run.json" in err else f"show ended with {code}: {err.strip()[:150]}"
    if json.loads(out)["state"] == "done" and not name.startswith(NO_RESULTS):
        return "done"
    code, _, err = called("report", str(copy))
    if code and name.rpartition("/")[2] not in err:
        return f"report ended with {code}: {err.strip()[:150]}"
    if name in (*newest, "state.json"):
        code, _, err = called("runs", "resume", str(copy), "--set", "updates=4", "--quiet")
        if code and "--from-update" not in err:
            return f"no way on: {err.strip()[:150]}"
        if not code:
            return "trained on"
    return ""


def judged_memory(name: str, copy: Path) -> str:
    code, _, err = called("memory", "stats", "--store", str(copy / name), "--tenant", "team")
    return "traceback" if "Traceback" in err else "" if not code or name in err else err.strip()[:150]


def served(root: Path) -> Path:
    """The directory of runs of a gateway in which somebody has said and rated something."""
    runs = root / "served"

    async def lead() -> None:
        settings = ['policy.replies=["noted"]', f"memory.skillgraph.path={runs / 'memory.db'}"]
        async with opened(runs, policy="scripted", memories=["skillgraph"], assignments=settings) as live:
            for name in ("tea", "cake"):
                session = live.begin(name, "ada")
                await session.answer([Message("user", f"My neighbour likes {name}.")])
                session.feedback(1.0)
                await live.keep(session)
            await live.conclude(session)
        annotate(live.folder.path, Target("", session.episode.id, 0, "ada"), "rating", "5")
        (live.folder.path / "spans").mkdir()
        with Journal.open(live.folder.path / "spans" / "tea.jsonl") as journal:
            journal.append({"spans": [{"trace": "1", "span": "2", "name": "look", "start": 0.0, "end": 1.0}]})

    asyncio.run(lead())
    called("serve", "keys", "add", "ada", "--runs", str(runs))
    prompt = root / "prompt.txt"
    prompt.write_text("Be brief.")
    called("serve", "variants", "start", "--variant", f"brief:prompt={prompt}", "--runs", str(runs))
    return runs


def judged_served(name: str, copy: Path) -> str:
    [run] = [path for path in copy.iterdir() if path.is_dir() and not path.name.startswith(".")]
    commands = [("serve", *each.split(), "--runs", str(copy)) for each in ("usage", "keys list", "variants")]
    commands += [("runs", "list", "--runs", str(copy)), ("runs", "show", str(run)), ("report", str(run))]
    commands += [("view", "--text", f"{run.name}", "--runs", str(copy)), ("view", run.name, "--runs", str(copy))]
    commands[-1] += ("--bundle", str(copy / "site"))
    for command in commands:
        code, _, err = called(*command)
        if "Traceback" in err:
            return f"{' '.join(command[:3])}: traceback"
        named = name.rpartition("/")[2] in err or (name == "variants.json" and "nothing is compared" in err)
        if code and not named:
            return f"{' '.join(command[:3])} ended with {code}: {err.strip()[:150]}"

    async def goes_on() -> None:
        async with opened(copy, resume=str(run)) as live:
            session = live.begin("later", "ada")
            await session.answer([Message("user", "Hello.")])
            await live.keep(session)

    try:
        asyncio.run(goes_on())
    except AgentfwError as error:
        if name.rpartition("/")[2] not in f"{error.message} {error.fix}":
            return f"it isn't served: {error.message[:150]}"
    return ""


def measure() -> dict[str, Any]:
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="agentfw-damage-") as made:
        root, room = Path(made), Path(made) / "copies"
        os.environ |= {"XDG_CONFIG_HOME": str(root / "config"), "AGENTFW_TRUST": str(root)}
        sys.path.insert(0, str(SITE))
        os.chdir(root)
        for kind, words in {"run": RUN, "training": TRAINING}.items():
            code, out, err = called(*words, "--json")
            if code:
                raise SystemExit(err)
            folder = Path(json.loads(out)["folder"])
            state = folder / "state.json"
            newest = list(json.loads(state.read_text("utf-8"))["files"]) if state.exists() else []
            found[kind] = damaged(folder, room, partial(judged_run, newest=newest))
        found["gateway"] = damaged(served(root), room, judged_served)
        memory = root / "memory"
        memory.mkdir()
        with SkillGraph.open(memory / "graph.db", tenant="team", embedder="hash:16") as graph:
            for number in range(20):
                graph.add(owner="ana", text=f"offer slot {number}")
        found["memory"] = damaged(memory, room, judged_memory)
    return found


def damaged(folder: Path, room: Path, judged: Callable[[str, Path], str]) -> dict[str, Any]:
    """What is wrong with how copies are treated, each with a file that is hurt."""
    rows = [(name, way, judged(name, copy)) for name, way, copy in hurt_copies(folder, room)]
    wrong = [{"file": name, "how": way, "what": what} for name, way, what in rows if what]
    return {"files": len({name for name, _, _ in rows}), "damaged": len(rows), "wrong": wrong}


def main(arguments: list[str] | None = None) -> Any:
    options = Options(__doc__).parse_args(arguments)
    return tell(measure(), options.json)


if __name__ == "__main__":
    main()
