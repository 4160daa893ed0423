"""Asks each plugin's registration hooks and checks what they answer.

A plugin that raises, or returns anything but a list of valid descriptions, has failed as a whole. Everything else that
it offered is withdrawn, so that nobody uses half of a plugin unknowingly.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ..boundary.metadata import EntryPoint
from ..component import KINDS, Component
from ..errors import in_words, one_line
from ..hookspecs import KNOWN_PLUGINS_HOOK, REGISTRATION_HOOKS, SPECS_HOOK, KnownPlugin, NamedSpec
from .names import Offered, PluginRecord, Registered
from .plugin_loading import manager_name

if TYPE_CHECKING:
    from .hook_calls import HookManager
    from .project import ProjectFile

NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")
FACTORY = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")


class Answers(NamedTuple):
    components: list[Registered]
    withdrawn: list[Registered]  # offers of plugins that then failed, for an error that says why they are missing
    specs: list[Offered[NamedSpec]]
    known: list[Offered[KnownPlugin]]


class BadAnswer(Exception):
    """What is wrong with an answer, as the rest of a sentence that begins with the hook's name."""


def ask(records: list[PluginRecord], manager: HookManager) -> Answers:
    """Call the registration hooks of these plugins; one that answers badly is marked failed and unregistered."""
    answers = Answers([], [], [], [])
    others: dict[str, tuple[list[Any], Callable[[object], Any]]] = {
        SPECS_HOOK: (answers.specs, _check_spec),
        KNOWN_PLUGINS_HOOK: (answers.known, _check_known),
    }
    for hook in (*REGISTRATION_HOOKS, *others):
        found = manager.registered(hook, records)
        for record, answer in sorted(found, key=lambda each: (each[0].distribution, each[0].name)):
            try:
                if hook in others:
                    offers, check = others[hook]
                    offers.extend([Offered(check(item), record) for item in _listed(answer)])
                else:
                    components = [_check_component(item) for item in _listed(answer)]
                    names = [component.name for component in components]
                    if twice := [name for name in names if names.count(name) > 1]:
                        raise BadAnswer(f'offers the name "{twice[0]}" twice')
                    kind = REGISTRATION_HOOKS[hook]
                    answers.components.extend(Registered(component, kind, record) for component in components)
            except Exception as error:  # an answer can be anything, and may raise when it is looked at
                told = isinstance(error, BadAnswer)
                text = error if told else f"returned something that can't be read: {in_words(error)}"
                cause = error.__cause__ if told else error
                record.stop("failed", f"breaks the contract: {hook} {text}", cause=cause)
                manager.unregister(name=manager_name(record))
    answers.withdrawn.extend(offer for offer in answers.components if offer.record.state != "active")
    lists: tuple[list[Any], ...] = (answers.components, answers.specs, answers.known)
    for offered in lists:
        offered[:] = [offer for offer in offered if offer.record.state == "active"]
    return answers


def _listed(answer: object) -> list[object]:
    if isinstance(answer, BaseException):
        raise BadAnswer(f"raised {in_words(answer)}") from answer
    if isinstance(answer, (Component, NamedSpec, KnownPlugin)):
        raise BadAnswer(f"returned one {type(answer).__name__}, not a list of them")
    if not isinstance(answer, list):
        raise BadAnswer(f"returned {_kind_of(answer)}, not a list")
    return answer


def _check_component(item: object) -> Component:
    if not isinstance(item, Component):
        hint = 'describe it with Component(name, "package.module:Name", summary)'
        raise BadAnswer(f"returned a list with {_kind_of(item)} in it; {hint}")
    _check_name("name", item.name)
    for what, path in (("factory", item.factory), ("settings", item.settings or item.factory)):
        if not isinstance(path, str) or not FACTORY.fullmatch(path):
            form = 'which isn\'t of the form "package.module:Name"'
            raise BadAnswer(f'gives "{item.name}" the {what} {_quote(path)}, {form}')
    if not isinstance(item.summary, str) or not isinstance(item.extra, str):
        raise BadAnswer(f'gives "{item.name}" a summary or an extra that isn\'t text')
    # A plain string would be looked through letter by letter: the usual slip is needs=("torch").
    if not isinstance(item.needs, tuple) or not all(isinstance(module, str) for module in item.needs):
        raise BadAnswer(f'gives "{item.name}" needs={_quote(item.needs)}, which isn\'t a tuple of module names')
    if item.needs and not item.extra:
        raise BadAnswer(
            f'gives "{item.name}" needs={_quote(item.needs)} but no extra; '
            'write extra="NAME", the extra of the distribution that installs them, or leave needs out'
        )
    return item._replace(summary=one_line(item.summary))


def _check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        form = "is made of small letters, digits, '-', '_' and '.' and begins with a letter or digit"
        raise BadAnswer(f"offers the {what} {_quote(name)}; a name {form}")


def _check_spec(item: object) -> NamedSpec:
    if not isinstance(item, NamedSpec):
        raise BadAnswer(f"returned a list with {_kind_of(item)} in it, not NamedSpec(name, path, summary)")
    _check_name("spec name", item.name)
    if not isinstance(item.path, str) or not os.path.isabs(item.path) or not os.path.isfile(item.path):
        text = f"the path {_quote(item.path)}, which isn't an absolute path of a file"
        raise BadAnswer(f'gives the spec "{item.name}" {text}')
    return item


def _check_known(item: object) -> KnownPlugin:
    if not isinstance(item, KnownPlugin):
        raise BadAnswer(f"returned a list with {_kind_of(item)} in it, not KnownPlugin(name, offers)")
    name, offers, folder = item.name, item.offers, item.folder
    if not isinstance(name, str) or not NAME.fullmatch(name) or not isinstance(folder, str):
        raise BadAnswer(f"names the known plugin {_quote(name)}, which isn't the name of a distribution")
    kept = {what: tuple(names) for what, names in offers.items()}
    wrong = kept.keys() - {*KINDS, "spec", "command"}
    if wrong or not all(isinstance(each, str) for names in kept.values() for each in names):
        known = ", ".join([*KINDS, "spec", "command"])
        raise BadAnswer(f"says that {name} offers {_quote(offers)}; give names by what they are: {known}")
    return KnownPlugin(name, kept, folder)


def _kind_of(item: object) -> str:
    if item is None:
        return "None"
    return f"a class ({item.__name__})" if isinstance(item, type) else f"an object of type {type(item).__name__}"


def _quote(value: object) -> str:
    return one_line(repr(value), 60)


def specs_of(project: ProjectFile) -> list[Offered[NamedSpec]]:
    record = PluginRecord(EntryPoint(project.path.name, "", "project", ""))
    files = [file for folder in project.specs for file in sorted(folder.glob("*.toml")) if NAME.fullmatch(file.stem)]
    return [Offered(NamedSpec(file.stem, str(file), f"from {file.parent}"), record) for file in files]
