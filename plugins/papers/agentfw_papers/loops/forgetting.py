"""Takes a user out of a loop: out of its memories, reward models, optimizers and records.

    receipt = forget(Path("loops/assistant"), "ana", host)

The loop must not be at work, and each of its runs must be complete: an incomplete one would play the user's tasks again
when it is resumed. What can't forget, or lies outside of the loop's folder, is named before anything is deleted.
"""

from __future__ import annotations

import asyncio
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agentfw import Host, Memory, Optimizer, RewardModel
from agentfw.errors import UsageError
from agentfw.runs import RunFolder, drop_records, sealed, unsealed, write_whole

from .loop import Loop
from .spec import LoopSpec


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was deleted."""

    user: str
    records: int = 0
    """Lines of the journals: episodes, metrics, failures."""
    runs: int = 0
    """Runs that had such lines."""
    optimizers: int = 0
    """States of optimizers that knew the user."""
    memories: Mapping[str, int] = field(default_factory=dict)
    """What memories deleted, by the name of what it was."""
    models: int = 0
    """Reward models that knew the user."""

    @property
    def empty(self) -> bool:
        """Whether nothing was known of the user. Files of an index are made again in any case."""
        kept = any(self.memories.values())
        return not (self.records or self.optimizers or self.models or kept)

    def to_record(self) -> dict[str, Any]:
        return asdict(self)


def forget(folder: Path, user: str, host: Host) -> Receipt:
    """Delete all data of a user from a loop, and compute its tables again."""
    file = folder / "loop.json"
    if not user:
        raise UsageError("no user is named", fix="name whom to delete")
    if not file.exists():
        raise UsageError(f"{folder} is not the folder of a loop", fix="pass the --folder of agentfw loop")
    runs = [RunFolder.open(path.parent) for path in sorted(folder.glob("cells/*/*/*/run.json"))]
    unfinished = [run for run in runs if run.summary() is None]
    if unfinished:
        raise UsageError(
            f"{unfinished[0].path} is not complete", fix="finish the loop first: repeat the command that began it"
        )
    spec = LoopSpec.model_validate_json(file.read_text("utf-8"))
    memories, models = dict[str, tuple[Memory, Path]](), dict[str, RewardModel]()
    for run in runs:
        # The memories of a run, each once for the store that it has.
        found = {}
        for called, settings in _choices(run, "memories"):
            kept = host.create("memory", called, settings)
            assert isinstance(kept, Memory)
            if type(kept).forget is Memory.forget:
                raise UsageError(f"the memory {called} can't forget a user", fix="delete its data by hand")
            place = str(settings.get("path", ""))
            if place:
                _check_inside(place, folder, f"the memory {called}")
            found[f"{called} {place or run.path}"] = kept, run.path
        memories |= found
        models |= _models(run, folder, spec, host)
    with ExitStack() as locks:
        for run in runs:
            run.lock()
            locks.callback(run.unlock)
        counts = [_forget_records(run, user) for run in runs]
        forgot = Counter[str]()
        for memory, home in memories.values():
            forgot.update(asyncio.run(_forget_memory(memory, home, user)))
        receipt = Receipt(
            user,
            records=sum(counts),
            runs=sum(map(bool, counts)),
            optimizers=sum(_forget_state(run, user, host) for run in runs),
            memories={name: count for name, count in forgot.items() if count},
            models=sum(asyncio.run(model.forget(user)) for model in models.values()),
        )
    seeds = max((int(path.name.rpartition("-")[2]) for path in folder.glob("cells/*-*")), default=1)
    Loop(folder, spec, range(1, 1 + seeds)).write()
    return receipt


def _choices(run: RunFolder, key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for choice in run.about["spec"].get(key, ()):
        yield str(choice["name"]), dict(choice.get("settings", {}))


def _models(run: RunFolder, folder: Path, spec: LoopSpec, host: Host) -> dict[str, RewardModel]:
    """The reward models in the loop's folder that have learned from users."""
    found = dict[str, RewardModel]()
    for name, settings in _choices(run, "rewards"):
        if name not in spec.settled:
            continue
        homes = [str(settings[spec.settled[name]]), *map(str, (run.path / "rewards").glob(name))]
        for home in homes:
            _check_inside(home, folder, f"the reward {name}")
            model = host.create("reward", name, {**settings, spec.settled[name]: home})
            assert isinstance(model, RewardModel)
            if type(model).forget is RewardModel.forget:
                raise UsageError(f"the reward {name} can't forget a user", fix="delete its data by hand")
            found[home] = model
    return found


def _check_inside(path: str, folder: Path, whose: str) -> None:
    """What lies elsewhere may belong to others. A relative path is another one in another working directory."""
    place = Path(path).resolve()
    if not place.is_relative_to(folder.resolve()) or not place.exists():
        raise UsageError(
            f"{whose} has its data in {path}, which is not there or not in {folder}",
            fix="work in the directory in which the loop was begun, or delete the data there by hand",
        )


async def _forget_memory(memory: Memory, home: Path, user: str) -> Mapping[str, int]:
    memory.open(home)
    try:
        return await memory.forget(user)
    finally:
        await memory.close()


def _forget_records(run: RunFolder, user: str) -> int:
    """Write the journals of a run again without the lines of a user. Return their number."""
    evaluations = sorted(run.path.glob("evaluations/*"))
    gone = sum(
        drop_records(place / f"{journal}.jsonl", lambda line: _mentions(line, user))
        for place in (run.path, *sorted(run.path.glob("rollouts/*")), *evaluations)
        for journal in ("metrics", "episodes", "failed", "annotations")
    )
    # Otherwise the evaluations that the user was in would count as incomplete, also those of a call that was killed.
    whole = run.evaluation(int(evaluations[-1].name) if evaluations else 0).count()
    about = {**run.about, "episodes": whole}
    write_whole(run.path / "run.json", json.dumps(about, indent=2, ensure_ascii=False) + "\n")
    run.mark_journals()
    for page in ("report.html", "curve.svg"):  # they show episodes; `agentfw report` writes them again
        (run.path / page).unlink(missing_ok=True)
    return gone


def _mentions(value: object, user: str) -> bool:
    """Whether a record is about a user: one of its values, at any depth, is the user's name."""
    if isinstance(value, str):
        return value == user
    if isinstance(value, Mapping):
        return any(_mentions(one, user) for one in value.values())
    return isinstance(value, list) and any(_mentions(one, user) for one in value)


def _forget_state(run: RunFolder, user: str, host: Host) -> bool:
    """Take a user out of the state of a training's optimizer."""
    choice = run.about["spec"].get("optimizer")
    file = run.path / "state.json"
    if not choice or not file.exists():
        return False
    optimizer = host.create("optimizer", str(choice["name"]), dict(choice.get("settings", {})))
    assert isinstance(optimizer, Optimizer)
    state = unsealed(file.read_text("utf-8"))
    optimizer.restore(state["optimizer"])
    if not optimizer.forget(user):
        return False
    shutil.rmtree(run.path / "states", ignore_errors=True)  # the user is in what is kept of earlier updates
    write_whole(file, sealed({**state, "optimizer": optimizer.state()}))
    return True
