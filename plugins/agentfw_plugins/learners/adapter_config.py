"""Checks that an adapter has the same configuration as this training: its adapter_config.json against the PEFT config.

Names and shapes of the weights are not enough. An adapter with another alpha, or with rank-stabilised scaling, has the
same tensors but gives other logprobs.

    require_same_config(Path("runs/.../adapter"), model.peft_config["default"])
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentfw.errors import SettingsError, UsageError

__all__ = ["require_same_config"]

_SETTINGS = {"r": "rank", "lora_alpha": "alpha", "target_modules": "modules"}
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
_PLAIN_STARTS = (True, False, "gaussian", "orthogonal", "eva")
"""Ways to initialise an adapter that don't change the base's weights. Others, such as pissa, train against a modified
base."""


def require_same_config(folder: Path, config: Any) -> None:
    """Refuse an adapter whose PEFT configuration would give other results than this training's."""
    from peft import LoraConfig

    path = folder / "adapter_config.json"
    if not path.is_file():
        raise UsageError(
            f"there is no adapter_config.json in {folder}, so the scaling of its weights is unknown",
            fix="use an adapter folder in the PEFT format",
        )
    try:
        found = LoraConfig().to_dict() | json.loads(path.read_text("utf-8"))
    except (ValueError, TypeError) as error:
        raise SettingsError(f"{path} can't be read: {error}", fix="save the adapter again with PEFT") from error
    here = config.to_dict()
    different = [name for name in sorted(found.keys() - _HARMLESS) if not _same(name, found, here)]
    if not different:
        return
    told = ", ".join(f"{name} is {json.dumps(_plain(found[name]))}, not {_told(here, name)}" for name in different)
    if set(different) <= _SETTINGS.keys():
        wanted = [f"learner.{_SETTINGS[name]}={json.dumps(_plain(found[name]))}" for name in different]
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
    return bool(_plain(value) == _plain(here.get(name)))


def _plain(value: Any) -> Any:
    """The value as JSON. An empty collection counts as null."""
    if isinstance(value, set | frozenset | list | tuple):
        value = sorted(value)
    return value or None


def _told(here: Mapping[str, Any], name: str) -> str:
    return json.dumps(_plain(here.get(name)))
