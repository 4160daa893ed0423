"""Options that several commands share, and what they make of them: the output, the directory of runs, the host."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from agentfw.boundary import gate
from agentfw.boundary.metadata import EntryPoint
from agentfw.boundary.output import hand_over_stdout
from agentfw.errors import AgentfwError, DuplicateComponentError, PluginError, UnknownNameError, in_words, is_failure
from agentfw.printing.out import Out

if TYPE_CHECKING:
    from agentfw.host import Host
    from agentfw.runs.records.folder import RunFolder

Command = Callable[..., Any]

_OPTIONS: dict[str, tuple[Callable[[Command], Command], ...]] = {
    "runs": (click.option("--runs", type=click.Path(path_type=Path), help="Directory of runs. Default: ./runs."),),
    "host": (
        click.option("--strict-plugins", "strict", is_flag=True, help="Treat every problem of a plugin as an error."),
        click.option(
            "--no-plugin", "blocked", multiple=True, metavar="NAME", help="Don't load this plugin. Can be repeated."
        ),
    ),
    "quiet": (click.option("--quiet", is_flag=True, help="Hide progress and hints."),),
    "json": (click.option("--json", "as_json", is_flag=True, help="Print the result as JSON and nothing else."),),
}


def several_option(option: str, name: str, metavar: str, words: str) -> Callable[[Command], Command]:
    """An option that can be repeated."""
    return click.option(option, name, multiple=True, metavar=metavar, help=words)


class Given:
    """What was given with the options that commands share. Without an option, it is as if nobody had given it."""

    root: Path
    """The directory of runs. Known before a host is loaded, because a plugin may change the current directory."""

    def __init__(
        self, *, blocked: tuple[str, ...] = (), strict: bool = False, quiet: bool = False, as_json: bool = False
    ) -> None:
        self.blocked, self.strict, self.out = blocked, strict, Out(json=as_json, quiet=quiet)
        gate.tells_slow = not quiet

    def host(self, *, tell: bool = True) -> Host:
        """The host of this folder and environment. With `tell`, its notes go to stderr."""
        from agentfw.host import Host, HostOptions

        host = Host.load(HostOptions.from_environment(blocked=self.blocked, strict=self.strict))
        if tell:
            note_problems(host, self.out)
        return host

    def folder(self, run: str) -> RunFolder:
        """The folder of a run, by what a person calls it."""
        from agentfw.runs.records.folder import find_run

        return find_run(self.root, run)


def shared_options(*names: str) -> Callable[[Command], Command]:
    """Add options that several commands have, by their keys in `_OPTIONS`. The command is called with a `Given`."""

    def mark(command: Command) -> Command:
        @wraps(command)
        def called(**values: Any) -> Any:
            own = {key: values.pop(key) for key in ("blocked", "strict", "quiet", "as_json") if key in values}
            given = Given(**own)
            if "runs" in names:
                from agentfw.host import runs_directory

                given.root = runs_directory(values.pop("runs"))
            return command(given, **values)

        marked: Command = called
        for name in reversed(names):
            for option in reversed(_OPTIONS[name]):
                marked = option(marked)
        return marked

    return mark


def note_problems(host: Host, out: Out, told: Collection[str] = (), *, selected: bool = False) -> None:
    """Print the notes of the host once, without those that were told. --quiet hides them, unless they are `selected`:
    about what the user has selected."""
    for line in host.notes:
        if line not in told:
            (out.warning if selected else out.note)(f"plugin: {line}")
    host.notes.clear()


class _Unloaded(EntryPoint):
    """Stands in for an entry point where only its name and version matter: loading it imports nothing."""

    def load(self) -> object:
        return object()


def load_command(what: str, offers: Sequence[EntryPoint], select: Sequence[str] = ()) -> click.Command:
    """Load the command of a plugin, of several that of agentfw itself. `select` says how to name one of several."""
    from agentfw.host import Host
    from agentfw.host.host import DISABLE_VARIABLE
    from agentfw.host.offers import OWN_DISTRIBUTION, mend_of

    offers = sorted(offers, key=lambda offer: (offer.distribution != OWN_DISTRIBUTION, offer.distribution))
    # What AGENTFW_DISABLE_PLUGINS or agentfw.toml leave out.
    plugins = Host.load(None, [_Unloaded(*entry) for entry in offers]).plugins
    left_out = {one.distribution: one.failure() for one in plugins if one.state in ("blocked", "refused")}
    entry, *others = [offer for offer in offers if offer.distribution not in left_out] or offers
    is_ours = entry.distribution == OWN_DISTRIBUTION
    if others and not is_ours:
        titles = " and ".join(f"{offer.distribution} {offer.version}" for offer in (entry, *others))
        fix = f"leave one of them out: {DISABLE_VARIABLE}={others[0].distribution}"
        raise DuplicateComponentError(f"{what} is offered twice: by {titles}", fix=" or ".join([fix, *select]))
    if others:
        Out().note(f"{what} is built in, and {others[0].distribution} {others[0].version} offers one, too")
    if entry.distribution in left_out:
        raise left_out[entry.distribution]
    if not is_ours:
        hand_over_stdout()
    text = f"{what} of {entry.distribution} {entry.version}"
    fix = f"pip install --upgrade {entry.distribution}"
    fix += "" if is_ours else f", or pip uninstall {entry.distribution}"
    command = gate.let_in(text, entry.load, fix=fix)
    if not isinstance(command, click.Command):
        raise PluginError(f"{text} is no click command but {type(command).__name__}", fix=fix)
    invoke = type(command).invoke  # not the one of an earlier call in this process

    def attributed(ctx: click.Context) -> Any:
        try:
            return invoke(command, ctx)
        except (AgentfwError, click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except BaseException as error:
            if isinstance(error, SystemExit) or not is_failure(error):  # a command may end as it wants to
                raise
            mend = f"{mend_of(entry.distribution)}; use --debug to see where it failed"
            raise PluginError(f"{text} failed: {in_words(error)}", fix=mend) from error

    command.invoke = attributed  # type: ignore[method-assign]
    return command


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """The error for a name that is no command. It says what to install where a plugin knows who has it."""
    offer = Given().host(tell=False).installable(name, command=kind == "command")
    return UnknownNameError(kind, name, known, offered_by=offer)


def figure_row(folder: RunFolder, name: str, figure: Mapping[str, Any]) -> list[str]:
    """A figure of a summary's record as a row: its title, its mean, and its interval where there is one."""
    from agentfw.runs.records.figure_table import figure_text, figure_title

    low, high = figure["low"], figure["high"]
    interval = "" if low is None else f"{figure_text(name, low)} to {figure_text(name, high)}"
    return [figure_title(name, folder), figure_text(name, figure["mean"]), interval]


def usage_words(summary: Mapping[str, Any]) -> str:
    """The tokens of a summary's record in words, with their cost, and those of the judge if there is one."""
    from agentfw.episode import Usage

    found = []
    for who, usage in (("", Usage(**summary["usage"])), ("judge: ", Usage(**summary["judged"]))):
        numbers = {"prompt": usage.prompt, "of these cached": usage.cached, "sampled": usage.sampled}
        if usage.tokens is None and usage.cost is None:
            found.append(f"{who}unknown, and so is their cost: the server doesn't report them")
        elif any(numbers.values()):  # not of a program, which has no tokens and costs nothing
            parts = [f"{number:,} {word}" for word, number in numbers.items() if number is not None]
            parts += ["cost unknown"] if usage.cost is None else [f"cost {usage.cost:.4g}"] if usage.cost else []
            found.append(who + ", ".join(parts))
    return "; ".join(found)
