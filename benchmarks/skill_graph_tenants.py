"""Whether each of a hundred tenants with twenty skills recalls its own skills, all ten of them, and no others.

    python benchmarks/skill_graph_tenants.py --mem0 /tmp/mem0/bin/python

A recall asks for ten skills, and a hit counts if it is the tenant's own. Here a tenant is a tenant of one file. For
mem0 it is a user id that the search is filtered by.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agentfw_benchmarks import Options, median_of, tell
from agentfw_benchmarks.mem0_side import Mem0
from agentfw_benchmarks.skill_texts import EMBEDDER, Texts
from agentfw_memory import NewSkill, SkillGraph

K = 10


def measure(tenants: int, each: int, mem0: str, seed: int, folder: Path) -> dict[str, Any]:
    texts = Texts(seed)
    own = {f"tenant{place}": [texts.text() for _ in range(each)] for place in range(tenants)}
    queries = {tenant: texts.text() for tenant in own}
    found: dict[str, list[float]] = {"own": [], "others": [], "mem0": []}
    for tenant, mine in own.items():
        with SkillGraph.open(folder / "skills.db", tenant=tenant, embedder=EMBEDDER) as graph:
            graph.add_skills([NewSkill("somebody", text, visibility="shared") for text in mine])
    for tenant, mine in own.items():
        with SkillGraph.open(folder / "skills.db", tenant=tenant) as graph:
            hits = [hit.skill.text for hit in graph.recall(queries[tenant], user="somebody else", k=K)]
        found["own"].append(sum(text in mine for text in hits))
        found["others"].append(sum(text not in mine for text in hits))
    if mem0:
        other = Mem0(mem0, folder / "mem0")
        pairs = [(text, tenant) for tenant, mine in own.items() for text in mine]
        other.fill([text for text, _ in pairs], [tenant for _, tenant in pairs])
        for tenant, mine in own.items():
            found["mem0"].append(sum(text in mine for text in other.search(queries[tenant], tenant, K)[1]))
        other.close()
    means = {name: sum(values) / len(values) for name, values in found.items() if values}
    return {
        "tenants": tenants,
        "skills each": each,
        "k": K,
        "own of ten": means["own"],
        "recall of own": means["own"] / K,
        "of other tenants": means["others"],
        "worst tenant": min(found["own"]),
        "mem0, own of ten": means.get("mem0"),
        "mem0, median": median_of(found["mem0"]) if found["mem0"] else None,
    }


def show(result: dict[str, Any]) -> None:
    print(f"{result['tenants']} tenants of {result['skills each']} skills, {K} asked for")
    print(f"  own found      {result['own of ten']:6.2f} of {K} (the worst tenant {result['worst tenant']})")
    print(f"  others' found  {result['of other tenants']:6.2f}")
    if result["mem0, own of ten"] is not None:
        print(f"  mem0           {result['mem0, own of ten']:6.2f} of {K}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    mem0 = ("", "Python with mem0ai 2.2 to compare with")
    options = Options(__doc__, tenants=100, each=20, mem0=mem0, seed=7).parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        result = measure(options.tenants, options.each, options.mem0, options.seed, Path(name))
    return tell(result, options.json, show)


if __name__ == "__main__":
    main()
