"""Creates components from their descriptions; the only place that has a component's code imported.

Whatever goes wrong here becomes an error that names the distribution of the component, with a command to fix it. Errors
that the component raises on purpose (`AgentfwError`) pass unchanged.
"""

from __future__ import annotations

import inspect
from asyncio import CancelledError
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar, cast

from ..boundary.gate import ImportFailed, let_in, object_at
from ..boundary.secrets import Secrets, secrets_in
from ..errors import AgentfwError, MissingExtraError, PluginError, in_words, is_failure
from ..tool import FunctionTool
from .names import Registered

if TYPE_CHECKING:
    from pydantic import BaseModel

Result = TypeVar("Result")


def missing_module(registered: Registered) -> str:
    """The first of the modules that it needs and that isn't installed; looked for, never imported."""
    from importlib.util import find_spec

    for module in registered.component.needs:
        try:
            if find_spec(module) is None:
                return module
        except (ImportError, ValueError):  # a parent is missing, or the module was put in place by hand
            return module
    return ""


def settings_model(registered: Registered) -> type[BaseModel] | None:
    if not registered.component.settings:
        return None
    from ..boundary.settings_input import is_model

    model = _resolve(registered, registered.component.settings)
    if not is_model(model):
        raise _broken(registered, f"names the settings {registered.component.settings}, which isn't a pydantic model")
    return model


def check_settings(
    registered: Registered, settings: Mapping[str, object], where: str, secrets: Secrets
) -> BaseModel | None:
    """The settings, validated; None where the component has none. `secrets` then knows the secrets among them."""
    from ..boundary.settings_input import validate

    model = settings_model(registered)
    # A validator or a default of the plugin's model may raise anything.
    checked = _guarded(registered, "can't check its settings", lambda: validate(model, settings, where))
    secrets.add(*secrets_in(checked))
    return checked


def create(
    registered: Registered,
    settings: Mapping[str, object] | BaseModel | None,
    where: str,
    services: Mapping[str, object],
    secrets: Secrets,
) -> object:
    """Check the settings, then import and call the factory: a wrong setting is found before anything heavy loads.

    Settings that `check_settings` has validated are not validated again: a validator may change what it is given. A
    factory with a parameter named like a service is given it: a judge, for one, makes its own policy with `host`.
    """
    if missing := missing_module(registered):
        raise _missing_extra(registered, missing)
    if settings is None or isinstance(settings, Mapping):
        checked = check_settings(registered, settings or {}, where, secrets)
    else:
        # A copy: what one episode's world does to its settings must not be seen by the next one.
        checked = _guarded(registered, "has settings that can't be copied", lambda: settings.model_copy(deep=True))
    factory = _resolve(registered, registered.component.factory)
    if isinstance(factory, FunctionTool):  # what `@tool` makes of a function: a toolbox already
        return factory
    if not callable(factory):
        raise _broken(registered, f"names the factory {registered.component.factory}, which can't be called")
    arguments = () if checked is None else (checked,)
    named = dict[str, object]()
    with suppress(TypeError, ValueError):  # what is written in C may have no signature
        named = {name: services[name] for name in services.keys() & inspect.signature(factory).parameters.keys()}
    return _guarded(registered, "can't be made", lambda: cast(Callable[..., object], factory)(*arguments, **named))


def _resolve(registered: Registered, path: str) -> object:
    try:
        return let_in(registered.title, lambda: object_at(path))
    except ImportFailed as failure:
        if isinstance(failure.error, AgentfwError):
            raise failure.error from None
        raise _failed(registered, f"can't be imported ({path})", failure.error) from failure.error


def _guarded(registered: Registered, failing: str, work: Callable[[], Result]) -> Result:
    try:
        return work()
    except AgentfwError:
        raise
    except BaseException as error:
        if not (is_failure(error) or isinstance(error, CancelledError)):  # nobody cancels what isn't awaited
            raise
        raise _failed(registered, failing, error) from error


def _failed(registered: Registered, failing: str, error: BaseException) -> AgentfwError:
    """The error of a component whose code has raised this."""
    if isinstance(error, ImportError) and registered.component.extra:
        # No extra would bring what is missing of the plugin's own.
        own = registered.component.factory.partition(":")[0].partition(".")[0]
        if (error.name or "").partition(".")[0] != own:
            # Lazy packages such as transformers raise an error without the name of what is missing from one with it.
            cause: BaseException | None = error
            while cause is not None and not (isinstance(cause, ImportError) and cause.name):
                cause = cause.__cause__
            return _missing_extra(registered, getattr(cause, "name", ""))
    return _broken(registered, f"{failing}: {in_words(error)}")


def _missing_extra(registered: Registered, module: str) -> MissingExtraError:
    component = registered.component
    return MissingExtraError(
        registered.title, component.extra, distribution=registered.record.distribution, module=module
    )


def _broken(registered: Registered, text: str) -> PluginError:
    record = registered.record
    upgrade = "" if record.file else f"pip install --upgrade {record.distribution}; if that doesn't help, "
    fix = upgrade + record.mend
    return PluginError(f"{registered.title} {text}", fix=fix)
