"""Settings of components: pydantic models, and what their fields say about themselves.

    class NotebookSettings(Settings):
        limit: int = 10      # how many notes are kept; ten fit the prompt

`agentfw.boundary.settings_input` validates what a person has written against such a model.

A setting that can't change results, such as the address of a server, is marked `OPERATIONAL`. It may have another value
when a run is resumed:

    base_url: Annotated[str, OPERATIONAL] = Field("", description="Address of the server.")
    workers: Annotated[int, Operational(unless=lambda settings: settings.approximate)] = Field(1)

A policy and the learner that trains it mark what they have in common, such as the model, as `SHARED`: given to one of
them, it holds for both. The setting with which a policy answers with what a learner made is marked as `VERSION`.

    model: Annotated[str, SHARED] = Field("tiny", description="Folder of the model.")

A setting of type `SecretStr` may be given as `{ env = "NAME" }`: its value is read from that environment variable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard, get_args, get_origin

from pydantic import AliasChoices, BaseModel, ConfigDict, Secret, SecretBytes, SecretStr

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

__all__ = [
    "OPERATIONAL",
    "SHARED",
    "VERSION",
    "Operational",
    "Settings",
    "input_key",
    "input_keys",
    "is_model",
    "is_secret",
    "marked_keys",
    "models_in",
    "operational_keys",
]


@dataclass(frozen=True, slots=True)
class Operational:
    """Marks a setting that can't change what a run has done or will do, so a resumed run may have another value."""

    unless: Callable[[Any], bool] | None = None
    """Says of validated settings that this one does change results beside the others."""
    grows: bool = False
    """Whether the value may only become larger, because the run has done so much already."""


OPERATIONAL = Operational()
"""Marks a setting that can't change results: `Annotated[float, OPERATIONAL]`."""


class _Mark:
    """Tells something about a setting that is the same for all settings marked with it."""


SHARED = _Mark()
"""Marks a setting that a policy and its learner have in common, by one name: it need be given to one of them only."""
VERSION = _Mark()
"""Marks the setting of a policy that takes the path of a version, as `publish` does."""


class Settings(BaseModel):
    """The base of every settings model: unknown keys are errors, and nobody changes settings while a run uses them."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def is_model(value: object) -> TypeGuard[type[BaseModel]]:
    """True for a pydantic model, so that whoever asks needn't import pydantic."""
    return isinstance(value, type) and issubclass(value, BaseModel)


def input_key(name: str, field: FieldInfo) -> str:
    """The key that a person writes for a field: its alias where it has one."""
    alias = field.validation_alias
    if isinstance(alias, AliasChoices):
        alias = next((choice for choice in alias.choices if isinstance(choice, str)), None)
    return alias if isinstance(alias, str) else name


def operational_keys(settings: BaseModel) -> dict[str, Operational]:
    """The keys of what a resumed run may change of these settings. Those of a table are `table` and `table.key`."""
    found: dict[str, Operational] = {}
    for name, field in type(settings).model_fields.items():
        for mark in field.metadata:
            if isinstance(mark, Operational) and not (mark.unless is not None and mark.unless(settings)):
                key = input_key(name, field)
                inner = [f"{key}.{inner}" for one in models_in(field.annotation) for inner in input_keys(one)]
                found |= dict.fromkeys([key, *inner], mark)
    return found


def marked_keys(model: type[BaseModel] | None, mark: object) -> set[str]:
    """The keys of the settings with this mark, `SHARED` or `VERSION`."""
    fields = {} if model is None else model.model_fields
    return {input_key(name, field) for name, field in fields.items() if mark in field.metadata}


def input_keys(model: type[BaseModel]) -> set[str]:
    """The keys that a person may write."""
    return {input_key(name, field) for name, field in model.model_fields.items()}


def is_secret(annotation: object) -> bool:
    """Whether a type is one of pydantic's for secrets, or contains one."""
    kind = get_origin(annotation) or annotation
    if isinstance(kind, type) and issubclass(kind, (SecretStr, SecretBytes, Secret)):
        return True
    return any(is_secret(inner) for inner in get_args(annotation))


def models_in(annotation: object) -> list[type[BaseModel]]:
    """The models in a type: itself, or those in its lists, tables and unions."""
    if is_model(annotation):
        return [annotation]
    return [model for inner in get_args(annotation) for model in models_in(inner)]
