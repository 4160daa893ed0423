"""The policy of an earlier run, wherever a policy can be named: `--policy last`.

Of a training it is the newest version that was learned, of any other run the policy as it was. `last` is the newest
training that has a version, because every evaluation and every session of a gateway is a run, too.

    chosen = policy_of_run(host, "last", Path("runs"))   # {"name": "transformers", "settings": {"adapter": ...}}
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...errors import RunFolderError, UnknownNameError, UsageError
from ...host import Host
from ...settings import VERSION, marked_keys
from ..records.folder import RunFolder, find_run, list_runs
from ..records.training_state import State
from .settings_record import from_json, masked_keys

__all__ = ["find_training", "newest_version", "policy_of_run"]


def policy_of_run(host: Host, name: str, runs: Path) -> str | dict[str, Any]:
    """The name of a policy as it is, and that of a run as the policy that it had or made.

    Settings with secrets are left out: they are given again, or read from the environment.
    """
    try:
        host.find("policy", name)
        return name
    except UnknownNameError as unknown:
        try:
            folder = find_training(runs, name)
        except (RunFolderError, UnknownNameError) as error:
            if name == "last" or len(Path(name).parts) > 1:
                raise error from None
            raise unknown from None
    policy = folder.about["spec"]["policy"]
    given = from_json(policy["settings"])
    secret = {key.partition(".")[0] for key in masked_keys(given)}
    settings = {key: value for key, value in given.items() if key not in secret}
    if folder.planned_updates:
        settings[_key(host, policy["name"], folder)] = str(newest_version(folder))
    return {"name": policy["name"], "settings": settings}


def find_training(runs: Path, name: str) -> RunFolder:
    """The run of a name. `last` is the newest training that has a version."""
    if name != "last":
        return find_run(runs, name)
    for folder in list_runs(runs):
        if folder.planned_updates and State.read(folder.path).adapter:
            return folder
    raise RunFolderError(f"no training in {runs} has a version yet", fix="train one, or name a run: agentfw runs list")


def newest_version(folder: RunFolder) -> Path:
    """Where the newest version of a training is."""
    state = State.read(folder.path)
    if not state.adapter:
        raise UsageError(
            f"{folder.id} has no version yet: {state.update} of {folder.planned_updates} updates are done",
            fix="wait for one that teaches something, or use the base that it started from",
        )
    adapter = (folder.path / state.adapter).resolve()
    if not adapter.exists():
        raise RunFolderError(f"{adapter}, the newest version of {folder.id}, is gone", fix="restore it from a copy")
    return adapter


def _key(host: Host, policy: str, folder: RunFolder) -> str:
    """The setting of a policy that takes a version."""
    keys = marked_keys(host.settings_model("policy", policy), VERSION)
    if not keys:
        raise UsageError(
            f"the policy {policy} of {folder.id} has no setting that takes a version of a training",
            fix=f"see what it has: agentfw plugins show {policy}",
        )
    return min(keys)
