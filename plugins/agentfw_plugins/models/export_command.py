"""`agentfw export`: a version of a training as a folder of its own, an adapter or a whole model, for other programs.

    agentfw export last merged --merge       # base and adapter as one model, which needs nothing but transformers
    agentfw export last rows --to trl        # what it learned from: rows/00001.parquet and so on, one for each update

A model is merged in fp32 and stored in the precision that the learner computed in. An adapter that was trained on four
bits is merged into what these stand for.

A row is a sequence of tokens. Turns of an episode are in one row where the prompt of each is what came before it, and
what came between the answers is masked. Text is never tokenised again, and nothing is padded. The columns for TRL are
those of `GRPOTrainer._compute_loss`, with one advantage for each row. Those for verl are the tensors of a `DataProto`
before the update of the actor, with one advantage for each token.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from agentfw.boundary.gate import needing
from agentfw.errors import RunFolderError, UsageError
from agentfw.printing.out import Out, counted
from agentfw.runs import RunFolder, find_training, newest_version

from ..command_options import json_option, runs_option, show
from .base import choose_device, torch_type
from .checkpoint import require_new, version_name, write_folder
from .locate import copy_but_weights, four_bit_folder, locate, write_unquantized

if TYPE_CHECKING:
    from agentfw import Episode

Library = Literal["trl", "verl"]


@click.command()
@click.argument("run")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--merge", is_flag=True, help="Merge the adapter into its base: a whole model.")
@click.option(
    "--to",
    "library",
    type=click.Choice(["trl", "verl"]),
    help="Write what RUN learned from, for this library: tokens, masks, logprobs and advantages, as Parquet files.",
)
@runs_option
@json_option
def export(run: str, folder: Path, merge: bool, library: Library | None, runs: Path, out: Out) -> None:
    """Write the newest version of the training RUN, or what it learned from, to the new FOLDER.

    It is an adapter in the PEFT format, or the whole model where all weights were trained. With --merge it is always a
    whole model, with tokenizer and chat template: for transformers, vLLM, or a converter to GGUF. `last` is the newest
    training that has a version.

    \b
      agentfw export last my-model --merge
      agentfw export last rows --to trl
    """
    found = find_training(runs, run)
    if library is not None and merge:
        raise UsageError("--merge is about a version, and --to about episodes", fix="write each to its own folder")
    if not found.planned_updates:
        raise UsageError(f"{found.id} is no training, so it has nothing to export", fix="name a training")
    if library is not None:
        count = export_rows(found, folder, library)
        told = {"run": found.id, "rows": count, "folder": str(folder)}
        show(out, told, f"{counted(count, 'row')}   {folder}/")
        return
    version, whole = export_version(found, folder, merge=merge)
    told = {"run": found.id, "version": version, "folder": str(folder), "whole": whole}
    show(out, told, f"{version}   {folder}/")
    if whole and not out.json:
        out.note(f"serve it: agentfw serve --model {folder}")


def export_version(run: RunFolder, target: Path, *, merge: bool) -> tuple[str, bool]:
    """Write the newest version of a training. Returns its name, and whether it is a whole model."""
    version = newest_version(run)
    settings = run.about["settings"]["learner"]
    adapter = (version / "adapter_config.json").is_file()
    if not version.is_dir() or not (adapter or (version / "config.json").is_file()):
        raise UsageError(f"{version} is no language model", fix="copy it: it is what the learner wrote")
    require_new(target)
    if target.is_dir():
        target.rmdir()  # empty

    def write(unfinished: Path) -> None:
        if not (adapter and merge):
            shutil.copytree(version, unfinished, dirs_exist_ok=True, copy_function=shutil.copyfile)
            return
        from .sampling_weights import Weights

        base, device, precision = locate(settings["model"]), choose_device(settings["device"]), settings["precision"]
        source = four_bit_folder(base, device) if precision == "nf4" else base
        model = Weights(source, "fp32", "cpu", "sdpa").of(version).to(torch_type(precision, device))
        copy_but_weights(source, unfinished)
        write_unquantized(model, {name: weight.detach() for name, weight in model.named_parameters()}, unfinished)

    write_folder(target, write)
    return version_name(version), merge or not adapter


# -- what it learned from ----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class TokenRow:
    """A prompt and what follows it, token by token."""

    prompt: list[int]
    response: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)  # 1 where the policy sampled a token
    logprobs: list[float] = field(default_factory=list)  # of the sampled tokens, and 0 elsewhere
    advantages: list[float] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    version: str = ""

    def add(self, tokens: Sequence[int], logprobs: Sequence[float], advantage: float, mask: int) -> None:
        self.response += tokens
        self.mask += [mask] * len(tokens)
        self.logprobs += logprobs
        self.advantages += [advantage] * len(tokens)


def sequences_of(episode: Episode, advantages: Mapping[int, float], *, one_advantage: bool) -> list[TokenRow]:
    """The sequences of an episode. With `one_advantage`, turns of another advantage begin a new one."""
    rows: list[TokenRow] = []
    for turn in episode.turns:
        if not turn.token_ids or turn.index not in advantages:
            continue
        if len(turn.logprobs) != len(turn.token_ids):
            wrong = f"turn {turn.index} of episode {episode.id} has no logprobs, which both libraries need"
            raise UsageError(wrong, fix="train with a policy that returns them, such as transformers or vllm")
        value, before = advantages[turn.index], [*rows[-1].prompt, *rows[-1].response] if rows else []
        goes_on = bool(rows) and list(turn.prompt_ids[: len(before)]) == before
        if goes_on and not (one_advantage and value != rows[-1].advantages[0]):
            between = turn.prompt_ids[len(before) :]
            rows[-1].add(between, [0.0] * len(between), value if one_advantage else 0.0, 0)
        else:
            rows.append(TokenRow(list(turn.prompt_ids), version=turn.version))
        rows[-1].add(turn.token_ids, turn.logprobs, value, 1)
        rows[-1].turns.append(turn.index)
    return rows


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
        reward, group = rewards.get(episode.id), f"{update}/{episode.task.index}"
        for one in sequences_of(episode, advantages, one_advantage=library == "trl"):
            if library == "trl":
                columns = {
                    "prompt_ids": one.prompt,
                    "completion_ids": one.response,
                    "completion_mask": [1] * len(one.response),
                    "tool_mask": one.mask,
                    "old_per_token_logps": one.logprobs,
                    "advantages": one.advantages[0],
                }
            else:
                last = len(one.mask) - 1 - one.mask[::-1].index(1)
                columns = {
                    "prompts": one.prompt,
                    "responses": one.response,
                    "response_mask": one.mask,
                    "rollout_log_probs": one.logprobs,
                    "old_log_probs": one.logprobs,
                    "advantages": one.advantages,
                    "returns": one.advantages,
                    "token_level_rewards": [(reward or 0.0) * (place == last) for place in range(len(one.mask))],
                    "uid": group,
                }
            told_of = {"episode": episode.id, "turns": one.turns, "version": one.version, "reward": reward}
            yield {**columns, "update": update, "group": group, **told_of}


def export_rows(run: RunFolder, target: Path, library: Library) -> int:
    """Write a file for each complete update of a training. Returns the number of rows."""
    with needing("Parquet files", "parquet"):
        from pyarrow import Table, parquet
    require_new(target)
    counts: list[int] = []

    def write(unfinished: Path) -> None:
        unfinished.chmod(0o700)  # it has what people said
        for update in range(1, run.done + 1):
            if rows := list(rows_of(run, update, library)):
                parquet.write_table(Table.from_pylist(rows), unfinished / f"{update:05d}.parquet")
                counts.append(len(rows))
        if not counts:
            wrong = f"{run.id} has no turn with tokens and an advantage"
            raise UsageError(wrong, fix="name a training that learned from exact tokens")

    write_folder(target, write)
    return sum(counts)
