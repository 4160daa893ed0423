"""Settings that come from a command or a domain file, and not through a run's spec."""

from __future__ import annotations

from typing import TypeVar

from pydantic import BaseModel, ValidationError

from agentfw.errors import SettingsError, nearest

_Model = TypeVar("_Model", bound=BaseModel)


def checked_settings(model: type[_Model], values: object, where: str) -> _Model:
    """The settings, or a SettingsError with the first key that is wrong.

    >>> from agentfw.runs import SamplingSettings
    >>> checked_settings(SamplingSettings, {"temperatur": 0}, "sampling")
    Traceback (most recent call last):
    ...
    agentfw.errors.SettingsError: sampling.temperatur: Extra inputs are not permitted; did you mean "temperature"?
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in (where, *first["loc"]))
        message = f"{key}: {first['msg'].removeprefix('Value error, ')}"
        unknown = first["type"] == "extra_forbidden" and len(first["loc"]) == 1
        if unknown and (guess := nearest(str(first["loc"][0]), list(model.model_fields))):
            message += f'; did you mean "{guess}"?'
        raise SettingsError(message, fix=f"known keys: {', '.join(model.model_fields)}") from None
