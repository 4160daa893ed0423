"""What a training learned from, as Parquet files that TRL and verl read: exact tokens, masks, logprobs, advantages.

    agentfw export last rows --to trl        # rows/00001.parquet and so on, one for each update

A row is a sequence of tokens. Turns of an episode are in one row where the prompt of each is what came before it, and
what came between the answers is masked. Other turns, such as those of a memory that changed, have rows of their own.
Text is never tokenised again, and nothing is padded: both libraries pad a batch themselves.

The columns for TRL are those of `GRPOTrainer._compute_loss`, with one advantage for each row. Those for verl are the
tensors of a `DataProto` as its trainer has them before the update of the actor, with one advantage for each token.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agentfw.errors import MissingExtraError, RunFolderError, UsageError
from agentfw.runs import make_folder

from .checkpoint import require_new

if TYPE_CHECKING:
    from agentfw import Episode
    from agentfw.runs import RunFolder

Library = Literal["trl", "verl"]


@dataclass(slots=True)
class TokenRow:
    """A prompt and what follows it, token by token."""

    prompt: list[int]
    response: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    """1 where the policy sampled a token."""
    logprobs: list[float] = field(default_factory=list)
    """Of the sampled tokens, and 0 elsewhere."""
    advantages: list[float] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    version: str = ""

    def add(self, tokens: Sequence[int], logprobs: Sequence[float], advantage: float, mask: int) -> None:
        self.response += tokens
        self.mask += [mask] * len(tokens)
        self.logprobs += logprobs
        self.advantages += [advantage] * len(tokens)


def sequences_of(episode: Episode, advantages: Mapping[int, float], *, one_advantage: bool) -> Iterator[TokenRow]:
    """The sequences of an episode. With `one_advantage`, turns of another advantage begin a new one."""
    made: TokenRow | None = None
    for turn in episode.turns:
        if not turn.token_ids or turn.index not in advantages:
            continue
        if len(turn.logprobs) != len(turn.token_ids):
            raise UsageError(
                f"turn {turn.index} of episode {episode.id} has no logprobs, which both libraries need",
                fix="train with a policy that returns them, such as transformers or vllm",
            )
        value, before = advantages[turn.index], [] if made is None else [*made.prompt, *made.response]
        goes_on = made is not None and list(turn.prompt_ids[: len(before)]) == before
        if made is None or not goes_on or (one_advantage and value != made.advantages[0]):
            if made is not None:
                yield made
            made = TokenRow(list(turn.prompt_ids), version=turn.version)
        else:
            between = turn.prompt_ids[len(before) :]
            made.add(between, [0.0] * len(between), value if one_advantage else 0.0, 0)
        made.add(turn.token_ids, turn.logprobs, value, 1)
        made.turns.append(turn.index)
    if made is not None:
        yield made


def rows_of(run: RunFolder, update: int, library: Library) -> Iterator[dict[str, Any]]:
    """The rows of one update, in the order in which its episodes were scored."""
    records = run.rollouts(update)
    try:
        told = json.loads((records.path / "advantages.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RunFolderError(
            f"{records.path / 'advantages.json'} can't be read: {error}", fix="restore it from a copy"
        ) from None
    rewards = {str(line["episode"]): float(line["reward"]) for line in records.metrics()}
    for episode in records.episodes():
        advantages = {int(turn): float(value) for turn, value in told.get(episode.id, ())}
        for one in sequences_of(episode, advantages, one_advantage=library == "trl"):
            about = {
                "update": update,
                "group": f"{update}/{episode.task.index}",
                "episode": episode.id,
                "turns": one.turns,
                "version": one.version,
                "reward": rewards.get(episode.id),
            }
            yield {**(_of_trl(one) if library == "trl" else _of_verl(one, about)), **about}


def _of_trl(one: TokenRow) -> dict[str, Any]:
    return {
        "prompt_ids": one.prompt,
        "completion_ids": one.response,
        "completion_mask": [1] * len(one.response),
        "tool_mask": one.mask,
        "old_per_token_logps": one.logprobs,
        "advantages": one.advantages[0],
    }


def _of_verl(one: TokenRow, about: Mapping[str, Any]) -> dict[str, Any]:
    last = len(one.mask) - 1 - one.mask[::-1].index(1)
    return {
        "prompts": one.prompt,
        "responses": one.response,
        "response_mask": one.mask,
        "rollout_log_probs": one.logprobs,
        "old_log_probs": one.logprobs,
        "advantages": one.advantages,
        "returns": one.advantages,
        "token_level_rewards": [(about["reward"] or 0.0) * (place == last) for place in range(len(one.mask))],
        "uid": about["group"],
    }


def export_rows(run: RunFolder, target: Path, library: Library) -> int:
    """Write a file for each complete update of a training. Returns the number of rows."""
    try:
        from pyarrow import Table, parquet
    except ImportError as error:
        raise MissingExtraError("Parquet files", "parquet", module=error.name or "") from None
    if not run.planned_updates:
        raise UsageError(f"{run.id} is no training, so it learned from nothing", fix="name a training")
    require_new(target)
    make_folder(target)
    count = 0
    for update in range(1, run.done + 1):
        if rows := list(rows_of(run, update, library)):
            parquet.write_table(Table.from_pylist(rows), target / f"{update:05d}.parquet")
            count += len(rows)
    if not count:
        raise UsageError(
            f"{run.id} has no turn with tokens and an advantage", fix="name a training that learned from exact tokens"
        )
    return count
