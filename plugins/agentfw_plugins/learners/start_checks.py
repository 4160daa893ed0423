"""Checks before a training: that an adapter is computed as it was trained, and the model as transformers computes it.

The adapter_config.json of an adapter is compared with the PEFT config of this training, because an adapter with another
alpha, or with rank-stabilised scaling, has the same tensors but gives other logprobs.

A few tokens go through the learner's forward pass and through the model's own. The model's own runs with two attentions
of transformers, and the learner may differ from it only a little more than these do from each other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from agentfw.errors import SettingsError, UsageError
from agentfw.seeds import Seeds

from ..models import own_attention
from .token_tree import TurnTokens

_SETTINGS = {
    "r": "rank",
    "lora_alpha": "alpha",
    "target_modules": "modules",
    "layers_to_transform": "layers",
    "use_rslora": "rank_stabilised",
    "use_dora": "dora",
}
"""Settings of the learner that can be adjusted to an adapter."""
_HARMLESS = {
    "auto_mapping",
    "base_model_name_or_path",
    "corda_config",
    "eva_config",
    "inference_mode",
    "kasa_config",
    "lora_dropout",
    "lora_ga_config",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "revision",
    "runtime_config",
    "task_type",
}
"""Fields about the origin and the training of an adapter. The base is compared by its fingerprint."""
# Ways to begin an adapter that leave the base's weights alone. Others, such as pissa, train against a modified one.
_PLAIN_STARTS = (True, False, "gaussian", "orthogonal", "eva")


def require_same_config(folder: Path, config: Any) -> None:
    """Refuse an adapter whose PEFT configuration would give other results than this training's."""
    from peft import LoraConfig

    path = folder / "adapter_config.json"
    if not path.is_file():
        wrong = f"there is no adapter_config.json in {folder}, so the scaling of its weights is unknown"
        raise UsageError(wrong, fix="use an adapter folder in the PEFT format")
    try:
        found = LoraConfig().to_dict() | json.loads(path.read_text("utf-8"))
    except (ValueError, TypeError) as error:
        raise SettingsError(f"{path} can't be read: {error}", fix="save the adapter again with PEFT") from error
    here = config.to_dict()
    different = [name for name in sorted(found.keys() - _HARMLESS) if not _same(name, found, here)]
    if not different:
        return
    values = {name: [json.dumps(_as_json(some.get(name))) for some in (found, here)] for name in different}
    told = ", ".join(f"{name} is {theirs}, not {ours}" for name, (theirs, ours) in values.items())
    if set(different) <= _SETTINGS.keys():
        wanted = [f"learner.{_SETTINGS[name]}={json.dumps(_as_json(found[name]))}" for name in different]
        fix = f"set {' and '.join(wanted)}"
    else:
        fix = "merge it into its base with PEFT's merge_and_unload, and start from the merged model"
    raise SettingsError(f"the adapter {folder} would be computed differently than it was trained: {told}", fix=fix)


def _same(name: str, found: Mapping[str, Any], here: Mapping[str, Any]) -> bool:
    value = found[name]
    if name == "init_lora_weights":
        return value in _PLAIN_STARTS
    if name == "target_modules":
        if isinstance(value, str):
            return True  # a pattern; which modules it means shows in the names of the weights
        # PEFT writes whole paths for all-linear. In which layers they are shows in the names of the weights, too.
        return {each.rpartition(".")[2] for each in value} == {each.rpartition(".")[2] for each in here[name]}
    return bool(_as_json(value) == _as_json(here.get(name)))


def _as_json(value: Any) -> Any:
    """The value as JSON. An empty collection counts as null."""
    if isinstance(value, set | frozenset | list | tuple):
        value = sorted(value)
    return value or None


_SMALLEST_GAP = 1e-4  # nats that a logprob may always be off, in case the two attentions agree to the last bit
_TIMES = 2.0
"""Tolerance factor for a turn's difference over the measured noise, both as root mean squares. It was measured on 60
bf16 models of 28 layers with random weights: below 1.4 if correct, and above 2.4 with ten tokens shifted by one."""


def proof_turns(vocabulary: int) -> list[TurnTokens]:
    """Three turns of random tokens with shared prefixes, 96 sampled tokens in total."""
    ids = Seeds(0).numpy("proof").integers(0, vocabulary, 128).tolist()
    return [TurnTokens(ids[:32], ids[32:64]), TurnTokens(ids[:32], ids[64:96]), TurnTokens(ids[:16], ids[96:])]


@torch.no_grad()  # type: ignore[untyped-decorator]
def prove(model: Any, turns: Sequence[TurnTokens], learner: torch.Tensor, packing: str) -> None:
    """Raise a SettingsError unless the learner's logprobs of the sampled tokens match the model's own in every turn."""
    attention = model.config._attn_implementation
    try:
        own, other = (_own_logprobs(model, turns, name) for name in (own_attention(model), "eager"))
    finally:
        model.set_attn_implementation(attention)
    noise = float((own - other).square().mean().sqrt())
    gaps = (own - learner.to(own.device)).split([len(turn.sampled) for turn in turns])
    # Turn by turn, so that a mistake in one branch of a tree isn't averaged out by the others.
    apart = torch.stack([gap.square().mean().sqrt() for gap in gaps])
    if not bool((apart <= _TIMES * noise + _SMALLEST_GAP).all()):  # NaN fails as well
        raise SettingsError(
            f"{type(model).__name__} gives other results than {packing} packing: "
            f"its logprobs are {float(apart.max()):.2g} apart, and rounding explains {noise:.2g}",
            fix='set learner.packing="plain"; if that is refused too, use another base',
        )


def _own_logprobs(model: Any, turns: Sequence[TurnTokens], attention: str) -> torch.Tensor:
    """The model's own logprobs of the sampled tokens, one turn per row."""
    model.set_attn_implementation(attention)
    found: list[torch.Tensor] = []
    for prompt, sampled in turns:
        row = torch.tensor([[*prompt, *sampled]], device=model.device)
        logits = model(row, use_cache=False, logits_to_keep=len(sampled) + 1).logits[0, :-1].float()
        found.append(logits.log_softmax(-1).gather(-1, row[0, len(prompt) :, None])[:, 0])
    return torch.cat(found)
