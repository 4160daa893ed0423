"""Trackers of metrics: Weights & Biases, and MLflow; and one that copies the run's folder.

Each library is imported when it is used. In the mirror a thread sends what has changed, so the run never waits for the
storage. Storage that can't be reached for a while costs nothing but the age of the copy.
"""

from __future__ import annotations

import json
import logging
import os
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from agentfw import Settings, Tracker
from agentfw.errors import AgentfwError, StorageError
from agentfw.runs import Mirror, check_address, make_folder, make_private, write_whole


class WandbSettings(Settings):
    mode: Literal["offline", "online"] = Field(
        "offline", description="Keep the records on this machine, or send them during the run."
    )
    project: str = Field("agentfw", min_length=1, description="Project that the runs belong to.")


class WandbTracker(Tracker):
    """Logs a run's settings and metrics to Weights & Biases, offline unless `mode` is online.

    Offline, the records are in the run's folder and `wandb sync` sends them. The parts of one run share one id, so they
    are joined there. Neither code nor git information is recorded.

        agentfw run inbox --tracker wandb
        wandb sync runs/2026-11-21-inbox-7f3a19c4/wandb/offline-run-*
    """

    def __init__(self, settings: WandbSettings) -> None:
        self.settings = settings
        self._run: Any = None

    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        # Read when wandb is imported; it switches off wandb's crash reports.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb

        online = self.settings.mode == "online"
        if online and not wandb.api.api_key:
            wrong = "the tracker wandb is online but has no API key"
            raise AgentfwError(wrong, fix="wandb login, or set WANDB_API_KEY, or set mode to offline")
        self._run = wandb.init(
            project=self.settings.project,
            name=run,
            id=re.sub(r"[^\w.-]", "-", run),
            dir=str(folder),
            mode=self.settings.mode,
            # Offline the existing data is unknown; `wandb sync` joins the parts.
            resume="allow" if online else None,
            reinit="create_new",
            config=dict(settings),
            settings=wandb.Settings(console="off", silent=True, disable_git=True, disable_code=True),
        )
        # Episodes end in any order, and wandb drops values whose step goes back.
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log({**metrics, "step": step})

    def finish(self, summary: Mapping[str, float]) -> None:
        self._run.summary.update({f"summary/{name}": value for name, value in summary.items()})
        self._end(0)

    def close(self) -> None:
        self._end(1)

    def _end(self, code: int) -> None:
        """Only the first end counts; a run that is closed before it finished has failed."""
        run, self._run = self._run, None
        if run is not None:
            run.finish(exit_code=code)


_LONGEST_VALUE = 6000  # characters; MLflow rejects longer parameters
_MOST_AT_ONCE = 100  # parameters in one batch
_OPENING = 600.0  # seconds to wait until others have opened the store; each takes a few
_SQLITE = "sqlite:///"
_FORBIDDEN = re.compile(r"[^/\w.\- ]")  # in names


class MLflowSettings(Settings):
    store: str = Field(
        "",
        description="Directory of the store, which runs can share, or URL of a tracking server. "
        "Default: the run's folder.",
    )
    experiment: str = Field("agentfw", min_length=1, description="Name of the MLflow experiment.")


class MLflowTracker(Tracker):
    """Logs a run's settings and metrics to MLflow, in a local store or on a tracking server.

    One run is one MLflow run, however often it is interrupted. The MLflow id is kept in the run's folder and used when
    the run is resumed.

        agentfw run inbox --tracker mlflow --set tracker.mlflow.store=shared
        mlflow ui --backend-store-uri sqlite:///shared/mlflow.db

    The local store is SQLite, because MLflow 3 no longer uses plain files. MLflow creates its tables in more than a
    hundred steps, without a transaction: two processes that do so at once, or one that is killed meanwhile, leave a
    store that nobody can open. So one process at a time opens a store, and a new store gets its name when it is
    complete. MLflow's own telemetry is switched off.
    """

    def __init__(self, settings: MLflowSettings) -> None:
        self.settings = settings
        self._client: Any = None
        self._run = ""

    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        store, artifacts = self.settings.store, None
        if "://" not in store:
            place = (Path(store) if store else folder / "mlflow").absolute()
            store, artifacts = f"{_SQLITE}{(place / 'mlflow.db').as_posix()}", (place / "artifacts").as_uri()
        with _alone(store):
            self._client = _client(store)
            experiment = self._experiment(artifacts)
        from mlflow.entities import Param  # not before `_client`
        from mlflow.exceptions import MlflowException

        note, known = folder / "mlflow-run.json", None
        with suppress(OSError, ValueError, KeyError, TypeError, MlflowException):  # none, or deleted from the store
            kept = json.loads(note.read_text("utf-8"))
            if kept["store"] == store or not self.settings.store:  # its own, wherever the folder is by now
                known = self._client.get_run(kept["run"])
        if known is None or known.info.lifecycle_stage != "active":
            created = self._client.create_run(experiment, run_name=run)
            self._run, params = created.info.run_id, set()
            write_whole(note, json.dumps({"store": store, "run": self._run}) + "\n")
        else:
            self._run, params = known.info.run_id, set(known.data.params)
            self._client.update_run(self._run, status="RUNNING")
        named = {_name(key): value[:_LONGEST_VALUE] for key, value in _flat(settings)}
        new = [Param(key, value) for key, value in named.items() if key not in params]  # they can't be changed
        for start in range(0, len(new), _MOST_AT_ONCE):
            self._client.log_batch(self._run, params=new[start : start + _MOST_AT_ONCE])

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        figures = [Metric(_name(name), float(value), now, step) for name, value in metrics.items()]
        self._client.log_batch(self._run, metrics=figures)

    def finish(self, summary: Mapping[str, float]) -> None:
        self.log(0, {f"summary/{name}": value for name, value in summary.items()})
        self._end("FINISHED")

    def close(self) -> None:
        self._end("FAILED")

    def _end(self, status: str) -> None:
        """Only the first end counts; a run that is closed before it finished has failed."""
        client, self._client = self._client, None
        if client is not None and self._run:
            client.set_terminated(self._run, status)

    def _experiment(self, artifacts: str | None) -> str:
        from mlflow.exceptions import MlflowException

        name = self.settings.experiment
        found = self._client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self._client.create_experiment(name, artifact_location=artifacts))
            except MlflowException:  # another run of the same server may have created it meanwhile
                found = self._client.get_experiment_by_name(name)
                if found is None:
                    raise
        return str(found.experiment_id)


@contextmanager
def _alone(store: str) -> Iterator[None]:
    """Keep other processes from opening this store, and create it where it is new. A server needs neither."""
    if not store.startswith(_SQLITE):
        yield
        return
    file = Path(store.removeprefix(_SQLITE))
    make_folder(file.parent)
    # SQLite's own lock, because it waits, works everywhere, and ends with its process.
    with closing(sqlite3.connect(f"{file}.lock", timeout=_OPENING, isolation_level=None)) as lock:
        lock.execute("BEGIN EXCLUSIVE")
        if not file.exists():
            for unfinished in file.parent.glob(f"{file.name}.*.new"):
                unfinished.unlink()
            new = file.with_name(f"{file.name}.{secrets.token_hex(4)}.new")
            make_private(new)
            _client(f"{_SQLITE}{new.as_posix()}").search_experiments()
            new.replace(file)
        yield


def _client(store: str) -> Any:
    # Read when mlflow is imported; it switches off MLflow's telemetry.
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    from mlflow.tracking import MlflowClient

    # Silences the log of the database migration.
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.WARNING)
    return MlflowClient(tracking_uri=store)


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if not isinstance(value, Mapping | list | tuple):
        yield path, value if isinstance(value, str) else json.dumps(value)
        return
    for key, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
        yield from _flat(inner, f"{path}.{key}" if path else str(key))


def _name(name: str) -> str:
    """A name that MLflow accepts."""
    return _FORBIDDEN.sub("_", name).strip("/")[:250] or "_"


logger = logging.getLogger(__name__)

_SHARE = 10
"""After a pass, nothing is sent for so many times as long as it took: journals are sent whole when they have grown."""


class MirrorSettings(Settings):
    address: str = Field(
        min_length=1,
        description="Where the folders of runs go, such as s3://bucket/runs. Keys are taken from the environment.",
    )
    every: float = Field(10.0, gt=0, description="Seconds between two looks at what has changed.")


class MirrorTracker(Tracker):
    """Sends the run's folder."""

    def __init__(self, settings: MirrorSettings) -> None:
        self.settings = settings
        check_address(settings.address)
        self._thread: threading.Thread | None = None
        self._ends = threading.Event()
        self._failure: StorageError | None = None  # why the last pass failed, if it did

    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        self._mirror = Mirror(folder, self.settings.address)
        self._thread = threading.Thread(target=self._follow, name="agentfw-mirror", daemon=True)
        self._thread.start()

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """The thread looks by itself."""

    def close(self) -> None:
        """Send the rest, and raise if it can't be sent."""
        if self._thread is None:
            return
        self._ends.set()
        self._thread.join()
        self._thread = None
        if self._failure is not None:
            raise self._failure

    def _follow(self) -> None:
        is_last = False
        while not is_last:
            is_last = self._ends.is_set()
            began = time.monotonic()
            failed, self._failure = self._failure, None
            try:
                self._mirror.send()
            except StorageError as error:
                self._failure = error
                if failed is None:
                    logger.warning("%s; it is tried again", error)
            if not is_last:
                self._ends.wait(max(self.settings.every, _SHARE * (time.monotonic() - began)))
