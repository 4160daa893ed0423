"""`agentfw doctor`: shows what is installed, where, and what is missing.

Its output can be pasted into a public issue: secrets are never shown. A topic, such as `gpu`, is examined by the entry
point of this name in the group `agentfw.doctors`: a function that is given the chosen rows and yields one by one.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw.boundary.metadata import entry_points, version_of
from agentfw.errors import AgentfwError, SettingsError, UsageError, with_extra
from agentfw.printing.out import Out
from agentfw_cli.common import Given, note_problems, shared_options

if TYPE_CHECKING:
    from agentfw.host import Host

_WATCHED = ("AGENTFW_", "OPENAI_", "MLFLOW_", "WANDB_", "CUDA_VISIBLE_DEVICES", "NO_COLOR", "HF_HUB_OFFLINE")
_SECRET = ("KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH")
_LOGIN = re.compile(r"(?<=//)[^/@\s]+@")  # the name and password in an address


@click.command()
@click.option(
    "--settings",
    "settings_of",
    is_flag=False,
    flag_value="",
    metavar="[NAME]",
    help="Show the settings of `agentfw run NAME` instead, and where each comes from. NAME can be a spec file.",
)
@click.argument("topic", required=False)
@click.option("--row", "rows", multiple=True, metavar="NAME", help="Examine only this of the topic; repeat for more.")
@shared_options("runs", "host", "json")
def doctor(given: Given, settings_of: str | None, topic: str | None, rows: tuple[str, ...]) -> int:
    """Show what is installed, where, and what is missing.

    Secrets are never shown. The exit code is 3 when a plugin is broken.

    \b
    agentfw doctor gpu    what the GPU of this machine does for a training
    """
    import platform

    import agentfw

    out = given.out
    if topic is not None:
        return _examine(topic, rows, given.root, out)
    if settings_of is not None:
        _show_settings(settings_of, given.host(), out)
        return 0
    host = given.host(tell=False)
    project = host.options.project
    facts = {
        "agentfw": agentfw.__version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "platform": platform.platform(),
        "installed in": os.path.dirname(agentfw.__file__),
        "project file": str(project.path) if project else "none",
        **({} if project is None else project.effect()),
        "accelerator": _accelerator(),
    }
    variables = {name: _shown(name, value) for name, value in sorted(os.environ.items()) if name.startswith(_WATCHED)}
    missing = [
        {"kind": found.kind, "name": found.component.name, "extra": extra, "distribution": found.record.distribution}
        for found in host.components()
        if (extra := host.missing_extra(found))
    ]
    for entry in entry_points("agentfw.commands"):
        # `module:command [extra]`, as the packaging standards write what an entry point needs.
        extra = entry.value.partition("[")[2].rstrip("] ")
        if extra and _lacks(entry.distribution, extra):
            missing.append({"kind": "command", "name": entry.name, "extra": extra, "distribution": entry.distribution})
    plugins: list[dict[str, Any]] = [
        {name: getattr(record, name) for name in ("name", "distribution", "version", "state")}
        | {"problems": record.problem_lines()}
        for record in host.plugins
    ]
    problems = [problem for plugin in plugins for problem in plugin["problems"]]
    if out.json:
        plain = {key.replace(" ", "_"): value for key, value in facts.items()}
        out.data({**plain, "variables": variables, "plugins": plugins, "missing": missing})
        return 3 if problems else 0
    out.table(["", ""], [[key, value] for key, value in {**facts, **variables}.items()])
    out.line()
    for row in plugins:
        row["title"] = row["name"] if row["name"] == row["distribution"] else f"{row['name']} ({row['distribution']})"
    out.table(["plugin", "version", "state"], [[row["title"], row["version"], row["state"]] for row in plugins])
    for problem in problems:
        out.line(f"  {problem}")
    if missing:
        out.line()
        how = [f"pip install {with_extra(row['distribution'], row['extra'])}" for row in missing]
        names = [f"{row['kind']} {row['name']}" for row in missing]
        out.table(["not usable yet", "install"], [*map(list, zip(names, how, strict=True))])
    note_problems(host, out, problems)
    return 3 if problems else 0


def _examine(topic: str, rows: tuple[str, ...], runs: Path, out: Out) -> int:
    """Examine one topic. Each row is printed and kept as it ends; 1 if one of them failed."""
    from agentfw.boundary.gate import function_at

    topics = {entry.name: entry for entry in entry_points("agentfw.doctors")}
    if topic not in topics:
        raise UsageError(f"there is no topic {topic}", fix=f"agentfw doctor {' or '.join(topics)}")
    examine = function_at(topics[topic].value.partition("[")[0].strip(), f"the topic {topic}")
    found, kept = list[dict[str, Any]](), runs / f"{topic}.json"
    try:
        for row in examine(rows):
            found.append(row)
            runs.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps(found, indent=2) + "\n", "utf-8")
            if not out.json:
                _show_row(row, out)
    except SettingsError as error:  # it isn't what was typed that is wrong, but the machine
        raise AgentfwError(error.message, fix=error.fix) from None
    if out.json:
        out.data(found)
    else:
        out.note(f"kept in {kept}")
    return int(any("failed" in row for row in found))


def _show_row(row: dict[str, Any], out: Out, indent: str = "") -> None:
    for name, value in row.items():
        if isinstance(value, dict):
            out.line(f"{indent}  {name}")
            _show_row(value, out, indent + "  ")
        elif isinstance(value, list):
            for each in value:
                out.line(f"{indent}  {name}: {'  '.join(f'{key} {one}' for key, one in each.items())}")
        else:
            out.line(value if name == "row" else f"{indent}  {name}: {value}")


def _lacks(distribution: str, extra: str) -> bool:
    """Whether something that an extra asks for isn't installed."""
    from importlib.metadata import requires

    from packaging.requirements import Requirement

    asked = [Requirement(text) for text in requires(distribution) or ()]
    return any(
        each.marker is not None
        and each.marker.evaluate({"extra": extra})
        and not each.marker.evaluate({"extra": ""})
        and not version_of(each.name)
        for each in asked
    )


def _show_settings(name: str, host: Host, out: Out) -> None:
    """What all layers say of a run, each value with the layer that it comes from."""
    from agentfw.boundary.secrets import is_secret_name
    from agentfw.host import runs_directory
    from agentfw.runs.spec.start import chosen_values, start_of_run
    from agentfw.runs.spec.values import to_json

    file = Path(name).absolute() if name.endswith(".toml") else None
    values = chosen_values(host, start_of_run, None if file else name or None, file, runs=runs_directory(None))
    rows = [
        {"key": key, "value": "set, not shown" if is_secret_name(key) else to_json(value), "from": source}
        for key, (value, source) in values.origins().items()
    ]
    for layer in reversed(host.layers):
        effect = {key: value for key, value in layer.effect().items() if key != "defaults"}
        rows += [{"key": key, "value": value, "from": layer.title} for key, value in effect.items()]
    if out.json:
        out.data(rows)
        return
    shown = [[row["key"], "null" if (value := row["value"]) is None else str(value), row["from"]] for row in rows]
    out.table(["setting", "value", "from"], [[key, _shown("", value), source] for key, value, source in shown])
    out.note("later layers win: distributions, your own file, project, spec, environment variables, command line")
    note_problems(host, out)


def _shown(name: str, value: str) -> str:
    if any(word in name.upper() for word in _SECRET):
        return "set, not shown"
    return _LOGIN.sub("***@", value)


def _accelerator() -> str:
    """What torch sees; without torch, nobody here would use one."""
    from importlib import import_module
    from importlib.util import find_spec

    if find_spec("torch") is None:
        return "not looked for: torch is not installed"
    try:
        torch: Any = import_module("torch")
    except Exception as error:  # a torch for another machine raises whatever its libraries raise
        return f"torch can't be imported: {error}"
    if torch.cuda.is_available():
        return ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
    return f"none; torch {torch.__version__} computes on the CPU"
