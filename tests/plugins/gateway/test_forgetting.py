"""`agentfw serve forget`: nothing of a person is left where it reaches, others keep theirs, and the rest is told."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import Agentfw

from agentfw.episode import Usage
from agentfw_plugins.gateway.keys import KeyFile
from agentfw_plugins.gateway.learning.version_file import SERVED, Version, VersionFile
from agentfw_plugins.gateway.live import Limits
from agentfw_plugins.gateway.sessions.session_store import SessionStore
from agentfw_plugins.hooks.ledger import Account, Ledger
from agentfw_plugins.view.annotations import Target, annotate
from agentfw_plugins.view.waterfall import spans_file
from agentfw_rewardmodels import PreferenceModel, PreferenceSettings

from .conftest import CLIENT, Served, served

ADA = "adä"  # which JSON writes in two ways
SAYS = {ADA: "My cat is called Zorro.", "bob": "My cat is called Felix."}


def spec(folder: Path) -> Path:
    lines = ['environment = "sessions"', 'policy = { name = "scripted", settings = { replies = ["Noted."] } }']
    lines += ["[[memories]]", 'name = "skillgraph"', "[memories.settings]"]
    lines += [f"path = {json.dumps(str(folder / 'memory.db'))}", 'embedder = "hash"']
    lines += ["[[trackers]]", 'name = "mirror"', f"settings.address = {json.dumps((folder / 'mirror').as_uri())}"]
    (folder / "told.py").write_text(
        "from agentfw import Tracker\nclass Told(Tracker):\n    def trace(self, operation): pass\n"
    )
    lines += ["[[trackers]]", f"name = {json.dumps(str(folder / 'told.py'))}"]
    lines += ["[[hooks]]", 'name = "budget"', f'[hooks.settings.users."{ADA}"]', "tokens = 1000000"]
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
        state.served, state.tried = 1, {ADA: 1.0}
    return adapter


def spans(folder: Path, session: str) -> None:
    """Spans of a session, and of its trace some that came without a name."""
    (folder / "spans").mkdir()
    for name in (session, "~7"):
        spans_file(folder, name).write_text('{"spans": [{"trace": "7", "name": "about Zorro"}]}\n')


def test_a_person_is_deleted_from_record_memory_and_versions_and_copies_are_told(
    agentfw: Agentfw, tmp_path: Path
) -> None:
    runs, file = tmp_path / "runs", spec(tmp_path)
    with served(runs, spec=file) as gateway:
        talk(gateway, ADA, "s1")
        talk(gateway, "bob", "s2")
        gateway.ask("s2", "The whole is in long_texts/bobs.txt", user="bob").raise_for_status()
        talk(gateway, ADA, "s3")
        gateway.ask("last", "Hello.", user="eve").raise_for_status()
        assert gateway.remembered(ADA)
        folder, first = gateway.live.folder.path, gateway.episode("s1").id
        gateway.post("/s/s1/end").raise_for_status()
        gateway.request("DELETE", "/memory?user=zoe").raise_for_status()
        refused = agentfw("serve", "forget", ADA, "--runs", str(runs), "--yes")
        gateway.stop(keeps_sessions=True)
    annotate(folder, Target("", first, 0, ADA), "correction", "The cat is Zorro.")
    spans(folder, "s1")
    (folder / "findings.jsonl").write_text(json.dumps({"episode": first, "found": "Zorro"}) + "\n")
    (folder / "learning" / "training").mkdir(parents=True)
    (folder / "long_texts").mkdir()
    (folder / "long_texts" / "bobs.txt").touch()
    beside = ("answers.jsonl", "typed", "long_texts/adas.txt", "../.index.sqlite-wal")
    for name in ("turns.jsonl.torn", "report.html", "learning/training/x", *beside):
        (folder / name).write_text("what Zorro")
    tasks = [{"user": user, "messages": [{"role": "user", "content": said}]} for user, said in SAYS.items()]
    (runs / "tasks.jsonl").write_text("\n\n".join(map(json.dumps, tasks)))  # as by hand
    adapter = learned(versions := VersionFile(folder), ["s3"])
    KeyFile(runs / "keys.json").add("laptop", user=ADA)
    (unnamed := adapter.parents[1] / "2").mkdir()  # as a kill leaves it, of a version that is withdrawn
    copy = agentfw("run", "guessing", "--policy", "hashing", "--episodes", "1", "--runs", str(runs), "--json").json
    turns = (folder / "turns.jsonl").read_text()
    (Path(copy["folder"]) / "turns.jsonl").write_text("")
    (Path(copy["folder"]) / "rollouts").mkdir()
    (Path(copy["folder"]) / "rollouts" / "episodes.jsonl").write_text(turns)

    unsure = agentfw("serve", "forget", ADA, "--runs", str(runs))
    nobody = agentfw("serve", "forget", "", "--runs", str(runs), "--yes")
    for name in ("eve", "zoe"):
        agentfw("serve", "forget", name, "--runs", str(runs), "--run", folder.name, "--yes")
    (in_the_way := folder / "episodes.jsonl.part").mkdir()
    broken_off = agentfw("serve", "forget", ADA, "--runs", str(runs), "--run", folder.name, "--yes", "--json")
    in_the_way.rmdir()
    done = agentfw("serve", "forget", ADA, "--runs", str(runs), "--run", folder.name, "--yes", "--json")

    assert (refused.code, "in use" in refused.err) == (1, True)
    assert (unsure.code, "--yes" in unsure.err) == (2, True)
    assert (nobody.code, "is empty" in nobody.err) == (2, True)
    assert (broken_off.code, broken_off.json["withdrawn"]) == (1, ["v1"])
    assert "can't write" in broken_off.json["undone"][0]
    assert (done.code, done.json["sessions"]) == (0, 2), "it goes on where it was broken off"
    assert not any(f"copy in {folder}" in each for each in broken_off.json["left"]), "which is no run to delete"
    kept = ("backups", "in sums without their name", "what the tracker", "keys revoke laptop", f"budget.users.{ADA}")
    assert any(copy["folder"] in each for each in done.json["left"])
    assert all(any(words in each for each in done.json["left"]) for words in kept)
    assert [path for path in holding(tmp_path, "Zorro") if copy["folder"] not in str(path)] == []
    assert (folder / "long_texts" / "bobs.txt").exists(), "others keep theirs"
    assert runs / "tasks.jsonl" in holding(runs, "Felix")
    assert [one for one in (adapter, unnamed) if one.exists()] == []
    assert [word for word in (f"/{first}/", "zoe") if word in (folder / "heard.jsonl").read_text()] == []
    assert [word for word in (ADA.encode(), b"ad\\u00e4", b'"s3"') if word in versions.path.read_bytes()] == []
    assert versions.read().removals, "a trainer that had begun before still sees that something was taken out"
    with served(runs, resume=folder.name) as gateway:
        assert gateway.remembered(ADA) == []
        assert gateway.remembered("bob"), "others keep theirs"
        talk(gateway, "bob", "s2")
        talk(gateway, ADA, "s4")
        assert gateway.episode("s4").task.index == 4, "a number is given once"
        assert gateway.remembered(ADA), "who comes back is remembered again"


@pytest.fixture
def shared_versions(anywhere: str, tmp_path: Path) -> Iterator[VersionFile]:
    shared = pytest.importorskip("agentfw_plugins.gateway.learning.shared_versions")
    file = shared.SharedVersionFile(tmp_path / "other", anywhere, policy="p")
    yield file
    file.close()


def test_a_model_that_knows_nobody_else_is_told_and_the_rest_is_forgotten(agentfw: Agentfw, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="fitting needs torch")
    likes = [{"user": user, "item": item, "value": 1} for user in (ADA, "bob") for item in ("tea", "cake")]
    kinds = {"tea": "tea", "cake": "cake"}
    fitted = PreferenceModel.fit(likes, items=kinds, settings=PreferenceSettings(dimensions=2, epochs=1))
    fitted.without("bob").save(tmp_path / "model")
    runs, file = tmp_path / "runs", spec(tmp_path)
    reward = f'[[rewards]]\nname = "preference"\nsettings = {{ model = {json.dumps(str(tmp_path / "model"))} }}\n'
    file.write_text(f"{file.read_text()}\n{reward}")
    with served(runs, spec=file) as gateway:
        talk(gateway, ADA, "s1")

    told = agentfw("serve", "forget", ADA, "--runs", str(runs), "--yes", "--json")

    assert (told.code, told.json["sessions"], told.json["memories"]["skills"]) == (1, 1, 1)
    assert told.json["undone"] == ["reward preference: no like would be left; delete the model instead"]


def test_a_person_is_deleted_from_what_gateways_share(
    agentfw: Agentfw, anywhere: str, shared_versions: VersionFile, tmp_path: Path
) -> None:
    file, limits = spec(tmp_path), Limits(shared=anywhere)
    with served(tmp_path / "a", limits, spec=file) as a, served(tmp_path / "b", limits, spec=file) as b:
        talk(a, ADA, "s1")
        talk(b, "bob", "s2")
        assert b.remembered(ADA)
    made = tmp_path / "made"
    made.mkdir()
    (made / "weights").write_text("what they taught")
    shared_versions.create()
    version = Version(1, 1.0, SERVED, 0, adapter="1", sessions=["s1"])
    shared_versions.keep(version, made)
    with shared_versions.change() as state:
        state.versions.append(version)
        state.served = 1

    spans(b.live.folder.path, "s1")
    (other := tmp_path / "b" / "other").mkdir()  # a record of its own, with another one's session of this name
    shutil.copy(b.live.folder.path / "run.json", other)
    (other / "turns.jsonl").touch()
    spans(other, "s1")

    task = {"user": ADA, "messages": [{"role": "user", "content": SAYS[ADA]}]}
    (tmp_path / "b" / "tasks.jsonl").write_text(f"{json.dumps(task)}\n")
    ledger, used = Ledger(anywhere), Usage(prompt=1, cached=0, sampled=1)
    Ledger(tmp_path / "b" / "usage.db").add(Account(ADA), "writer", used, counted=True)
    for user, session in ((ADA, "s1"), ("", "s1"), (ADA, "s3"), ("", ""), ("bob", "s2")):
        ledger.add(Account(user, user, session), "p", used, counted=True)

    alone = agentfw("serve", "forget", ADA, "--sessions", anywhere, "--yes")
    there = ("--sessions", anywhere, "--spec", str(file), "--runs", str(tmp_path / "b"))
    forget = ("serve", "forget", ADA, *there, "--yes", "--json")
    answering = SessionStore(anywhere)
    assert answering.take("s1")
    early = agentfw(*forget)
    answering.close()
    done = agentfw(*forget)

    assert (early.code, "being answered" in early.json["undone"][0]) == (1, True)
    assert (alone.code, "--spec" in alone.err) == (2, True), "the memories are told by the spec"
    assert done.code == 0, done.err
    assert (done.json["sessions"], early.json["withdrawn"]) == (1, ["v1"])
    assert any("`/view`" in each for each in done.json["left"])
    assert shared_versions.read().served == 0
    assert ADA not in str(shared_versions.read())
    assert {path.parent for path in holding(tmp_path / "b", "Zorro")} == {other / "spans"}
    shutil.rmtree(shared_versions.folder / "versions", ignore_errors=True)
    assert not shared_versions.fetch(version).exists(), "nor does the database have what they taught"
    assert [row.name for row in Ledger(tmp_path / "b" / "usage.db").report("user")] == [""]
    spent = [{row.name: row.requests for row in ledger.report(by)} for by in ("user", "key", "session")]
    assert spent == [{"": 4, "bob": 1}, {"": 4, "bob": 1}, {"": 4, "s2": 1}], "the sums stay, also of what was nobody's"
    with served(tmp_path / "c", limits, spec=file) as c:
        assert c.remembered(ADA) == []
        assert c.remembered("bob")
        assert CLIENT.get(f"{c.url}/s/s2").status_code == 200
        assert CLIENT.get(f"{c.url}/s/s1").status_code == 404
