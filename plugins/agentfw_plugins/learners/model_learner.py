"""The learners `lora` and `sft`: they train a model in this process, from opening it to resuming after a kill.

An update is all or nothing. It either writes a complete folder, from which this or another process continues with
identical bits, or raises an error. The next update then starts from the last complete one. Each update leaves a
standard PEFT folder that vLLM, transformers and PEFT can load; with `weights = "all"` it leaves a whole model folder.

`lora` learns from exactly the tokens that were sampled. `sft` learns from demonstrations, which are texts and calls of
another policy. A demonstration is tokenised once, with the chat template that the policy will be prompted with.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy
import torch
from safetensors.torch import load_file, save, save_file

from agentfw import Episode, Learner, Message, Turn
from agentfw.engine import Engine, LocalEngine, found_cards
from agentfw.errors import AgentfwError, SettingsError, UsageError
from agentfw.learner import Answer, Batch, Scores, Update
from agentfw.request import Action
from agentfw.seeds import Seeds

from ..models import Chat, checkpoint, choose_device, locate, require_trainable
from ..models.conversation import conversation
from .descent import Descent, make_optimizer, optimizer_state, peak_memory, restore_optimizer
from .group import Group, GroupLostError, Ranks
from .lessons import Lesson, check_vocabulary, read_lessons, split
from .losses import TokenLoss, made
from .network import ADAPTER, Network, Which
from .settings import LoraSettings, SftSettings, TrainableSettings
from .token_tree import TurnTokens

logger = logging.getLogger(__name__)
Done = TypeVar("Done")

_NUDGES = 2  # how often rounding is tried: one may hardly change a token that another changes a hundred times as much


class ModelLearner(Learner):
    """A learner that selects which tokens of a turn it learns from."""

    def __init__(
        self, settings: TrainableSettings, engine: Engine | None = None, *, learning_rate: float, rounds: int
    ) -> None:
        self._ours: LocalEngine | None = None
        if engine is None and settings.workers > 1:
            engine = self._ours = LocalEngine(f"0+{settings.workers}" if found_cards() else "auto", learns=True)
        if engine is not None and settings.device == "auto" and engine.plan.own:
            placed = {"device": engine.plan.own}
            if engine.plan.no_trees and "packing" not in settings.model_fields_set:
                placed["packing"] = "plain"
            settings = settings.model_copy(update=placed)
        self.settings = settings
        self._group = Group(engine, settings, learning_rate) if engine and settings.workers > 1 else None
        self._learning_rate, self._rounds = learning_rate, rounds
        self._seeds = Seeds(settings.seed).child("learner")
        self._folder = Path()
        self._checkpoint: Path | None = None
        self._descent: Descent | None = None
        self._updates = 0
        self._base = ""

    def tokens(self, episode: Episode, turn: Turn) -> TurnTokens | None:
        """The tokens to learn from a turn. None if there are none."""
        return TurnTokens(turn.prompt_ids, turn.token_ids) if turn.prompt_ids and turn.token_ids else None

    def hinted(self, loss: TokenLoss, episode: Episode, turn: Turn) -> Sequence[int]:
        """The prompt of a turn with its hint. Empty if there is none, or if the model can't read as much."""
        wrong = "this learner learns from exact tokens, and has no chat template to show its model a hint with"
        raise UsageError(wrong, fix="--learner sft")

    def open(self, folder: Path) -> None:
        self._folder = folder
        self._opened()

    def start(self, folder: Path) -> Update | None:
        if not self.settings.adapter:
            return None
        network, version = self._opened().network, f"{self.settings.name}@0"
        if not folder.exists():
            with self._memory(network), self._together("weights", "start", False):
                weights = network.weights("start")
            checkpoint.write_folder(folder, lambda unfinished: self._write(network, weights, unfinished, version))
        return Update(version, folder / "adapter", {})

    def update(self, batch: Batch) -> Update | None:
        began = time.perf_counter()
        kind = made(batch.loss)  # refused before anything is loaded
        checkpoint.require_new(batch.folder)
        descent = self._opened()
        steps = descent.steps
        hinted = partial(self.hinted, kind) if kind.teaches_itself else None
        lessons, dropped, empty = read_lessons(batch, descent.network.vocabulary, self.tokens, hinted)
        version = f"{self.settings.name}@{self._updates + 1}"
        minibatches = split(lessons, self.settings.minibatches, self._seeds.child(self._updates))

        def write(folder: Path) -> None:
            self._write(descent.network, weights, folder, version)
            save_file(tensors, folder / "optimizer.safetensors")
            noted = {"updates": self._updates + 1, "steps": descent.steps, "kind": self.settings.optimizer}
            checkpoint.write_json(folder / "learner.json", {**noted, "optimizer": plain})

        try:
            figures, weights, tensors, plain = self._repeated(lambda: self._learned(minibatches, batch))
            descent = self._opened()
            if descent.steps == steps:
                return None
            checkpoint.write_folder(batch.folder, write)
        except BaseException:
            self._descent = None  # its weights are partly updated, so they must not be used any more
            raise
        self._checkpoint, self._updates = batch.folder, self._updates + 1
        seconds = time.perf_counter() - began
        figures |= {
            "tokens_dropped": dropped,
            "turns_without_tokens": empty,
            "tokens_per_second": figures["tokens_trained"] / seconds,
            "seconds": seconds,
            "peak_memory_mb": peak_memory(descent.network.device),
        }
        return Update(version, batch.folder / "adapter", figures)

    def _repeated(self, work: Callable[[], Done]) -> Done:
        """Do the work, and where a process of the group was lost at it, do it again with a new group."""
        try:
            return work()
        except GroupLostError as error:
            logger.warning("%s; this begins again with new workers", error)
            return work()

    def _learned(
        self, minibatches: list[list[Lesson]], batch: Batch
    ) -> tuple[dict[str, float], dict[str, Any], dict[str, Any], dict[str, Any]]:
        """Take the steps; returns the figures, the weights, and the optimizer's tensors and plain values."""
        descent = self._opened()
        descent.tell = lambda done, of: batch.tell(done, of, peak_memory(descent.network.device))
        plain: list[Any] = []
        if self._group is not None:
            plain = [[asdict(lesson) for lesson in minibatch] for minibatch in minibatches]
        with self._memory(descent.network):
            with self._together("learn", plain, asdict(batch.loss), self._rounds):
                figures = descent.learn(minibatches, batch.loss, self._rounds)
            with self._together("weights", "trained", True):
                return figures, descent.network.weights(), *optimizer_state(descent.optimizer)

    @contextmanager
    def _together(self, method: str, *arguments: Any) -> Iterator[None]:
        """Let the workers do what the body does here. After an error the next call opens a new group."""
        if self._group is None:
            yield
            return
        try:
            with self._group.together(method, *arguments):
                yield
        except BaseException:
            self._descent = None
            raise

    def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int], *, base: bool = False) -> Sequence[float]:
        return self._logprobs([(prompt_ids, token_ids)], base)

    def score(self, answers: Sequence[Answer], base: bool = False, rounding: bool = False) -> Scores:
        exact = self._logprobs(answers, base)
        if not rounding:
            return Scores(exact)
        nudged = [self._logprobs(answers, base, nudge=number) for number in range(1, 1 + _NUDGES)]
        return Scores(exact, numpy.sqrt(numpy.square(numpy.subtract(nudged, exact)).mean(0)).tolist())

    def _logprobs(self, answers: Sequence[Answer], base: bool, *, nudge: int = 0) -> list[float]:
        of: Which = "start" if base else "trained"
        turns = [TurnTokens(*answer) for answer in answers]
        plain = [[list(turn.prompt), list(turn.sampled)] for turn in turns]

        def found() -> list[float]:
            network = self._opened().network
            for turn in turns:
                check_vocabulary(turn, network.vocabulary, "the policy's answer")
            with self._memory(network), self._together("score", plain, of, nudge):
                return network.score(turns, of, nudge)

        return self._repeated(found)

    def state(self) -> dict[str, Any]:
        if self._checkpoint is None:
            return {}
        below = self._checkpoint.is_relative_to(self._folder)
        return {"checkpoint": str(self._checkpoint.relative_to(self._folder) if below else self._checkpoint)}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._checkpoint = self._folder / state["checkpoint"] if state else None
        if self._updates:
            self._descent = None
        elif self._descent is not None:
            self._go_on(self._descent)
        self._opened()

    def close(self) -> None:
        self._descent = None
        if self._group is not None:
            self._group.close()
        if self._ours is not None:
            self._ours.close()

    # -- weights, and what goes with them ------------------------------------------------------------------------------

    def _opened(self) -> Descent:
        """Load the state of the last complete update, unless it is there already."""
        if self._descent is None:
            folder = locate(self.settings.model)
            self._base = checkpoint.fingerprint(folder, self.settings.seed)
            start = Path(self.settings.adapter).expanduser() if self.settings.adapter else None
            if start is not None:
                checkpoint.require_base(start, self._base, self.settings.model)
            ranks = Ranks()
            if self._group is not None:
                require_trainable(
                    folder,
                    self.settings.precision,
                    choose_device(self.settings.device),
                    all_weights=self.settings.weights == "all",
                    processes=self.settings.workers if self._group.engine.one_machine or self.settings.sharded else 1,
                    sharded=self.settings.sharded,
                )
                self._group.start()
                ranks = self._group.ranks
            begun = None if start is None or self._group is None else (start / ADAPTER).read_bytes()
            with self._together("open", begun):
                network = Network(self.settings, self._seeds, ranks=ranks)
                if start is not None:
                    network.take(network.read(start), as_start=True)
                descent = Descent(network, make_optimizer(network), self.settings, self._learning_rate)
            self._updates = 0
            self._go_on(descent)
            self._descent = descent
        return self._descent

    def _go_on(self, descent: Descent) -> None:
        if self._checkpoint is None:
            return
        noted = json.loads((self._checkpoint / "learner.json").read_text("utf-8"))
        if (kind := noted.get("kind", self.settings.optimizer)) != self.settings.optimizer:
            wrong = f"{self._checkpoint} has the state of {kind}, which {self.settings.optimizer} can't go on with"
            raise SettingsError(wrong, fix=f"set learner.optimizer={kind}")
        checkpoint.require_base(self._checkpoint / "adapter", self._base, self.settings.model)
        weights = descent.network.read(self._checkpoint / "adapter")
        tensors = load_file(self._checkpoint / "optimizer.safetensors")
        given = (save(weights), save(tensors)) if self._group is not None else ()
        with self._together("go_on", *given, noted["optimizer"], noted["steps"]):
            descent.network.take(weights)
            restore_optimizer(descent.optimizer, tensors, noted["optimizer"])
        self._updates, descent.steps = noted["updates"], noted["steps"]

    def _write(self, network: Network, weights: dict[str, Any], folder: Path, version: str) -> None:
        """Write the version into a folder of its checkpoint: an adapter, or a whole model."""
        network.save(folder / "adapter", weights)
        checkpoint.write_json(folder / "adapter" / "agentfw.json", {"version": version, "base": self._base})

    @contextmanager
    def _memory(self, network: Network) -> Iterator[None]:
        """Turn a lack of memory into an error with a fix."""
        try:
            yield
        except (MemoryError, torch.OutOfMemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "memory" not in str(error):
                raise
            asked = str(error).partition("\n")[0]
            lower = [f"learner.tokens={max(1, network.piece_size // 2)}"]
            if not network.checkpointing:
                lower.append("learner.checkpointing=true")
            fix = f"set {' or '.join(lower)}, which doesn't change results"
            if self.settings.precision != "nf4" and self.settings.weights == "lora":
                fix += "; or begin a new training with learner.precision=nf4 and policy.precision=nf4"
            raise AgentfwError(
                f"the {network.device} doesn't have enough memory for this update: {asked}", fix=fix, change=lower[0]
            ) from error


class LoraLearner(ModelLearner):
    """Policy gradients on an adapter, or on all weights, from the policy's own samples.

    Each unique token is computed once, and nothing is tokenised again.
    """

    def __init__(self, settings: LoraSettings, engine: Engine | None = None) -> None:
        super().__init__(settings, engine, learning_rate=settings.learning_rate, rounds=settings.steps)


class SftLearner(ModelLearner):
    """Learns to give the answers of the demonstrations.

    A turn that has tokens already is learned from as it is. Only a whole answer is followed by the token that ends
    answers: after one that was cut off, the policy would learn to stop there. With `weights = "all"` and a folder that
    has only a tokenizer and a config.json, a new model is trained from scratch.
    """

    def __init__(self, settings: SftSettings, engine: Engine | None = None) -> None:
        super().__init__(settings, engine, learning_rate=settings.learning_rate, rounds=settings.epochs)
        self._chat = Chat(locate(settings.model), settings.template)

    def tokens(self, episode: Episode, turn: Turn) -> TurnTokens | None:
        if sampled := super().tokens(episode, turn):
            return sampled
        # Calls that a server told apart from the text stand behind it, as models write them.
        text = conversation([Message("assistant", turn.text, turn.calls)], (), native=False)[0]["content"]
        if not text or not turn.shown:
            return None
        prompt = self._prompt([episode.messages[index] for index in turn.shown], episode, turn)
        answer = self._chat.answer(text)
        found = TurnTokens(prompt, answer if turn.finish == "stop" else answer[:-1])
        return found if self._fits(*found) else None  # the policy couldn't be asked so, either

    def hinted(self, loss: TokenLoss, episode: Episode, turn: Turn) -> Sequence[int]:
        shown = loss.hinted(episode, turn)
        prompt = () if shown is None else self._prompt(shown, episode, turn)
        answer = self.tokens(episode, turn)
        return prompt if answer is not None and self._fits(prompt, answer.sampled) else ()

    def _fits(self, prompt: Sequence[int], sampled: Sequence[int]) -> bool:
        """Whether the model can read as much."""
        config = self._opened().network.base.config.get_text_config()
        return len(prompt) + len(sampled) <= getattr(config, "max_position_embeddings", math.inf)

    def _prompt(self, shown: Sequence[Message], episode: Episode, turn: Turn) -> tuple[int, ...]:
        return self._chat.prompt(shown, [Action(**action) for action in episode.actions.get(turn.seat, ())])
