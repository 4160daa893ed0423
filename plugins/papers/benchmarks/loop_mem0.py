"""The loop of the assistant with mem0's own package as its memory, beside the skill graph and its variant M0.

    python -m venv mem0 && mem0/bin/pip install "mem0ai==2.2.1"
    python plugins/papers/benchmarks/loop_mem0.py --mem0 mem0/bin/python --folder loops/mem0

M0 is the skill graph without all that mem0 doesn't have. Mem0 is the package, where a text that a user has isn't added
again. Mem0_repeated is examined with texts kept as often as they are learned. All of them learn the same texts from an
episode, and word them alike, see `mem0_memory.py`. Variants have the same users, requests and days.

mem0 searches what one user said, and the users of the exam are new. So it begins the exam with an empty store, in which
it finds the same as among the texts of others, and is faster.

The default seed is one that nothing was chosen on. What is in the folder is not done again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentfw import Component, Episode, hookimpl
from agentfw.loops import Loop, LoopSpec, read_loop
from agentfw.runs import RunFolder
from agentfw.testing import fresh_host
from agentfw_benchmarks import Options, print_markdown, shown, tell

ONCE, REPEATED = MEM0 = "Mem0", "Mem0_repeated"
WISH = re.compile(r"^- s\d+: (For [\w ]+, (?:prefer|avoid|give|provide) [^(\n]*)", re.MULTILINE)
FIGURES = ("judge", "satisfaction")


class Plugin:
    """Offers the memory `mem0` to a host."""

    @hookimpl
    def agentfw_memories(self) -> list[Component]:
        return [
            Component(
                "mem0", "mem0_memory:Mem0Memory", "What mem0's package finds", settings="mem0_memory:Mem0Settings"
            )
        ]


def with_mem0(spec: LoopSpec, python: str) -> LoopSpec:
    """The loop with variants whose memory is mem0."""
    record = json.loads(spec.model_dump_json())
    memory = f'memories=[{{ name = "mem0", settings = {{ path = "{{store}}/mem0", python = "{python}" }} }}]'
    exam = ["memory.mem0.path={store}/mem0-exam"]
    record["variants"][ONCE] = {"about": "mem0's package, each text of a user once", "set": [memory], "exam": exam}
    record["variants"][REPEATED] = {
        "about": "the same, examined with texts as often as they are learned",
        "like": ONCE,
        "set": [memory],
        "exam": [*exam, "memory.mem0.once=false"],
    }
    for name in MEM0:
        record["contrasts"][f"{name}_M0"] = {"about": f"{name} beside M0", "plus": [name], "minus": ["M0"]}
    return LoopSpec.model_validate(record)


def measure(python: str, folder: Path, seeds: Sequence[int], variants: Sequence[str]) -> dict[str, Any]:
    host = fresh_host("agentfw_papers.plugin:plugin", Plugin(), builtins=True)
    spec = with_mem0(read_loop(Path(host.find_spec("loop-assistant").path)), python).chosen(variants)
    spec.check(host)
    for seed in seeds:
        Loop.at(folder, spec, seeds=1, first_seed=seed).do(host)
    together = Loop.at(folder, spec, seeds=max(seeds) - min(seeds) + 1, first_seed=min(seeds))
    exams = {cell.name: cell.exam() for cell in together.cells}
    alike = {
        f"{name}-{seed}": _alike(mine, imitation)
        for seed in seeds
        for name in MEM0
        if (mine := exams.get(f"{name}-{seed}")) and (imitation := exams.get(f"M0-{seed}"))
    }
    return {"seeds": list(seeds), **together.write().to_record(), "alike": alike}


def _alike(mine: RunFolder, imitation: RunFolder) -> dict[str, int]:
    """In how many requests of an exam the same wishes were shown at each turn, and the same was done."""
    both = [sorted(exam.episodes(), key=lambda episode: episode.task.index) for exam in (mine, imitation)]
    pairs = list(zip(*both, strict=True))
    return {
        "requests": len(pairs),
        "same wishes": sum(_wishes(one) == _wishes(other) for one, other in pairs),
        "same calls": sum(_calls(one) == _calls(other) for one, other in pairs),
    }


def _wishes(episode: Episode) -> list[set[str]]:
    return [{found[1] for found in WISH.finditer(message.content)} for message in episode.messages]


def _calls(episode: Episode) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, dict(call.arguments)) for turn in episode.turns for call in turn.calls]


def show(result: dict[str, Any]) -> None:
    print(f"seeds {', '.join(map(str, result['seeds']))}")
    rows = [
        [
            f"{row['variant']}: {row['about']}" if row["means"] else row["about"],
            *(f"{row['means'][name]:.3f}" if row["means"] else "" for name in FIGURES),
            *(_beside(row["differences"].get(name)) for name in FIGURES),
        ]
        for row in [*result["rows"], *result["contrasts"]]
    ]
    print_markdown(["variant", *FIGURES, *(f"{name}, beside" for name in FIGURES)], rows)
    for cell, counts in result["alike"].items():
        print(f"{cell} beside M0: " + ", ".join(f"{what} {count}" for what, count in counts.items()))


def _beside(one: Mapping[str, float] | None) -> str:
    return "" if one is None else shown([one[name] for name in ("difference", "low", "high")], "+.3f")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__,
        mem0=(str, "the Python of an environment with mem0"),
        folder=(Path("loops/mem0"), "directory of the loop"),
        seeds=([12], "of the worlds"),
        variants=(["M0", *MEM0], "beside Full"),
    ).parse_args(arguments)
    return tell(measure(options.mem0, options.folder, options.seeds, options.variants), options.json, show)


if __name__ == "__main__":
    main()
