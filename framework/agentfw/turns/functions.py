"""Turns typed Python functions into actions for models: a JSON schema from the signature, and checked arguments.

Arguments from a model are never trusted. If they don't fit the signature, the call is refused with a message that the
model can act on.

    >>> def book(room: str, people: int = 2) -> str:
    ...     '''Book a room.
    ...
    ...     room: its name
    ...     '''
    >>> spec = describe(book)
    >>> spec.parameters["required"], spec.check({"room": "Nile", "people": "3"})
    (['room'], {'room': 'Nile', 'people': 3})

A line `name: text` in the docstring describes that parameter. So does `Annotated[int, "text"]`.
"""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, overload

from ..errors import InterventionRefused

__all__ = ["FunctionSpec", "describe"]


_MOST = 8  # maximum number of problems listed in a refusal
_LONGEST = 100  # maximum number of characters quoted from a model


class FunctionSpec:
    """A function's name, description, JSON schema, and argument check."""

    __slots__ = ("_model", "description", "name", "parameters")

    def __init__(self, name: str, description: str, model: Any) -> None:
        self.name, self.description, self._model = name, description, model
        self.parameters: dict[str, Any] = _tidy(model.model_json_schema())

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the arguments to the annotated types. Raises `InterventionRefused` with every problem found."""
        from pydantic import ValidationError

        try:
            values = self._model.model_validate(dict(arguments))
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            problems = [f"{_place(problem['loc'])}: {problem['msg']}" for problem in found[:_MOST]]
            if len(found) > _MOST:
                problems.append(f"and {len(found) - _MOST} more")
            raise InterventionRefused(f"{self.name} can't be called like this: {'; '.join(problems)}") from None
        except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
            raise InterventionRefused(f"{self.name} can't be called like this: {str(error)[:_LONGEST]}") from None
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
    """Read a function's signature and docstring. `skip_first` skips `self`."""
    from pydantic import ConfigDict, Field, create_model

    hints = typing.get_type_hints(function, include_extras=True)
    summary, notes = _docstring(inspect.getdoc(function) or "")
    members: dict[str, Any] = {}
    for index, parameter in enumerate(inspect.signature(function).parameters.values()):
        if skip_first and index == 0:
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(
                f"{function.__qualname__} can't be offered to a model: its parameter {parameter.name!r} isn't passed "
                "by name; list every parameter, with a type"
            )
        if parameter.name not in hints:
            raise TypeError(
                f"{function.__qualname__} can't be offered to a model: its parameter {parameter.name!r} has no type"
            )
        default = ... if parameter.default is parameter.empty else parameter.default
        hint = hints[parameter.name]
        words = next((note for note in getattr(hint, "__metadata__", ()) if isinstance(note, str)), "")
        words = words or notes.get(parameter.name, "")
        # Prefixed names: parameters called json, copy or _x would clash with pydantic's own.
        members[f"argument_{index}"] = (hint, Field(default, alias=parameter.name, description=words or None))
    shown = name or function.__name__
    # allow_inf_nan: JSON has no NaN or infinity, and few functions expect them.
    model = create_model(shown, __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **members)
    return spec(shown, summary, model)


def _place(path: tuple[int | str, ...]) -> str:
    """Path of a problem in the arguments. A key that a model made up can be of any length, so it is shortened."""
    return ".".join(map(str, path))[:_LONGEST] or "arguments"


def _docstring(text: str) -> tuple[str, dict[str, str]]:
    """Split a docstring into its prose and its lines of the form `name: text`."""
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
    """Remove the titles that pydantic generates from names, and null where it only means that a value is left out."""
    schema.pop("title", None)
    for part in schema.get("properties", {}).values():
        part.pop("title", None)
        kinds = [kind for kind in part.get("anyOf", ()) if kind != {"type": "null"}]
        if len(kinds) == 1 and part.get("default", ...) is None:
            del part["anyOf"], part["default"]
            part |= kinds[0]
    schema.setdefault("properties", {})
    return schema
