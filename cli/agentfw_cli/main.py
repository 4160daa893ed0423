"""The `agentfw` command: a list of subcommands, each imported when it is called.

`--help` imports nothing but click: no plugin, no framework, no pydantic. The commands of plugins come from the
installed metadata of the group `agentfw.commands`.

    agentfw --help
    agentfw runs resume last --debug
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from agentfw import __version__
from agentfw.boundary import metadata
from agentfw.boundary.metadata import EntryPoint, blame
from agentfw.boundary.output import data_kept, data_stream, struck_streams
from agentfw.errors import AgentfwError, StorageError, UntrustedError, disk_fix, in_words, is_failure, storing
from agentfw.printing.out import Out

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


_COMMANDS = {
    "run": ("agentfw_cli.run:run", "Run an agent in an environment, and measure how well it does"),
    "serve": ("", "Put a memory and a record in front of your model"),
    "view": ("", "Look at everything that was recorded, in a browser"),
    "train": ("agentfw_cli.run:train", "Train a model on its own episodes, or on your prompts"),
    "compare": ("agentfw_cli.compare:compare", "Compare runs, with intervals"),
    "plugins": ("agentfw_cli.plugins:plugins", "List, create and check plugins"),
    "doctor": ("agentfw_cli.doctor:doctor", "Show what is installed, where, and what is missing"),
    "reproduce": ("agentfw_cli.compare:reproduce", "Play a run again, and say whether it is equal"),
}
"""What a newcomer needs: where each is, and a line on it. The empty ones come by the entry points of agentfw itself."""
_MORE = {
    "chat": ("", "Talk with a model that remembers and learns"),
    "runs": ("agentfw_cli.runs:runs", "List, show and resume runs"),
    "report": ("agentfw_cli.runs:report", "Write the report of a run"),
    "export": ("", "Write a trained model for other programs"),
    "memory": ("", "Look into a memory, search it, change it"),
    "reward": ("", "Fit and try a reward model"),
    "feedback": ("", "Say what you think of recorded answers"),
    "trust": ("agentfw_cli.plugins:trust", "Allow what a spec, a run or skills of others want to do"),
    "data": ("agentfw_cli.plugins:data", "Write and check the data sets of environments"),
}
_PLACES = {name: place for name, (place, _) in (_COMMANDS | _MORE).items() if place}
_GROUP, _OURS = "agentfw.commands", "agentfw"


class _ReaderGone(Exception):
    """The reader of our output has closed it, `head` for one; that is no error."""


class _Formatter(click.HelpFormatter):
    """Leaves words with a hyphen whole, such as agentfw-papers and --no-plugin: click would break lines in them."""

    def write_text(self, text: str) -> None:
        super().write_text(text.replace("-", _HYPHEN))

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl([(first, second.replace("-", _HYPHEN)) for first, second in rows], col_max, col_spacing)

    def getvalue(self) -> str:
        return super().getvalue().replace(_HYPHEN, "-")


_HYPHEN = "\N{NON-BREAKING HYPHEN}"
click.Context.formatter_class = _Formatter


class _Commands(click.Group):
    """Commands by name. A plugin's command with the name of one of ours is there by a qualified name, `acme:chat`."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except BrokenPipeError as error:  # click itself would end with 1
            raise _ReaderGone from error

    def list_commands(self, context: click.Context) -> list[str]:
        return [name for lines in self._lines() for name in lines]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name in _PLACES:
            module, _, attribute = _PLACES[name].partition(":")
            command = getattr(importlib.import_module(module), attribute)
            assert isinstance(command, click.Command)
            return command
        found = _from_plugins()
        own = name.rpartition(":")[2]
        # Of one name agentfw's own is meant, but it is told that there are others.
        offers = [entry for other, some in found.items() if other.endswith(f":{name}") for entry in some]
        offers = found.get(name, []) + (offers if ":" not in name else [])
        if not offers:
            return None
        from agentfw_cli.common import load_command

        select = [f"agentfw {entry.distribution}:{own}" for entry in offers]
        return load_command(f'the command "{own}"', offers, select)

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        """The names of the commands; click itself would import all of them."""
        from click.shell_completion import CompletionItem

        names = [each for lines in self._lines() for each in lines.items() if each[0].startswith(incomplete)]
        found = [CompletionItem(name, help=words) for name, words in names]
        return found + click.Command.shell_complete(self, context, incomplete)

    def resolve_command(self, context: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(context, args)
        except click.UsageError:
            from agentfw_cli.common import unknown_name

            raise unknown_name("command", args[0], self.list_commands(context)) from None

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        for title, lines in zip(("Commands", "More commands"), self._lines(), strict=True):
            with formatter.section(title):
                formatter.write_dl(list(lines.items()))

    def _lines(self) -> tuple[dict[str, str], dict[str, str]]:
        """The line of each command that there is: of the first ones, and of all others."""
        found = _from_plugins()
        first, more = (
            {name: words for name, (place, words) in table.items() if place or name in found}
            for table in (_COMMANDS, _MORE)
        )
        for name, offers in found.items():
            if name not in first | more:
                words = [(entry.summary.rstrip("."), entry.distribution) for entry in offers]
                more[name] = " and ".join(f"{about} ({who})" if about else f"from {who}" for about, who in words)
        return first, more


def _from_plugins() -> dict[str, list[EntryPoint]]:
    """The commands of plugins by name, sorted; each with whoever offers it. What isn't unique is qualified."""
    entries = [entry for entry in metadata.entry_points(_GROUP) if entry.name.isprintable()]
    names = [*_PLACES, *(entry.name for entry in entries)]
    found: dict[str, list[EntryPoint]] = {}
    for entry in entries:
        plain = names.count(entry.name) == 1 or (entry.distribution == _OURS and entry.name not in _PLACES)
        found.setdefault(entry.name if plain else f"{entry.distribution}:{entry.name}", []).append(entry)
    return dict(sorted(found.items()))


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="For the options of a command: agentfw COMMAND --help",
)
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(__version__, message="agentfw %(version)s", help="Show the version and exit.")
def cli(debug: bool) -> None:
    """Agents that learn their user.

    To begin, run `agentfw run`. It needs no network, no API key and no GPU.
    """


def main(arguments: list[str] | None = None) -> None:
    """The console script.

    Exit codes: 0 done, 1 the run failed, 2 usage or settings, 3 a plugin failed, 130 interrupted, 143 terminated.
    """
    is_process = arguments is None
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["help"]:
        arguments = [*arguments[1:], "--help"]
    # Our own matrices are small: on a busy machine threads that wait for each other would take the most of the time.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # pydantic looks for plugins of its own in all installed metadata, and one file there that can't be read ends it.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    _take_descriptors()

    debug, name = "--debug" in arguments, next((word for word in arguments if not word.startswith("-")), "")
    plays = is_process and (name in ("run", "train", "compare", "reproduce") or arguments[:2] == ["runs", "resume"])
    if plays and not debug:
        from agentfw_cli.interrupts import tell_of_leftovers

        tell_of_leftovers()
    with struck_streams(), data_kept(for_good=is_process):
        code = _guarded(arguments, debug=debug)
    if plays:
        from agentfw_cli.interrupts import leave_soon

        leave_soon(code)
    sys.exit(code)


def _take_descriptors() -> None:
    """Let nothing but our own `sys.stdout` write to stdout: descriptor 1, to which libraries in C and programs of
    plugins write, becomes stderr. On a terminal both are the same, and readline needs the descriptor."""
    for number in (0, 1, 2):  # a closed one would be given to the next file that is opened
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None or sys.stderr is None:
        nowhere = open(os.devnull, "w")  # noqa: SIM115
        sys.stdout, sys.stderr = sys.stdout or nowhere, sys.stderr or nowhere
    replaced = sys.stdout is not sys.__stdout__  # by a test, or by whoever calls main()
    if replaced or sys.stdout.isatty() or sys.stdout.fileno() != 1:
        return
    sys.stdout.flush()
    sys.stdout = open(os.dup(1), "w", encoding=sys.stdout.encoding)  # noqa: SIM115
    os.dup2(2, 1)


def _guarded(arguments: list[str], debug: bool) -> int:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a bar or half an emoji on a terminal that can't show it is no error
            stream.reconfigure(errors="replace")
    try:
        # --debug is welcome anywhere on the line.
        result = _allowed([word for word in arguments if word != "--debug"])
        _flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.ClickException as error:
        if debug:
            raise
        context, message = getattr(error, "ctx", None), error.format_message()
        path = context.command_path if context else " ".join(["agentfw", *arguments[:1]])
        fix = f"see: {path} --help"
        if context and message.startswith("No such command"):
            fix = f"{path} has {', '.join(context.command.list_commands(context))}"
        Out().error(message, fix)
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        print("interrupted", file=sys.stderr)
        return 130
    except (BrokenPipeError, _ReaderGone):
        os.dup2(os.open(os.devnull, os.O_WRONLY), data_stream().fileno())
        return 0
    except BaseException as error:
        if debug:
            raise

        if isinstance(error, AgentfwError):
            Out().error(error.message, error.fix)
            with suppress(AgentfwError):
                _flush()
            return error.exit_code
        if isinstance(error, SystemExit) or not is_failure(error):  # whoever raises it wants to end the process
            raise
        distribution, place = blame(error)
        if distribution:
            from agentfw.host.offers import mend_of

            fix = f"it comes from {distribution} ({place}); {mend_of(distribution)}; --debug shows where"
        else:
            ours = "this is a bug in agentfw; --debug shows where"
            fix = disk_fix(error) if isinstance(error, OSError) and error.errno else ours
        Out().error(in_words(error), fix)
        return 3 if distribution else 1


def _allowed(arguments: list[str]) -> Any:
    """Execute a command. On a terminal, whoever has to allow something first is asked, and the command begins again."""
    while True:
        try:
            return cli.main(arguments, prog_name="agentfw", standalone_mode=False)
        except UntrustedError as error:
            if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
                raise
            from agentfw.host.trust import allow

            Out().error(error.message, label="question")
            if not click.confirm("Allow it?", err=True):
                raise
            allow(error.digest, error.path)


def _flush() -> None:
    """Write what is buffered. Here, and not when Python ends: a reader that is gone, or a full disk, is noticed now."""
    try:
        with storing("write to stdout"):
            data_stream().flush()
    except StorageError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), data_stream().fileno())
        raise


if __name__ == "__main__":
    main()
