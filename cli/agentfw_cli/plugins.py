"""`agentfw plugins`, `data` and `trust`: what plugins offer, their data sets, and what a person has allowed.

What can't be used is listed, too, with what to do about it: a plugin is never silently absent.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw.boundary.metadata import EntryPoint, direct_url, entry_points, normalise
from agentfw.component import KINDS
from agentfw.errors import UnknownNameError, UsageError, with_extra
from agentfw.printing.out import Out, counted
from agentfw_cli.common import Given, load_command, note_problems, several_option, shared_options, unknown_name

if TYPE_CHECKING:
    from agentfw.host import Host, Registered


@click.group()
def plugins() -> None:
    """List, show, check and create plugins."""


@plugins.command("list", short_help="List plugins, what they offer, and what can't be loaded.")
@click.option("--kind", metavar="KIND", help="Show only components of this kind.")
@click.option("--hooks", is_flag=True, help="Show hooks instead, and the plugins that implement them.")
@shared_options("host", "json")
def list_(given: Given, kind: str | None, hooks: bool) -> None:
    """List all plugins with what they offer, then all components, and what can't be loaded."""
    out = given.out
    if kind is not None and kind not in KINDS:
        raise UnknownNameError("kind", kind, KINDS)
    host = given.host(tell=hooks)
    if hooks:
        named = {hook: [f"{one.distribution}:{one.name}" for one in records] for hook, records in host.hooks().items()}
        if out.json:
            out.data([{"hook": hook, "plugins": plugins} for hook, plugins in named.items()])
        else:
            out.table(["hook", "plugins"], [[hook, ", ".join(plugins)] for hook, plugins in named.items()])
        return
    rows = [_row(host, found) for found in host.components(kind)]
    lost = []
    for record in (record for record in host.plugins if record.state != "active"):
        why = "; ".join(record.problem_lines()) or f"{record.error}; {record.fix}"
        lost.append(_listed(record.name, "", record.distribution, record.version, record.state, "", why))
    offers = _offers(host) if kind is None else []
    if out.json:
        known = {row["distribution"] for row in rows + lost}
        others = [
            _listed(name, "", name, version, "active", "", f"offers {what}")
            for name, version, _, what in offers
            if name not in known
        ]
        out.data(rows + lost + others)
        return
    if not rows + lost:
        out.note(f"no plugin has a component of the kind {kind}" if kind else "no plugin is installed")
        return
    if offers:
        out.table(["plugin", "version", "from", "offers"], offers)
        out.line()
    shown = []
    for row in rows + lost:
        what = f"needs [{row['missing_extra']}]: {row['summary']}" if row["missing_extra"] else row["summary"]
        shown.append([row["kind"] or row["state"], row["name"], f"{row['distribution']} {row['version']}", what])
    out.table(["kind", "name", "from", "what it is"], shown)
    note_problems(host, out, [row["summary"] for row in lost])


@plugins.command()
@click.argument("name")
@shared_options("host", "json")
def show(given: Given, name: str) -> None:
    """Show component NAME and its settings. Use KIND:NAME where several kinds have that name."""
    from agentfw.runs.spec.schema import setting_rows

    out, host = given.out, given.host()
    facts = []
    for found in _named(host, name):
        missing = host.missing_extra(found)
        model = None if missing else host.settings_model(found.kind, found.component.name)
        settings = [row._asdict() for row in (setting_rows(model) if model else ())]
        facts.append({**_row(host, found), "factory": found.component.factory, "settings": settings})
    if out.json:
        out.data(facts)
        return
    for number, fact in enumerate(facts):
        if number:
            out.line()
        out.line(f"{out.style(fact['kind'] + ' ' + fact['name'], 'bold')}   {fact['summary']}")
        out.line(f"from {fact['distribution']} {fact['version']}, {fact['factory']}")
        if fact["missing_extra"]:
            out.line(f"not usable yet: pip install {with_extra(fact['distribution'], fact['missing_extra'])}")
        if fact["settings"]:
            out.line()
            rows = []
            for row in fact["settings"]:
                # As it would stand in a spec. Nothing where there is none, or for a table, whose keys have their own.
                default = row["default"]
                nothing = default in ("", None, (), []) or isinstance(default, dict)
                text = "" if nothing else str(default).lower() if isinstance(default, bool) else str(default)
                rows.append([row["key"], row["kind"], text, row["description"]])
            out.table(["setting", "type", "default", "what it does"], rows)


@plugins.command()
@click.argument("name")
@several_option("--set", "assignments", "KEY=VALUE", "Setting of the component, such as rate=0.5. Can be repeated.")
@shared_options("host", "json")
def check(given: Given, name: str, assignments: tuple[str, ...]) -> int:
    """Check that components keep the contract of their kind. The exit code is 3 if one doesn't.

    NAME is a component, KIND:NAME, a plugin or a distribution. Of the last two, all components are checked.
    """
    from agentfw.boundary.settings_input import parse_assignments
    from agentfw.host.offers import is_file
    from agentfw.testing import run_contract

    out, host = given.out, given.host()
    settings = parse_assignments(assignments)
    report: list[dict[str, Any]] = []
    components, plugins, wanted = host.components(), host.plugins, normalise(name)
    is_component = ":" in name or is_file(name) or any(found.component.name == name for found in components)
    named = _named(host, name) if is_component else []
    if any(wanted in (normalise(record.name), record.distribution) for record in plugins):
        records = host.select_distribution(name)
        named += [offer for offer in host.components() if offer.record in records and offer not in named]
        if not named:
            raise UsageError(f"{records[0].title} has no component to check", fix="see: agentfw plugins list --hooks")
    elif not is_component:
        names = {found.component.name for found in components} | {record.distribution for record in plugins}
        raise UnknownNameError("component, plugin or distribution", name, names)
    for found in named:
        # Wrong settings are no fault of the component.
        host.check_settings(found.kind, found.component.name, settings, where=name)
    for found in named:
        results = run_contract(host, found.kind, found.component.name, settings=settings)
        report += [{"kind": found.kind, "component": found.component.name, **each.to_record()} for each in results]
    broken, skipped = sum(not row["passed"] for row in report), sum(row["skipped"] for row in report)
    if out.json:
        out.data(report)
        return 3 if broken else 0
    for component, rows in groupby(report, key=lambda row: f"{row['kind']} {row['component']}"):
        if len(named) > 1:
            out.line(out.style(component, "bold"))
        for row in rows:
            if row["skipped"]:
                mark = out.style("  --  ", "dim")
            else:
                mark = out.style("kept  ", "green") if row["passed"] else out.style("broken", "red", "bold")
            out.line(f"{mark}  {row['promise']}")
            if row["detail"]:
                out.line(f"        {row['detail']}")
    aside = f"; {skipped} {'do' if skipped > 1 else 'does'}n't apply" if skipped else ""
    out.line(f"\n{len(report) - broken - skipped} of {len(report) - skipped} promises kept{aside}")
    return 3 if broken else 0


@plugins.command(short_help="Print the JSON schema of spec files, for editors.")
@shared_options("host", "json")
def schema(given: Given) -> None:
    """Print the JSON schema of spec files, with all components that are installed and their settings.

    An editor completes and checks a spec with it: `#:schema ./spec.schema.json` is the first line of the file then.
    """
    from agentfw.runs.spec.schema import spec_schema

    given.out.data(spec_schema(given.host()))


@plugins.command(short_help="Create a package with a plugin that works.")
@click.argument("name")
@click.option(
    "--kind",
    metavar="KIND",
    help="Kind of its component (environment, policy, tool, memory, ...), world for an environment with a policy and a "
    "reward, or hook for none.",
)
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    default=Path(),
    help="Directory to create it in. Default: the current one.",
)
@click.option(
    "--from",
    "file",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Python file with a component, such as that of --tool ./FILE.py, in place of --kind.",
)
@shared_options("json")
def new(given: Given, name: str, kind: str | None, into: Path, file: Path | None) -> None:
    """Create a package NAME that works, with its settings, tests and a README."""
    from agentfw.scaffold import derive, scaffold, scaffold_file

    out = given.out
    if kind is not None and file is None:
        paths = scaffold(name, kind, into)
    elif file is not None and kind is None:
        paths = scaffold_file(file, name, into, host=given.host())
    else:
        raise UsageError("a new plugin needs either --kind or --from", fix=f"agentfw plugins new {name} --kind memory")
    if out.json:
        out.data({"files": [str(path) for path in paths]})
        return
    for path in paths:
        out.line(str(path))
    names = derive(name)
    folder = into / names.distribution
    look = f"check {names.distribution if kind in (None, 'world') else names.component}"
    look = "list --hooks" if kind == "hook" else look
    out.note(f"next: pip install -e {folder} && agentfw plugins {look}")
    if folder / "README.md" in paths:
        out.note(f"      {folder / 'README.md'} says more")


def _offers(host: Host) -> list[list[str]]:
    """Each distribution that has plugins or commands: its version, where it comes from, and what it offers."""
    from agentfw.hookspecs import LIFECYCLE_HOOKS

    found: dict[tuple[str, str], list[str]] = {(record.distribution, record.version): [] for record in host.plugins}
    kinds: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for each in host.components():
        kinds[each.record.distribution, each.record.version][each.kind] += 1
    for key, counts in kinds.items():
        found.setdefault(key, []).extend(counted(count, kind) for kind, count in counts.items())
    for hook, records in host.hooks().items():
        for record in records if hook in LIFECYCLE_HOOKS else ():
            found[record.distribution, record.version].append(f"the hook {hook}")
    for entry in entry_points("agentfw.commands"):
        found.setdefault((entry.distribution, entry.version), []).append(f"agentfw {entry.name}")
    return [
        [*key, str(direct_url(key[0]).get("folder", "the package index" if key[1] else "")), ", ".join(offers)]
        for key, offers in sorted(found.items())
    ]


def _named(host: Host, name: str) -> list[Registered]:
    """The components of one name, also a qualified one, or the one that KIND:NAME says."""
    from agentfw.host.from_functions import kinds_in
    from agentfw.host.offers import is_file, parted
    from agentfw.host.plugin_loading import module_of

    kind, colon, rest = name.partition(":")
    if colon and kind in KINDS:
        return [host.find(kind, rest)]
    if is_file(name):
        return [host.find(kind, name) for kind in kinds_in(module_of(Path(name)))]
    whose, own = parted(name)
    if whose and not any(record.distribution == whose for record in host.plugins):
        raise UnknownNameError("kind", kind, {*KINDS, *(each.distribution for each in host.plugins)})
    found = [each for each in host.components() if each.component.name == own]
    kinds = sorted({each.kind for each in found if whose in ("", each.record.distribution)})
    if not kinds:
        raise UnknownNameError("component", name, {found.component.name for found in host.components()})
    return [host.find(kind, name) for kind in kinds]


def _row(host: Host, found: Registered) -> dict[str, Any]:
    component, record, extra = found.component, found.record, host.missing_extra(found)
    about = record.distribution, record.version, record.state
    return _listed(component.name, found.kind, *about, extra, component.summary)


def _listed(*values: str) -> dict[str, Any]:
    """A row of the list, as --json prints it."""
    keys = ("name", "kind", "distribution", "version", "state", "missing_extra", "summary")
    return dict(zip(keys, values, strict=True))


class _Worlds(click.Group):
    """The commands VERB.WORLD of worlds for one verb, entry points that are imported when they are called."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self._offers())

    def get_command(self, context: click.Context, name: str) -> click.Command:
        offers = self._offers()
        if name not in offers:
            raise unknown_name(f"data set to {self.name}", name, offers)
        return load_command(f'the command "data {self.name} {name}"', offers[name])

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [
            (name, f"from {' and '.join(offer.distribution for offer in offers)}")
            for name, offers in self._offers().items()
        ]
        if rows:
            with formatter.section("Worlds"):
                formatter.write_dl(rows)

    def _offers(self) -> dict[str, list[EntryPoint]]:
        found: dict[str, list[EntryPoint]] = {}
        for entry in sorted(entry_points("agentfw.data"), key=lambda entry: entry.name):
            verb, _, world = entry.name.partition(".")
            if verb == self.name:
                found.setdefault(world, []).append(entry)
        return found


@click.group()
def data() -> None:
    """Write and check the data sets of environments."""


data.add_command(_Worlds("make", help="Write a data set to disk."))
data.add_command(_Worlds("check", help="Check the sources of a data set."))


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path, exists=True))
def trust(paths: tuple[Path, ...]) -> None:
    """Allow what PATH wants to do. Read it first.

    PATH is a spec file, an agentfw.toml, the folder of a run that wasn't made here, or a folder of skills. Until it is
    allowed, it names no commands, functions, environment variables and addresses, and no skills. What else it wants
    later is refused again.

    \b
      agentfw trust agentfw.toml
      agentfw trust ~/downloads/2026-11-21-inbox-7f3a19c4
    """
    from agentfw.host.project import FILE_NAME, read_project
    from agentfw.host.trust import allow_folder, allow_spec, of_run, wants
    from agentfw.runs.records.folder import RunFolder
    from agentfw.runs.spec.values import read_spec

    out = Out()
    for path in map(Path.absolute, paths):
        if path.is_dir() and not (path / "run.json").exists():
            allow_folder(path)
            out.line(f"{path}: every file in it is allowed as it is")
            continue
        if path.is_dir():
            values = of_run(RunFolder.open(path).about)
            if (path / "package").is_dir():
                allow_folder(path / "package")
        else:
            values = read_project(path).said() if path.name == FILE_NAME else read_spec(path, check=False)
        is_wanting = allow_spec(path, values)
        out.line(f"{path}: {'this is allowed now' if is_wanting else 'it wants nothing that has to be allowed'}")
        for line in sorted(set(wants(values))):
            out.line(f"  {line}")
