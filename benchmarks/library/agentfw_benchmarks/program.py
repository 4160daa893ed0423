"""The outside of a program that measures: its options, and how it prints its result.

These two lines are the end of nearly every program:

    options = Options(__doc__, episodes=1000, repeats=(5, "of each way")).parse_args(arguments)
    return tell(measure(options.episodes, options.repeats), options.json)
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Callable
from typing import Any, TypeVar

from .tables import print_result

Result = TypeVar("Result")
SHOWN = "AGENTFW_SHOWN"
"""The variable with the file that gets, beside JSON, what `show` prints."""


class Options(argparse.ArgumentParser):
    """The options of a program, and `--json`. The help begins with the program's docstring.

    Each option is given by its default, which has its type. A list takes several values, False makes a flag, and a type
    instead of a value makes an option that must be given. A pair adds a help text.
    """

    def __init__(self, about: str | None, **defaults: Any) -> None:
        super().__init__(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
        for name, given in defaults.items():
            default, text = given if isinstance(given, tuple) else (given, None)
            self.add_argument(f"--{name.replace('_', '-')}", help=text, **_kind(default))
        self.add_argument("--json", action="store_true", help="print the result as JSON")


def _kind(default: Any) -> dict[str, Any]:
    if default is False:
        return {"action": "store_true"}
    if isinstance(default, type):
        return {"type": default, "required": True}
    if isinstance(default, list):
        return {"type": type(default[0]), "nargs": "+", "default": default}
    return {"type": type(default), "default": default}


def tell(result: Result, as_json: bool, show: Callable[[Result], object] = print_result) -> Result:
    """Print a result as JSON, or as `show` prints it, and return it."""
    if as_json:
        print(json.dumps(result, indent=2))
        if path := os.environ.get(SHOWN):
            with open(path, "a", encoding="utf-8") as file, contextlib.redirect_stdout(file):
                show(result)
    else:
        show(result)
    return result
