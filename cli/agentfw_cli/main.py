"""The `agentfw` command: a list of names, each imported when it is called.

The one rule: `--help` imports nothing but click: no plugin, no framework, no pydantic. The commands of plugins come from the
installed metadata of the group `agentfw.commands`.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

__all__ = ["cli", "main"]

_COMMANDS = {
    "run": ("agentfw_cli.run:run", "Let an agent work, and see how it goes"),
    "runs": ("agentfw_cli.runs:runs", "List, show and resume runs"),
    "compare": ("agentfw_cli.compare:compare", "Put runs side by side, with intervals"),
    "report": ("agentfw_cli.report:report", "Write a run's report and pictures anew"),
    "plugins": ("agentfw_cli.plugins:plugins", "List, show, check, make and install plugins"),
    "doctor": ("agentfw_cli.doctor:doctor", "Say what is installed, where, and what is missing"),
}
_GROUP = "agentfw.commands"


class _Commands(click.Group):
    """Commands by name; a plugin's command can't take the place of one of ours."""

    def list_commands(self, context: click.Context) -> list[str]:
        return [*_COMMANDS, *sorted(_from_plugins())]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name in _COMMANDS:
            module, _, attribute = _COMMANDS[name][0].partition(":")
            command = getattr(importlib.import_module(module), attribute)
        else:
            entry = _from_plugins().get(name)
            if entry is None:
                return None
            try:
                command = entry.load()
            except Exception as error:
                from agentfw.errors import PluginError

                raise PluginError(
                    f'the command "{name}" of {entry.distribution} {entry.version} can\'t be loaded: {error}',
                    mend=f"pip install --upgrade {entry.distribution}, or pip uninstall {entry.distribution}",
                ) from error
        assert isinstance(command, click.Command)
        return command

    def resolve_command(self, context: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(context, args)
        except click.UsageError:
            from agentfw.errors import UnknownNameError

            raise UnknownNameError("command", args[0], self.list_commands(context)) from None

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in _COMMANDS.items()])
        plugins = _from_plugins()
        if plugins:
            with formatter.section("Commands of plugins"):
                formatter.write_dl([(name, f"from {plugins[name].distribution}") for name in sorted(plugins)])


def _from_plugins() -> dict[str, Any]:
    from agentfw.metadata import entry_points

    return {entry.name: entry for entry in entry_points(_GROUP) if entry.name not in _COMMANDS}


def _version(context: click.Context, option: click.Parameter, given: bool) -> None:
    if given:
        from agentfw import __version__

        click.echo(f"agentfw {__version__}")
        context.exit()


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog="agentfw COMMAND --help says more.")
@click.option("--debug", is_flag=True, help="Show where an error comes from.")
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def cli(debug: bool) -> None:
    """Agents that learn their user.

    A bare `agentfw run` does the main job on this machine: no network, no key, no GPU.
    """


def main(arguments: list[str] | None = None) -> None:
    """The console script. Exit codes: 0 done, 1 the run failed, 2 usage or settings, 3 a plugin failed, 130 interrupted."""
    arguments = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in arguments
    sys.exit(_guarded(arguments, debug))


def _guarded(arguments: list[str], debug: bool) -> int:
    from agentfw_cli.out import Out

    try:
        # --debug is welcome anywhere on the line.
        result = cli.main([word for word in arguments if word != "--debug"], prog_name="agentfw", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        if debug:
            raise
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # Whoever read our output has had enough; that is no error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if debug:
            raise
        from agentfw.errors import AgentfwError

        if isinstance(error, AgentfwError):
            Out().error(error.message, error.mend)
            return error.exit_code
        Out().error(f"{type(error).__name__}: {error}", "that is a bug; agentfw --debug ... shows where")
        return 1


if __name__ == "__main__":
    main()
