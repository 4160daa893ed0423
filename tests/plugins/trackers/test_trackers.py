"""The trackers, read back with what each library reads its records with. Nothing here may go over the network."""

from __future__ import annotations

import importlib.util
import json
import os
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from chat_server import Handler, listening

from agentfw.errors import AgentfwError
from agentfw.tracker import Tracker
from agentfw_plugins.trackers.metric_trackers import MLflowSettings, MLflowTracker, WandbSettings, WandbTracker

MISSING = [name for name in ("mlflow", "wandb") if importlib.util.find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}")

RUN = "2026-11-21-inbox-7f3a"
SETTINGS: dict[str, Any] = {
    "seed": 7,
    "policy": {"name": "openai", "settings": {"model": "küche", "retries": 3}},
    "rewards": [{"name": "utility", "weight": 0.5}],
    "horizon": None,
    "tools": {"of ana: all": "x" * 7000},
    "many": [*range(110)],
}


def track(tracker: Tracker, folder: Path, steps: Mapping[int, Mapping[str, float]], *, finished: bool = True) -> None:
    """One start of a run, which ends or is broken off."""
    try:
        tracker.begin(RUN, folder, SETTINGS)
        for step, metrics in steps.items():
            tracker.log(step, metrics)
        if finished:
            tracker.finish({"reward": 0.75})
    finally:
        tracker.close()
        tracker.close()  # closing twice is fine


# -- mlflow ------------------------------------------------------------------------------------------------------------


def mlflow_run(store: Path) -> tuple[Any, Any]:
    """A client, and the only run in the store."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=f"sqlite:///{store / 'mlflow.db'}")
    (experiment,) = [one for one in client.search_experiments() if one.name != "Default"]
    (run,) = client.search_runs([experiment.experiment_id])
    return client, run


def history(store: Path, name: str) -> list[tuple[int, float]]:
    client, run = mlflow_run(store)
    return sorted((metric.step, metric.value) for metric in client.get_metric_history(run.info.run_id, name))


def test_mlflow_has_one_run_with_its_settings_however_often_it_is_broken_off(tmp_path: Path) -> None:
    (began := tmp_path / "began").mkdir()
    track(MLflowTracker(MLflowSettings()), began, {0: {"reward": 0.25}}, finished=False)
    _, run = mlflow_run(began / "mlflow")
    assert run.info.status == "FAILED"
    tmp_path = began.rename(tmp_path / "moved")
    track(MLflowTracker(MLflowSettings()), tmp_path, {2: {"reward": 0.5}, 1: {"reward": 1.0}})
    _, run = mlflow_run(tmp_path / "mlflow")
    assert (run.info.run_name, run.info.status) == (RUN, "FINISHED")
    assert history(tmp_path / "mlflow", "reward") == [(0, 0.25), (1, 1.0), (2, 0.5)]
    assert run.data.metrics["summary/reward"] == 0.75
    assert run.data.params == {
        "seed": "7",
        "policy.name": "openai",
        "policy.settings.model": "küche",
        "policy.settings.retries": "3",
        "rewards.0.name": "utility",
        "rewards.0.weight": "0.5",
        "horizon": "null",
        "tools.of ana_ all": "x" * 6000,
        **{f"many.{number}": str(number) for number in range(110)},
    }
    client, run = mlflow_run(tmp_path / "mlflow")
    client.delete_run(run.info.run_id)
    track(MLflowTracker(MLflowSettings()), tmp_path, {0: {"reward": 0.5}})
    assert history(tmp_path / "mlflow", "reward") == [(0, 0.5)], "one that was deleted isn't gone on with"


BEGIN_AT_ONCE = """
import sys
from pathlib import Path
from agentfw_plugins.trackers.metric_trackers import MLflowSettings, MLflowTracker
import mlflow.tracking
folder = Path(sys.argv[1])
folder.mkdir()
print("ready", flush=True)
sys.stdin.readline()
tracker = MLflowTracker(MLflowSettings(store=sys.argv[2]))
tracker.begin(folder.name, folder, {"seed": 7})
tracker.log(0, {"reward": 0.5})
tracker.finish({})
"""


@pytest.mark.nightly
@pytest.mark.parametrize("address", ["{}", "sqlite:///{}/mlflow.db"])
def test_mlflow_runs_that_begin_at_once_share_a_new_store(address: str, tmp_path: Path) -> None:
    from mlflow.tracking import MlflowClient

    shared = tmp_path / "shared"
    command = [sys.executable, "-c", BEGIN_AT_ONCE]
    folders = [str(tmp_path / f"run {number}") for number in range(6)]
    begun = [[*command, folder, address.format(shared)] for folder in folders]
    runs: list[Any] = [subprocess.Popen(one, stdin=PIPE, stdout=PIPE, stderr=PIPE, text=True) for one in begun]
    assert [run.stdout.readline() for run in runs] == ["ready\n"] * 6
    for run in runs:
        run.stdin.write("\n")
        run.stdin.flush()
    said = [run.communicate()[1] for run in runs]

    assert [run.returncode for run in runs] == [0] * 6, "\n".join(said)
    client = MlflowClient(tracking_uri=f"sqlite:///{shared / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("agentfw")
    assert experiment is not None
    names = [run.info.run_name for run in client.search_runs([experiment.experiment_id])]
    assert sorted(map(str, names)) == [f"run {number}" for number in range(6)]


@pytest.mark.nightly
def test_mlflow_store_whose_creation_was_killed_is_created_by_the_next_run(tmp_path: Path) -> None:
    program = (
        "import os; from pathlib import Path; from agentfw_plugins.trackers.metric_trackers import *\n"
        "import sqlalchemy.event, sqlalchemy.engine\n"
        "made = []\n"
        "@sqlalchemy.event.listens_for(sqlalchemy.engine.Engine, 'before_cursor_execute')\n"
        "def stop(connection, cursor, statement, *more):\n"
        "    made.extend([1] * (statement.split()[0] in ('CREATE', 'ALTER')))\n"
        "    if len(made) == 100: os._exit(9)\n"
        f"MLflowTracker(MLflowSettings()).begin('r', Path({str(tmp_path)!r}), {{}})\n"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 9

    track(MLflowTracker(MLflowSettings()), tmp_path, {0: {"reward": 0.25}})

    assert history(tmp_path / "mlflow", "reward") == [(0, 0.25)]


# -- wandb -------------------------------------------------------------------------------------------------------------


def wandb_records(file: Path) -> list[Any]:
    """The records of one start. wandb keeps them in LevelDB's log format, as messages of its own schema."""
    from wandb.proto.wandb_internal_pb2 import Record  # type: ignore[attr-defined]  # defined when it is loaded

    until = time.monotonic() + 300
    while True:
        data, position, records, whole = file.read_bytes(), 7, [], b""
        while position + 7 <= len(data):
            if 32768 - position % 32768 < 7:  # a block's end has no room for a header
                position += 32768 - position % 32768
                continue
            _, length, kind = struct.unpack_from("<IHB", data, position)
            if position + 7 + length > len(data):
                break  # it is being written just now
            whole += data[position + 7 : position + 7 + length]
            position += 7 + length
            if kind in (1, 4):  # the whole record, or its last part
                records.append(Record.FromString(whole))
                whole = b""
        # The process that writes the file is a moment later than ours; the last record says that it is done.
        if any(record.HasField("exit") for record in records) or time.monotonic() > until:
            return records
        time.sleep(0.05)


def wandb_history(records: list[Any]) -> list[dict[str, Any]]:
    rows = []
    for record in records:
        if record.HasField("history"):
            items = {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
            rows.append({name: value for name, value in items.items() if not name.startswith("_")})
    return rows


@pytest.mark.nightly
def test_wandb_keeps_a_run_on_disk_under_one_id(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    track(WandbTracker(WandbSettings()), tmp_path, {0: {"reward": 0.25}, 2: {"reward": 0.5}}, finished=False)
    track(WandbTracker(WandbSettings(project="kitchen")), tmp_path, {1: {"reward": 1.0}})
    assert capfd.readouterr().out == "", "stdout is for data"
    first, second = map(wandb_records, sorted(tmp_path.glob("wandb/offline-run-*/*.wandb")))
    assert wandb_history(first) == [{"reward": 0.25, "step": 0}, {"reward": 0.5, "step": 2}]
    assert wandb_history(second) == [{"reward": 1.0, "step": 1}]
    runs = [next(record.run for record in records if record.HasField("run")) for records in (first, second)]
    assert [(run.run_id, run.display_name) for run in runs] == [(RUN, RUN)] * 2
    assert [run.project for run in runs] == ["agentfw", "kitchen"]
    config = {item.key: json.loads(item.value_json) for item in runs[0].config.update}
    assert config["policy"] == SETTINGS["policy"]
    ends = [next(record.exit.exit_code for record in records if record.HasField("exit")) for records in (first, second)]
    assert ends == [1, 0]
    summary = {item.key: item.value_json for record in second for item in record.summary.update}
    assert summary["summary/reward"] == "0.75"


def test_wandb_online_without_a_key_is_an_error_with_a_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with pytest.raises(AgentfwError) as caught:
        WandbTracker(WandbSettings(mode="online")).begin(RUN, tmp_path, SETTINGS)
    assert "no API key" in caught.value.message
    assert "wandb login" in caught.value.fix


# -- all of them -------------------------------------------------------------------------------------------------------


@pytest.fixture
def proxy() -> Iterator[tuple[str, list[bytes]]]:
    """A proxy that takes down what it is asked for, and gives nothing."""
    asked: list[bytes] = []

    class Noting(Handler):
        def handle(self) -> None:
            asked.append(self.rfile.readline())

    with listening(Noting) as address:
        yield address, asked


@pytest.mark.nightly
@pytest.mark.parametrize("made", ["MLflowTracker(MLflowSettings())", "WandbTracker(WandbSettings())"])
def test_no_tracker_asks_for_the_network_by_default(made: str, tmp_path: Path, proxy: tuple[str, list[bytes]]) -> None:
    address, asked = proxy
    program = (
        "from pathlib import Path\n"
        "from agentfw_plugins.trackers.metric_trackers import *\n"
        f"tracker = {made}\n"
        f"tracker.begin('r', Path({str(tmp_path)!r}), {{}}); tracker.log(0, {{'x': 1.0}}); tracker.finish({{}})"
    )
    # mlflow leaves its telemetry off where it sees that it is being tested; so it must not see that.
    hints = ("CI", "GITHUB_", "PYTEST_", "MLFLOW_", "WANDB_", "NO_PROXY", "no_proxy")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(hints)}
    environment |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "ALL_PROXY"), address)
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path, env=environment)
    assert asked == []
