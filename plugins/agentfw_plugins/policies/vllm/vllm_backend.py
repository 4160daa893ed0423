"""The settings of the policy `vllm`, what a server is asked, and how one is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from agentfw import Settings
from agentfw.engine import Plan
from agentfw.settings import OPERATIONAL, SHARED, VERSION

from ...models import Precision, choose_device, computed_in, locate
from ...models.chat import TEMPLATE_SETTING

Heard = Callable[[Sequence[int]], object]

_GPUS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg", "/dev/dri")


class VLLMSettings(Settings):
    model: Annotated[str, SHARED] = Field("tiny", description="Folder of a Hugging Face model, or the included tiny.")
    adapter: Annotated[str, SHARED, VERSION] = Field("", description="Folder of an adapter. Default: the model alone.")
    template: Annotated[str, SHARED] = Field("", description=TEMPLATE_SETTING)
    base_url: Annotated[str, OPERATIONAL] = Field("", description="Address of a running server. Default: start one.")
    api_key_env: Annotated[str, OPERATIONAL] = Field(
        "VLLM_API_KEY", description="Environment variable with that server's key, if any."
    )
    python: Annotated[str, OPERATIONAL] = Field(
        "", description="Python that has vLLM, for a server started here. Default: this one."
    )
    arguments: tuple[str, ...] = Field((), description="More arguments of `vllm serve`, for a server started here.")
    precision: Annotated[Precision, SHARED] = Field(
        "auto",
        description="fp32, bf16, or nf4 (what a learner's 4-bit weights stand for, in the precision that it computes "
        "in). `auto` is the precision of the model's files. Use the same as the learner.",
    )
    context: int | None = Field(
        None, ge=2, description="Maximum tokens of prompt and answer together. Default: the model's maximum."
    )
    max_tokens: int = Field(512, ge=1, description="Maximum tokens of an answer, unless the run sets it.")
    concurrency: Annotated[int | None, OPERATIONAL] = Field(
        None,
        ge=1,
        description="Maximum number of concurrent requests. Default: 256, or 64 for a server started here without a "
        "GPU.",
    )
    gpus: Annotated[int, OPERATIONAL] = Field(
        1, ge=1, description="GPUs that the model is divided among (tensor parallelism), if started here."
    )
    memory: Annotated[float | None, OPERATIONAL] = Field(
        None,
        gt=0,
        le=1,
        description="Share of the GPU's memory for vLLM, if started here. Default: 0.9; beside a learner 0.5 if both "
        "fit, and 0.55 if not.",
    )
    sleep: Annotated[bool | None, OPERATIONAL] = Field(
        None,
        description="Release GPU memory while the learner works. Default: if both share a GPU where the model doesn't "
        "fit twice.",
    )
    rank: Annotated[int, SHARED] = Field(16, ge=1, le=512, description="Maximum rank of adapters: the learner's.")
    start_deadline: Annotated[float, OPERATIONAL] = Field(
        900.0, gt=0, description="Timeout for starting vLLM, in seconds."
    )
    deadline: Annotated[float, OPERATIONAL] = Field(
        300.0, gt=0, description="Timeout of one request including all retries, in seconds."
    )
    retries: Annotated[int, OPERATIONAL] = Field(
        5, ge=0, description="Maximum number of retries if the server is busy or unreachable."
    )

    @field_validator("base_url")
    @classmethod
    def _address(cls, value: str) -> str:
        parts = urlsplit(value)
        if value and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise ValueError("must start with http:// or https:// and name a host")
        return value.rstrip("/").removesuffix("/v1")

    @property
    def at_once(self) -> int:
        """The number of concurrent requests. A GPU reads its weights once for all of them."""
        return self.concurrency or (256 if self.base_url or _has_gpu() else 64)


_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # what vLLM takes as the maximum rank of adapters
_MEMORY, _MEMORY_IN_TURN, _MEMORY_BESIDE_LEARNER = 0.9, 0.55, 0.5
_WEIGHTS = 0.6
"""A model fits twice if its copies take less than this share of a GPU. The rest is for activations and the KV cache."""


def beside(settings: Mapping[str, Any], plan: Plan, share: float = 1.0) -> dict[str, Any]:
    """The settings of a vLLM that gets this share of its GPU, where the engine's plan places it.

    It stays awake beside a learner whose copy of the model fits, too: sleeping and waking copy all weights.
    """
    if not plan.playing:
        return dict(settings)
    share = min(1.0, share)
    memory, sleep = _MEMORY, False
    if plan.shared:
        files = locate(settings.get("model", "tiny")).glob("*.safetensors")
        needed = sum(file.stat().st_size for file in files) / 2**30 * (1 / share + 1)
        sleep = needed >= _WEIGHTS * min(card.memory for card in plan.playing)
        memory = _MEMORY_IN_TURN if sleep else _MEMORY_BESIDE_LEARNER
    given = {key: value for key, value in settings.items() if value is not None}
    return {"memory": memory * share, "sleep": sleep, **given}


def _has_gpu() -> bool:
    return any(Path(device).exists() for device in _GPUS)


def engine_options(settings: VLLMSettings) -> dict[str, Any]:
    """The options for vLLM, by the names of its engine arguments."""
    # Four bits are served in the precision that a learner computes in with them.
    precision = computed_in("nf4", choose_device("auto")) if settings.precision == "nf4" else settings.precision
    options: dict[str, Any] = {
        "dtype": {"auto": "auto", "fp32": "float32", "bf16": "bfloat16"}[precision],
        "enable_lora": True,
        "max_lora_rank": next(rank for rank in _RANKS if rank >= settings.rank),
        "max_loras": 2,  # the newest, and the previous one for requests that are still using it
        "enable_prefix_caching": True,
        "max_num_seqs": settings.at_once,
        "gpu_memory_utilization": settings.memory or _MEMORY,
        # The model's own sampling defaults would change the request.
        "generation_config": "vllm",
        # Logprobs of the distribution that is sampled from, with temperature and top_p. At temperature 1 they cost what
        # the model's own do: vLLM's faster sampler takes part only where top_p or top_k cut something off.
        "logprobs_mode": "processed_logprobs",
        "tensor_parallel_size": settings.gpus if settings.gpus > 1 else None,
        "max_model_len": settings.context,
        "enable_sleep_mode": settings.sleep or None,
        # On a CPU, vLLM fails when it splits the prompt of a request with a seed.
        "enable_chunked_prefill": None if _has_gpu() else False,
    }
    return {name: value for name, value in options.items() if value is not None}
