"""The contract of toolboxes and their tools, and checks of the JSON schemas of actions.

A valid call could do anything, so a tool is only called with the `examples` that its author gives, and with arguments
that don't fit. Only what no lenient reader could understand is called wrong.

    >>> schema = {"type": "object", "properties": {"cups": {"type": "integer"}}, "required": ["cups"]}
    >>> problems(schema), [wrong for wrong, why in unfitting(schema)]
    ([], [{}, {'cups': {'not': 'this'}}])
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..request import Action
from ..tool import Tool, Toolbox
from .checks import DoesNotApply, Subject, closed, require

_TYPES = {"object", "array", "string", "integer", "number", "boolean", "null"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}")
_CHOICES = ("anyOf", "oneOf", "allOf")
_WORDS = ("yes", "no", "later", "now", "please", "thanks")
_DEEPEST = 6  # a schema may contain itself
_JUNK: tuple[Any, ...] = (
    *(None, True, -1, 10**30, 1e308, math.nan, math.inf),
    *("", "x" * 1000, "\x00\x1b[31m", "ünï 🫖"),
    *([], [[[]]], {}, {"a": {"b": 1}}),
)


def check_actions(actions: Sequence[Action]) -> None:
    """Broken unless every action can be offered to a model."""
    names = [action.name for action in actions]
    for action in actions:
        wrong = f"a model can't call {action.name!r}: a name is a letter, then letters, digits, _ . or -, 64 at most"
        require(isinstance(action.name, str) and _NAME.fullmatch(action.name), wrong)
        require(names.count(action.name) == 1, f'two actions are called "{action.name}"')
        require(isinstance(action.description, str), f"the description of {action.name} is no text")
        found = problems(action.parameters)
        require(not found, f"the parameters of {action.name} are no JSON schema that can be used: {'; '.join(found)}")


def problems(schema: object) -> list[str]:
    """What is wrong with a schema of arguments; nothing where it can be used."""
    if not isinstance(schema, Mapping):
        return [f"it is a {type(schema).__name__}, not a table"]
    try:
        json.dumps(schema, allow_nan=False)
    except (TypeError, ValueError) as error:
        return [f"it is no JSON: {error}"]
    found = [] if schema.get("type") == "object" else ['its type must be "object"']
    return found + list(_problems(schema, schema, "parameters"))


def _problems(schema: object, root: Mapping[str, Any], where: str) -> Iterator[str]:
    if isinstance(schema, bool):
        return
    if not isinstance(schema, Mapping):
        yield f"{where} must be a table"
        return
    kinds = schema.get("type", [])
    for kind in [kinds] if isinstance(kinds, str) else kinds:
        if kind not in _TYPES:
            yield f"{where}: there is no type {kind!r}"
    if "$ref" in schema and _target(schema["$ref"], root) is None:
        yield f"{where}: {schema['$ref']} leads nowhere"
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, Mapping):
        yield f"{where}: properties must be a table"
        properties = {}
    if not isinstance(required, Sequence) or isinstance(required, str):
        yield f"{where}: required must be a list"
    elif "properties" in schema:
        lost = [name for name in required if name not in properties]
        yield from (f'{where}: "{name}" is required and isn\'t among the properties' for name in lost)
    inside = [(f"{where}.{name}", inner) for name, inner in properties.items()]
    if "items" in schema:
        inside.append((f"{where}.items", schema["items"]))
    for word in ("enum", *_CHOICES):
        options = schema.get(word)
        if word in schema and not (isinstance(options, list) and options):
            yield f"{where}: {word} must be a list with something in it"
        elif options and word in _CHOICES:
            inside += [(f"{where}.{word}", option) for option in options]
    for place, inner in inside:
        yield from _problems(inner, root, place)


def _target(reference: object, root: Mapping[str, Any]) -> Any:
    """What a reference within the schema leads to, or None."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return None
    found: Any = root
    for part in filter(None, reference.removeprefix("#").split("/")):
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found


def drawn(schema: Mapping[str, Any], generator: random.Random) -> dict[str, Any]:
    """Arguments that fit. What the schema leaves open is drawn from a small range."""
    value = _drawn(schema, schema, generator, 0)
    return value if isinstance(value, dict) else {}


def _drawn(schema: Any, root: Mapping[str, Any], generator: random.Random, depth: int) -> Any:
    if not isinstance(schema, Mapping):
        return generator.choice(_WORDS)
    if "$ref" in schema:
        target = _target(schema["$ref"], root)
        return _drawn(target, root, generator, depth + 1) if depth < _DEEPEST else None
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return generator.choice(list(schema["enum"]))
    for word in _CHOICES:
        if word in schema:
            # Deep inside, the last option: a schema that contains itself usually ends with null.
            options = schema[word]
            return _drawn(generator.choice(options) if depth < _DEEPEST else options[-1], root, generator, depth + 1)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = generator.choice(kind) if isinstance(kind, list) else kind
    if kind == "object":
        required = set(schema.get("required", ()))
        return {
            name: _drawn(inner, root, generator, depth + 1)
            for name, inner in schema.get("properties", {}).items()
            if name in required or (depth < _DEEPEST and generator.random() < 0.5)
        }
    if kind == "array":
        least = int(schema.get("minItems", 1))
        count = generator.randint(least, max(least, int(schema.get("maxItems", least + 2))))
        return [_drawn(schema.get("items", {}), root, generator, depth + 1) for _ in range(count)]
    if kind in ("integer", "number"):
        step = 1 if kind == "integer" else 0.01
        low = schema.get("minimum", schema["exclusiveMinimum"] + step if "exclusiveMinimum" in schema else None)
        high = schema.get("maximum", schema["exclusiveMaximum"] - step if "exclusiveMaximum" in schema else None)
        if low is None:
            low = 0 if high is None else min(0, high - 9)
        if high is None:
            high = low + (9 if kind == "integer" else 1)
        if kind == "integer":
            return generator.randint(math.ceil(low), max(math.ceil(low), math.floor(high)))
        return generator.uniform(float(low), max(float(low), float(high)))
    if kind == "boolean":
        return generator.random() < 0.5
    if kind == "null":
        return None
    text = generator.choice(_WORDS)
    while len(text) < int(schema.get("minLength", 0)):
        text += generator.choice(_WORDS)
    return text[: int(schema.get("maxLength", len(text)))]


def unfitting(schema: Mapping[str, Any]) -> Iterable[tuple[dict[str, Any], str]]:
    """Arguments that certainly don't fit, each with the reason."""
    if required := list(schema.get("required", ())):
        yield {}, f"{required[0]} is missing"
    fitting = drawn(schema, random.Random(7))
    for name, inner in schema.get("properties", {}).items():
        kind = inner.get("type") if isinstance(inner, Mapping) else None
        if isinstance(kind, str) and kind in _TYPES - {"null"}:
            # Of a type that nobody could take for the one of the schema.
            wrong = "not this" if kind == "object" else {"not": "this"}
            yield {**fitting, name: wrong}, f"{name} can't be {json.dumps(wrong)}"
    if schema.get("additionalProperties") is False:
        yield {**fitting, "no_such_argument": 1}, "there is no argument no_such_argument"


def junk(schema: Mapping[str, Any], generator: random.Random) -> dict[str, Any]:
    """Arguments that may be anything at all."""
    names = [*schema.get("properties", {}), "no such argument", ""]
    found = drawn(schema, generator) if generator.random() < 0.5 else {}
    for name in generator.sample(names, generator.randint(1, min(3, len(names)))):
        found[name] = generator.choice(_JUNK)
    return found


Tools = Subject[Toolbox]


async def it_opens_into_tools(subject: Tools) -> None:
    """It provides at least one tool that a model can call, and their names are unique."""
    async with closed(subject) as box:
        tools = await box.open()
        require(len(tools) > 0, "it opens into no tool at all")
        check_tools(tools)
        for each in tools:
            require(each.action.description.strip(), f"{each.action.name} has no description; give it a docstring")


async def its_examples_succeed(subject: Tools) -> None:
    """Calls with its examples succeed, also many at once."""
    async with closed(subject) as box:
        tools = await box.open()
        examples = [(each, example) for each in tools for example in each.examples]
        if subject.examples:
            require(len(tools) == 1, "examples= is for a single tool; with several, give each its own `examples`")
            examples += [(tools[0], example) for example in subject.examples]
        if not examples:
            raise DoesNotApply("it has no examples of calls that do no harm: @tool(examples=[{...}])")
        alone = [await each.answer(example) for each, example in examples]
        at_once = await asyncio.gather(*(each.answer(example) for each, example in [*examples, *examples]))
        for number, (well, text) in enumerate([*alone, *at_once]):
            each, example = examples[number % len(examples)]
            when = "" if number < len(examples) else ", called several times at once"
            what = f"its example {each.action.name}({dict(example)}){when}"
            require(well, f"{what} fails: {text}; it should return an answer")
            require(text.strip(), f"{what} is answered without a word")


async def wrong_arguments_are_answered(subject: Tools) -> None:
    """A call with arguments that don't fit is a failed answer in words, never an exception."""
    tried = 0
    async with closed(subject) as box:
        for tool in await box.open():
            for arguments, why in unfitting(tool.action.parameters):
                tried += 1
                well, text = await tool.answer(arguments)
                require(not well, f"{tool.action.name} took arguments that don't fit: {why}")
                require(isinstance(text, str) and text, f"{tool.action.name} failed without a word: {why}")
    if not tried:
        raise DoesNotApply("its tools take any arguments")


def check_tools(tools: Sequence[Tool]) -> None:
    """Broken unless an agent can be offered these tools."""
    for tool in tools:
        require(isinstance(tool, Tool), f"one of its tools is a {type(tool).__name__}")
    check_actions([tool.action for tool in tools])
    for tool in tools:
        call = f"a call of {tool.action.name}"
        require(math.isfinite(tool.takes) and tool.takes >= 0, f"{call} can't take {tool.takes}")
        require(tool.timeout > 0, f"{call} can't be given up after {tool.timeout} s")
