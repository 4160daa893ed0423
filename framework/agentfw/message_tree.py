"""The messages of a session as a tree, in which parallel requests, retries and second attempts are branches.

The program that leads the session doesn't see all messages: the session's calls of its own tools are hidden from it. An
answer that the program sends back stands for the original answer and the hidden messages around it.

    path = tree.path(messages)
    answer = tree.answered(path, generation, told)
    tree.carried_out(path, answer, {call.id: message})
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from .episode import Message
from .request import Generation

__all__ = ["MessageTree", "Node", "message_key"]


@dataclass(slots=True, eq=False)
class Node:
    """A message, below the messages before it."""

    message: Message
    place: int | None = None
    """Its index in `Episode.messages`. None for an answer that was not sent back so far."""
    generations: dict[str, Generation] = field(default_factory=dict)
    """What the policy generated if this is an answer, by model: two models may have given it."""
    asked: int = 0
    """Number of times that the policy was asked what comes next."""
    told: str = ""
    """The text of an answer as the asker got it."""
    carried_out: frozenset[str] = frozenset()
    """Ids of the calls of an answer that the session carried out itself."""
    is_hidden: bool = False
    """Whether the message is hidden from the asker."""
    below: dict[Hashable, Node] = field(default_factory=dict)
    stands_for: dict[Hashable, tuple[Node, ...]] = field(default_factory=dict)
    """Maps messages that the program sends back to those recorded, with hidden ones around them."""


class MessageTree:
    """All messages of one session."""

    def __init__(self) -> None:
        self._root = Node(Message("", ""))

    def path(self, messages: Sequence[Message]) -> list[Node]:
        """The nodes of a conversation. Answers of the policy that come back unchanged are those that it gave."""
        node, path = self._root, list[Node]()
        for message in messages:
            path += node.stands_for.get(message_key(message)) or (_below(node, message),)
            node = path[-1]
        return path

    def recorded(self, messages: Sequence[Message], places: Sequence[int]) -> list[Node]:
        """The nodes of a conversation of the record, by the indexes of its messages, the hidden ones included."""
        node, path, carried_out = self._root, list[Node](), frozenset[str]()
        for place in places:
            node = _below(node, messages[place])
            node.place = place
            if node.message.role == "tool":
                node.is_hidden = node.message.answers in carried_out
            else:
                carried_out = node.carried_out
            path.append(node)
        return path

    def answered(self, path: Sequence[Node], message: Message, told: str, generation: Generation) -> Node:
        """Add an answer, with its text as it was told."""
        above = path[-1].below
        node = above.setdefault(message_key(Message("assistant", told, message.calls)), Node(message, told=told))
        above.setdefault(message_key(message), node)
        node.generations.setdefault(generation.model, generation)
        self._stands_for(path, node, ())
        return node

    def carried_out(self, path: Sequence[Node], answer: Node, came_to: Mapping[str, Message]) -> list[Node]:
        """Add what the calls of an answer came to that the session carried out, by their ids. Returns the nodes."""
        answer.carried_out = frozenset(came_to)
        answer.is_hidden = answer.carried_out >= {call.id for call in answer.message.calls}
        nodes, node = list[Node](), answer
        for message in came_to.values():
            node = _below(node, message)
            node.is_hidden = True
            nodes.append(node)
        if not answer.is_hidden:
            self._stands_for(path, answer, nodes)
        return nodes

    @staticmethod
    def _stands_for(path: Sequence[Node], answer: Node, after: Sequence[Node]) -> None:
        """Find an answer again by what the asker knows of it and of the hidden messages before it."""
        start = len(path)
        while path[start - 1].is_hidden:
            start -= 1
        hidden = path[start:]
        if hidden or after:
            told = "".join(node.told for node in (*hidden, answer))
            calls = tuple(call for call in answer.message.calls if call.id not in answer.carried_out)
            path[start - 1].stands_for[message_key(Message("assistant", told, calls))] = (*hidden, answer, *after)


def _below(node: Node, message: Message) -> Node:
    key = message_key(message)
    if key not in node.below:
        node.below[key] = Node(message)
    return node.below[key]


def message_key(message: Message) -> Hashable:
    """Distinguishes a message from others at its place."""
    calls = tuple(
        (call.id, call.name, json.dumps(dict(call.arguments), sort_keys=True, default=str)) for call in message.calls
    )
    return message.role, message.content, calls, message.answers
