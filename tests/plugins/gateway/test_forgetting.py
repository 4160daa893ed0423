"""`agentfw serve forget`: nothing of a person is left where it reaches, others keep theirs, and the rest is told."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Agentfw

from agentfw.episode import Usage
from agentfw_plugins.gateway.learning.version_file import SERVED, Version, VersionFile
from agentfw_plugins.gateway.live import Limits
from agentfw_plugins.gateway.sessions.session_store import SessionStore
from agentfw_plugins.hooks.ledger import Account, Ledger
from agentfw_plugins.view.annotations import Target, annotate
from agentfw_plugins.view.waterfall import spans_file
from agentfw_rewardmodels import PreferenceModel, PreferenceSettings

from .conftest import CLIENT, Served, served

SAYS = {"ada": "My cat is called Zorro.", "bob": "My cat is called Felix."}


def spec(folder: Path) -> Path:
    lines = ['environment = "sessions"', 'policy = { name = "scripted", settings = { replies = ["Noted."] } }']
    lines += ["[[memories]]", 'name = "skillgraph"', "[memories.settings]"]
    lines += [f"path = {json.dumps(str(folder / 'memory.db'))}", 'embedder = "hash"']
    (folder / "gateway.toml").write_text("\n".join(lines))
    return folder / "gateway.toml"


def talk(gateway: Served, user: str, name: str) -> None:
    gateway.ask(name, SAYS[user], user=user).raise_for_status()
    gateway.post(f"/s/{name}/feedback", {"value": 1, "turn": 0}).raise_for_status()


def holding(folder: Path, word: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and word.encode() in path.read_bytes()]


def learned(file: VersionFile, sessions: list[str]) -> Path:
    """A version that learned from these sessions and is served. Returns its adapter."""
    file.create()
    adapter = file.folder / "versions" / "1" / "adapter"
    adapter.mkdir(parents=True)
    (adapter / "weights").write_text("what they taught")
    with file.change() as state:
        state.versions.append(Version(1, 1.0, SERVED, 0, adapter="1/adapter", sessions=sessions))
        state.served = 1
    return adapter


def test_a_person_is_deleted_from_record_memory_and_versions_and_copies_are_told(
    agentfw: Agentfw, tmp_path: Path
) -> None:
    runs, file = tmp_path / "runs", spec(tmp_path)
    with served(runs, spec=file) as gateway:
        talk(gateway, "ada", "s1")
        talk(gateway, "bob", "s2")
        talk(gateway, "ada", "s3")
        gateway.ask("last", "Hello.", user="eve").raise_for_status()
        assert gateway.remembered("ada")
        folder, first = gateway.live.folder.path, gateway.episode("s1").id
        gateway.post("/s/s1/end").raise_for_status()
        refused = agentfw("serve", "forget", "ada", "--runs", str(runs), "--yes")
        gateway.stop(keeps_sessions=True)
    annotate(folder, Target("", first, 0, "ada"), "correction", "The cat is Zorro.")
    spans_file(folder, "s1").parent.mkdir()
    spans_file(folder, "s1").write_text('{"spans": [{"name": "about Zorro"}]}\n')
    (folder / "learning" / "training").mkdir(parents=True)
    for name in ("turns.jsonl.torn", "report.html", "learning/training/x", "../.index.sqlite-wal"):
        (folder / name).write_text("what Zorro")
    adapter = learned(VersionFile(folder), ["s3"])
    (unnamed := adapter.parents[1] / "2").mkdir()  # as a kill leaves it, of a version that is withdrawn
    copy = agentfw("run", "guessing", "--policy", "hashing", "--episodes", "1", "--runs", str(runs), "--json").json
    turns = (folder / "turns.jsonl").read_text()
    (Path(copy["folder"]) / "turns.jsonl").write_text("")
    (Path(copy["folder"]) / "rollouts").mkdir()
    (Path(copy["folder"]) / "rollouts" / "episodes.jsonl").write_text(turns)

    unsure = agentfw("serve", "forget", "ada", "--runs", str(runs))
    agentfw("serve", "forget", "eve", "--runs", str(runs), "--run", folder.name, "--yes")
    (in_the_way := folder / "episodes.jsonl.part").mkdir()
    broken_off = agentfw("serve", "forget", "ada", "--runs", str(runs), "--run", folder.name, "--yes", "--json")
    in_the_way.rmdir()
    done = agentfw("serve", "forget", "ada", "--runs", str(runs), "--run", folder.name, "--yes", "--json")

    assert (refused.code, "in use" in refused.err) == (1, True)
    assert (unsure.code, "--yes" in unsure.err) == (2, True)
    assert (broken_off.code, broken_off.json["withdrawn"]) == (1, ["v1"])
    assert "can't write" in broken_off.json["undone"][0]
    assert (done.code, done.json["sessions"]) == (0, 2), "it goes on where it was broken off"
    assert any(copy["folder"] in each for each in done.json["left"])
    assert all(any(words in each for each in done.json["left"]) for words in ("backups", "in sums without their name"))
    assert [path for path in holding(tmp_path, "Zorro") if copy["folder"] not in str(path)] == []
    assert [one for one in (adapter, unnamed) if one.exists()] == []
    with served(runs, resume=folder.name) as gateway:
        assert gateway.remembered("ada") == []
        assert gateway.remembered("bob"), "others keep theirs"
        talk(gateway, "bob", "s2")
        talk(gateway, "ada", "s4")
        assert gateway.episode("s4").task.index == 4, "a number is given once"
        assert gateway.remembered("ada"), "who comes back is remembered again"


@pytest.fixture
def shared_versions(anywhere: str, tmp_path: Path) -> Iterator[VersionFile]:
    shared = pytest.importorskip("agentfw_plugins.gateway.learning.shared_versions")
    file = shared.SharedVersionFile(tmp_path / "other", anywhere, policy="p")
    yield file
    file.close()


def test_a_model_that_knows_nobody_else_is_told_and_the_rest_is_forgotten(agentfw: Agentfw, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="fitting needs torch")
    likes = [{"user": user, "item": item, "value": 1} for user in ("ada", "bob") for item in ("tea", "cake")]
    kinds = {"tea": "tea", "cake": "cake"}
    fitted = PreferenceModel.fit(likes, items=kinds, settings=PreferenceSettings(dimensions=2, epochs=1))
    fitted.without("bob").save(tmp_path / "model")
    runs, file = tmp_path / "runs", spec(tmp_path)
    reward = f'[[rewards]]\nname = "preference"\nsettings = {{ model = {json.dumps(str(tmp_path / "model"))} }}\n'
    file.write_text(f"{file.read_text()}\n{reward}")
    with served(runs, spec=file) as gateway:
        talk(gateway, "ada", "s1")

    told = agentfw("serve", "forget", "ada", "--runs", str(runs), "--yes", "--json")

    assert (told.code, told.json["sessions"], told.json["memories"]["skills"]) == (1, 1, 1)
    assert told.json["undone"] == ["reward preference: no like would be left; delete the model instead"]


def test_a_person_is_deleted_from_what_gateways_share(
    agentfw: Agentfw, anywhere: str, shared_versions: VersionFile, tmp_path: Path
) -> None:
    file, limits = spec(tmp_path), Limits(shared=anywhere)
    with served(tmp_path / "a", limits, spec=file) as a, served(tmp_path / "b", limits, spec=file) as b:
        talk(a, "ada", "s1")
        talk(b, "bob", "s2")
        assert b.remembered("ada")
    made = tmp_path / "made"
    made.mkdir()
    (made / "weights").write_text("what they taught")
    shared_versions.create()
    version = Version(1, 1.0, SERVED, 0, adapter="1", sessions=["s1"])
    shared_versions.keep(version, made)
    with shared_versions.change() as state:
        state.versions.append(version)
        state.served = 1

    ledger, used = Ledger(anywhere), Usage(prompt=1, cached=0, sampled=1)
    for user, session in (("ada", "s1"), ("ada", "s3"), ("", ""), ("bob", "s2")):
        ledger.add(Account(user, user, session), "p", used, counted=True)

    alone = agentfw("serve", "forget", "ada", "--sessions", anywhere, "--yes")
    forget = ("serve", "forget", "ada", "--sessions", anywhere, "--spec", str(file), "--yes", "--json")
    answering = SessionStore(anywhere)
    assert answering.take("s1")
    early = agentfw(*forget)
    answering.close()
    done = agentfw(*forget)

    assert (early.code, "being answered" in early.json["undone"][0]) == (1, True)
    assert (alone.code, "--spec" in alone.err) == (2, True), "the memories are told by the spec"
    assert done.code == 0, done.err
    assert (done.json["sessions"], early.json["withdrawn"]) == (1, ["v1"])
    assert shared_versions.read().served == 0
    shutil.rmtree(shared_versions.folder / "versions", ignore_errors=True)
    assert not shared_versions.fetch(version).exists(), "nor does the database have what they taught"
    spent = [{row.name: row.requests for row in ledger.report(by)} for by in ("user", "key", "session")]
    assert spent == [{"": 3, "bob": 1}, {"": 3, "bob": 1}, {"": 3, "s2": 1}], "the sums stay"
    with served(tmp_path / "c", limits, spec=file) as c:
        assert c.remembered("ada") == []
        assert c.remembered("bob")
        assert CLIENT.get(f"{c.url}/s/s2").status_code == 200
        assert CLIENT.get(f"{c.url}/s/s1").status_code == 404
