"""Makes typed Python functions callable for models: a JSON schema from the signature, and checked arguments.

The arguments of a model are never trusted and never crash anything. Those that don't fit are refused in words that the
model can act on.

    >>> def book(room: str, people: int = 2) -> str:
    ...     '''Book a room.
    ...
    ...     room: its name
    ...     '''
    >>> spec = describe(book)
    >>> spec.parameters["required"], spec.check({"room": "Nile", "people": "3"})
    (['room'], {'room': 'Nile', 'people': 3})

A line `name: words` in the docstring describes that parameter; so does `Annotated[int, "words"]`.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

from .errors import InterventionRefused

__all__ = ["FunctionSpec", "describe"]


_MOST = 8  # problems that are named; a list of a thousand wrong items is one lesson, not a thousand
_LONGEST = 100  # characters of what came from a model


class FunctionSpec:
    """A function's name, description, JSON schema, and the check of its arguments."""

    __slots__ = ("_model", "description", "name", "parameters")

    def __init__(self, name: str, description: str, model: Any) -> None:
        self.name, self.description, self._model = name, description, model
        self.parameters: dict[str, Any] = _tidy(model.model_json_schema())

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments converted to the annotated types, or `InterventionRefused` with every problem named."""
        from pydantic import ValidationError

        try:
            values = self._model.model_validate(dict(arguments))
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            problems = [f"{_place(problem['loc'])}: {problem['msg']}" for problem in found[:_MOST]]
            if len(found) > _MOST:
                problems.append(f"and {len(found) - _MOST} more")
            raise InterventionRefused(f"{self.name} can't be called so: {'; '.join(problems)}") from None
        except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
            raise InterventionRefused(f"{self.name} can't be called so: {str(error)[:_LONGEST]}") from None
        return {member.alias: getattr(values, name) for name, member in self._model.model_fields.items()}


Spec = TypeVar("Spec", bound=FunctionSpec)


@overload
def describe(function: Callable[..., Any], *, name: str = "", skip_first: bool = False) -> FunctionSpec: ...
@overload
def describe(function: Callable[..., Any], *, name: str = "", skip_first: bool = False, spec: type[Spec]) -> Spec: ...


def describe(
    function: Callable[..., Any],
    *,
    name: str = "",
    skip_first: bool = False,
    spec: type[FunctionSpec] = FunctionSpec,
) -> FunctionSpec:
    """Read a function's signature and docstring. `skip_first` leaves out `self`."""
    from pydantic import ConfigDict, Field, create_model

    hints = typing.get_type_hints(function, include_extras=True)
    summary, notes = _docstring(inspect.getdoc(function) or "")
    members: dict[str, Any] = {}
    for index, parameter in enumerate(inspect.signature(function).parameters.values()):
        if skip_first and index == 0:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(
                f"{function.__qualname__} can't be offered to a model: its parameter {parameter.name!r} has no name to "
                "be given by; write every parameter out, with a type"
            )
        if parameter.name not in hints:
            raise TypeError(
                f"{function.__qualname__} can't be offered to a model: its parameter {parameter.name!r} has no type"
            )
        default = ... if parameter.default is parameter.empty else parameter.default
        hint = hints[parameter.name]
        words = next((note for note in getattr(hint, "__metadata__", ()) if isinstance(note, str)), "")
        words = words or notes.get(parameter.name, "")
        # Under a name of our own: a parameter called json, copy or _x is the author's business, not pydantic's.
        members[f"argument_{index}"] = (hint, Field(default, alias=parameter.name, description=words or None))
    shown = name or function.__name__
    # allow_inf_nan: JSON has no such numbers, and few functions expect them.
    model = create_model(shown, __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **members)
    return spec(shown, summary, model)


def _place(path: tuple[int | str, ...]) -> str:
    """Where in the arguments; a key that a model made up can be of any length."""
    return ".".join(map(str, path))[:_LONGEST] or "arguments"


def _docstring(text: str) -> tuple[str, dict[str, str]]:
    """Its prose, and the lines of the form `name: words` as notes on parameters."""
    notes: dict[str, str] = {}
    prose: list[str] = []
    for line in text.splitlines():
        found = re.fullmatch(r"\s*(\w+): (\S.*)", line)
        if found and prose:
            notes[found[1]] = found[2].strip()
        elif line.strip().rstrip(":").lower() not in ("args", "arguments", "parameters"):
            prose.append(line)
    return "\n".join(prose).strip(), notes


def _tidy(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema without the titles that pydantic makes up of names."""
    schema.pop("title", None)
    for part in schema.get("properties", {}).values():
        part.pop("title", None)
    schema.setdefault("properties", {})
    return schema
