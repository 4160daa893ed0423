"""What the policy `vllm` can be told, and what it asks of the place where vLLM runs.

The one rule: every method of a backend comes back or raises an error that names the culprit, in finite time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from agentfw import Settings

from ..models import Precision
from .sampling import Sampled

__all__ = ["Backend", "Question", "VLLMSettings", "engine_options"]

_GPUS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg", "/dev/dri")


class VLLMSettings(Settings):
    model: str = Field("tiny", description="A folder with a model in the form of Hugging Face, or tiny, which ships.")
    mode: Literal["server", "process"] = Field(
        "server", description="Whether vLLM runs as a server or in this process, where it has to be installed then."
    )
    base_url: str = Field("", description="A server that runs already; empty starts one.")
    api_key_env: str = Field("VLLM_API_KEY", description="The environment variable with that server's key, if any.")
    python: str = Field("", description="The Python that has vLLM, for a server started here; empty is this one.")
    arguments: tuple[str, ...] = Field((), description="Further arguments of `vllm serve`, for a server started here.")
    precision: Precision = Field(
        "auto", description="fp32, bf16, or nf4 (four bits a weight); auto is what the model's files are in."
    )
    context: int | None = Field(
        None, ge=2, description="How long prompt and answer may be together; where not set, as long as the model can."
    )
    max_tokens: int = Field(512, ge=1, description="How long an answer may be, where the run doesn't say.")
    concurrency: int = Field(64, ge=1, description="How many requests may be in flight.")
    memory: float = Field(0.9, gt=0, le=1, description="Which share of the GPU's memory vLLM takes, if started here.")
    sleep: bool = Field(
        False, description="Give the GPU's memory back while the learner works: for when both are on one GPU."
    )
    rank: Literal[8, 16, 32, 64, 128, 256] = Field(16, description="The highest rank that an adapter may have.")
    start_deadline: float = Field(900.0, gt=0, description="Seconds for vLLM to start.")
    deadline: float = Field(300.0, gt=0, description="Seconds for one request with all its retries.")
    retries: int = Field(5, ge=0, description="How many more times a request is tried when the server is busy or gone.")

    @field_validator("base_url")
    @classmethod
    def _address(cls, value: str) -> str:
        parts = urlsplit(value)
        if value and (parts.scheme not in ("http", "https") or not parts.hostname):
            raise ValueError("must begin with http:// or https:// and name a host")
        return value.rstrip("/").removesuffix("/v1")


@dataclass(frozen=True, slots=True)
class Question:
    """One answer to be drawn."""

    prompt: Sequence[int]
    limit: int
    temperature: float
    top_p: float
    seed: int
    end_ids: frozenset[int]


class Backend(Protocol):
    """Where vLLM runs. An adapter is known by its name; the base by none.

    `complete` gives the logprobs of the sampled distribution, or none; `score` gives the model's own.
    """

    async def open(self) -> int:
        """Start what has to be started, once; how many tokens the model reads."""

    async def complete(self, question: Question, name: str) -> Sampled: ...

    async def score(self, prompt_ids: Sequence[int], token_ids: Sequence[int], name: str) -> list[float]: ...

    async def load(self, name: str, adapter: Path) -> None: ...

    async def unload(self, name: str) -> None: ...

    async def sleep(self) -> None: ...

    async def wake(self) -> None: ...

    async def close(self) -> None: ...


def engine_options(settings: VLLMSettings) -> dict[str, Any]:
    """How vLLM is set up, by the names of its engine arguments."""
    options: dict[str, Any] = {
        "dtype": {"auto": "auto", "fp32": "float32"}.get(settings.precision, "bfloat16"),
        "enable_lora": True,
        "max_lora_rank": settings.rank,
        "max_loras": 2,  # the newest, and the one before while requests that began with it are in flight
        "enable_prefix_caching": True,
        "max_num_seqs": settings.concurrency,
        "gpu_memory_utilization": settings.memory,
        # A model's own taste in sampling would change what was asked for.
        "generation_config": "vllm",
        # Logprobs of the distribution that is sampled from, with temperature and top_p.
        "logprobs_mode": "processed_logprobs",
    }
    if settings.precision == "nf4":
        options["quantization"] = "bitsandbytes"
    if settings.context is not None:
        options["max_model_len"] = settings.context
    if settings.sleep:
        options["enable_sleep_mode"] = True
    if not any(Path(device).exists() for device in _GPUS):
        # On a CPU vLLM stops dead when it cuts the prompt of a request that has a seed.
        options["enable_chunked_prefill"] = False
    return options
