"""The messages of a session as a tree, in which parallel requests, retries and second attempts are branches.

Each message is stored once, and where a request sends back an answer unchanged, its exact tokens are found again. What
the memories recalled for a conversation is kept with it (`Recalled`), so that its later turns share their prefix.

The program that leads the session doesn't see all messages: the session's calls of its own tools are hidden from it. An
answer that the program sends back stands for the original answer and the hidden messages around it.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from ..episode import Episode, Message
from ..memory import Recollection
from ..request import Generation
from .turn_builder import TurnBuilder


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
    is_hidden: bool = False  # from the asker
    is_forgotten: bool = False
    """Whether it is something recalled that isn't to be told any more."""
    below: dict[Hashable, Node] = field(default_factory=dict)
    stands_for: dict[Hashable, tuple[Node, ...]] = field(default_factory=dict)
    """Maps messages that the program sends back to those recorded, with hidden ones around them."""

    @property
    def is_recalled(self) -> bool:
        """Whether it is what the memories recalled later in the conversation."""
        return self.is_hidden and self.message.role == "system"

    def is_of_a_memory(self, tools: Set[str]) -> bool:
        """Whether a memory told it, by itself or by one of these tools."""
        return self.is_recalled or any(call.name in tools for call in self.message.calls if call.id in self.carried_out)


class MessageTree:
    """All messages of one session."""

    def __init__(self) -> None:
        self._root = Node(Message("", ""))
        self.recalled = dict[Hashable, Recalled]()
        """What the memories recalled, by conversation (`conversation_of`)."""
        self.said = set[int | None]()
        """Indexes of the messages that the memories may hear as what the user says."""

    def path(self, messages: Sequence[Message], without: Set[str] | None = None) -> list[Node]:
        """The nodes of a conversation. Answers of the policy that come back unchanged are those that it gave.

        For a request of somebody else than the session's user, `without` names the tools of the memories: what a memory
        told its user, by itself or by one of these tools, is left out.
        """
        node, path = self._root, list[Node]()
        for message in messages:
            known = node.stands_for.get(_key(message), ())
            if without is not None and any(one.is_of_a_memory(without) for one in known):
                known = ()
            path += known or (_below(node, message),)
            node = path[-1]
        return [node for node in path if not node.is_forgotten]

    def restore(self, episode: Episode) -> None:
        """Take in the turns of an episode that an earlier process has recorded."""
        called, found = dict[int, list[dict[str, Any]]](), dict[int, list[Recollection]]()
        asked, again, forgotten = set[int](), set[int](), set[int]()
        for event in episode.events:
            match event.kind, event.name:
                case "memory", "changed":
                    forgotten |= again
                    found.clear()
                    asked.clear()
                case "memory", "said":
                    self.said.add(event.data["message"])
                    asked.add(event.data["message"])
                case "memory", "called":
                    called.setdefault(event.data["turn"], []).append(event.data)
                case "memory", "recalled" if "message" in event.data:
                    found.setdefault(event.data["message"], []).append(Recollection(event.data["text"]))
                    if event.data.get("again"):
                        again.add(event.data["message"])
        for turn in episode.turns:
            shown = [episode.messages[place] for place in turn.shown]
            first = _first_of_user(shown)
            if first is not None and turn.shown[0] in found:
                text = "\n".join(TurnBuilder.told(found[turn.shown[0]]))
                system = replace(shown[0], content=shown[0].content.removesuffix(text).removesuffix("\n\n"))
                sent = [system, *shown[1:]] if system.content else shown[1:]
                self.recalled[conversation_of(sent)] = Recalled(text)
            elif first is not None and turn.shown[first] in asked:  # the memories had nothing
                self.recalled[conversation_of(shown)] = Recalled("")
            node, path, carried_out = self._root, list[Node](), frozenset[str]()
            for place in turn.shown:  # the hidden messages included
                node = _below(node, episode.messages[place])
                node.place, node.is_forgotten = place, place in forgotten
                if node.message.role == "tool":
                    node.is_hidden = node.message.answers in carried_out
                else:
                    carried_out = node.carried_out
                    node.is_hidden = node.is_hidden or place in again
                path.append(node)
            path[-1].asked += 1
            message, told = Message("assistant", turn.text, turn.calls), turn.text if turn.said is None else turn.said
            generation = Generation(turn.text, turn.calls, turn.count, turn.prompt_ids, turn.token_ids, turn.logprobs)
            generation.model = turn.model
            answer = self.answered(path, message, told, generation)
            if calls := called.get(turn.index):
                answer.place = calls[0]["messages"][0]
                places = {one["call"]: one["messages"][1] for one in calls}
                nodes = self.carried_out(path, answer, {call: episode.messages[at] for call, at in places.items()})
                for node, place in zip(nodes, places.values(), strict=True):
                    node.place = place

    def answered(self, path: Sequence[Node], message: Message, told: str, generation: Generation) -> Node:
        """Add an answer, with its text as it was told."""
        above = path[-1].below
        node = above.setdefault(_key(Message("assistant", told, message.calls)), Node(message, told=told))
        above.setdefault(_key(message), node)
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
    def recall_behind(node: Node, text: str) -> Node:
        """Add what was recalled later in a conversation, behind a message. Returns the node."""
        found = _below(node, Message("system", text))
        found.is_hidden = True
        return found

    def forget_recalled(self) -> None:
        """Drop what was recalled, so that later requests no longer show it."""
        self.recalled.clear()
        nodes = [self._root]
        while nodes:
            node = nodes.pop()
            node.is_forgotten = node.is_recalled
            nodes += node.below.values()

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
            path[start - 1].stands_for[_key(Message("assistant", told, calls))] = (*hidden, answer, *after)


@dataclass(slots=True)
class Recalled:
    """What the memories recalled for a conversation."""

    text: str
    """Empty if they had nothing."""
    subject: str = ""
    """What it was last recalled for. Empty after a restart."""

    def shown_in(self, messages: Sequence[Message]) -> Sequence[Message]:
        """The conversation with what was recalled for it in its system message."""
        if not self.text:
            return messages
        if messages[0].role == "system":
            return [replace(messages[0], content=f"{messages[0].content}\n\n{self.text}"), *messages[1:]]
        return [Message("system", self.text), *messages]


def conversation_of(messages: Sequence[Message]) -> Hashable:
    """Distinguishes a conversation by its messages up to the first of the user, as they were sent."""
    first = _first_of_user(messages)
    return tuple(map(_key, messages if first is None else messages[: first + 1]))


def recalled_again(path: Sequence[Node]) -> Sequence[tuple[int, str]]:
    """What was recalled later in a conversation, each with the number of the user's message before it, from 0."""
    found, users = list[tuple[int, str]](), 0
    for node in path:
        users += node.message.role == "user"
        if node.is_recalled:
            found.append((users - 1, node.message.content))
    return found


def shown_messages(path: Sequence[Node]) -> Sequence[Message]:
    """The messages as a policy is shown them: chat templates take a system message at the beginning alone."""
    found = list[Message]()
    for node in path:
        if node.is_recalled:  # it is told at the end of the user's message before it
            place = max(i for i, message in enumerate(found) if message.role == "user")
            found[place] = replace(found[place], content=f"{found[place].content}\n\n{node.message.content}")
        else:
            found.append(node.message)
    return found


def after_answer(path: Sequence[Node]) -> int:
    """The index after the last answer in a conversation. 0 if there is none."""
    return max((i for i, node in enumerate(path, start=1) if node.message.role == "assistant"), default=0)


def _first_of_user(messages: Sequence[Message]) -> int | None:
    return next((i for i, message in enumerate(messages) if message.role == "user"), None)


def _below(node: Node, message: Message) -> Node:
    return node.below.setdefault(_key(message), Node(message))


def _key(message: Message) -> Hashable:
    """Distinguishes a message from others at its place."""
    calls = tuple(
        (call.id, call.name, json.dumps(dict(call.arguments), sort_keys=True, default=str)) for call in message.calls
    )
    return message.role, message.content, calls, message.answers
