"""The page that an environment has for its runs, beside those of `agentfw view`: its `inspector` makes it.

inspection(folder, host, "00003-0", ("/?run=first", "first"))
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from agentfw import Environment
from agentfw.errors import AgentfwError, UsageError
from agentfw.runs import RunFolder

if TYPE_CHECKING:
    from agentfw import Host

__all__ = ["inspection"]


def inspection(path: Path, host: Host, episode: str, back: tuple[str, str]) -> str:
    """The page, with a link to where it came from: its address and its name.

    What makes it is named by the environment and not by the run, which may be somebody else's.
    """
    folder = RunFolder.open(path)
    chosen = folder.about["spec"]["environment"]
    environment = host.create("environment", chosen["name"], chosen["settings"])
    if not isinstance(environment, Environment) or not environment.inspector:
        raise UsageError(f"{chosen['name']} has no page of its own for a run", fix="look at its episodes")
    try:
        page = str(resolve_name(environment.inspector)(folder, host, episode))
    except AgentfwError:
        raise
    except Exception as error:  # a plugin's, which must not end the server
        raise UsageError(
            f"the page of {chosen['name']} failed: {type(error).__name__}: {error}", fix="look at its episodes"
        ) from error
    address, name = map(escape, back)
    return page.replace("<main>", f'<main>\n<p class="quiet"><a href="{address}">{name}</a></p>', 1)
