"""The action state graph (ASG): what is known of every action so far, in a dialogue that goes on.

Algorithm 1 of the ProActor paper. An action that is new is added at the end. A prediction about a known action takes
the place of what was known if the change of status is allowed, and is dropped otherwise. An observed trigger always
takes its place.

    >>> states = ActionStates(allowed=["pending->triggered"])
    >>> states.predict([Opportunity("send-link", "pending"), Opportunity("make-password", "pending")])
    >>> states.predict([Opportunity("send-link", "dismissed"), Opportunity("make-password", "triggered")])
    >>> [(one.name, one.status) for one in states]
    [('send-link', 'pending'), ('make-password', 'triggered')]
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from agentfw_papers.timing import Catalog, Input, Opportunity, Trigger


class ActionStates:
    """The states of one dialogue, in order of first appearance."""

    def __init__(self, allowed: Collection[str] = ()) -> None:
        """`allowed` are changes such as `pending->triggered`. Without any, all are allowed."""
        self._allowed = frozenset(allowed)
        self._states: dict[str, Opportunity] = {}

    def __iter__(self) -> Iterator[Opportunity]:
        return iter(self._states.values())

    def predict(self, opportunities: Iterable[Opportunity]) -> None:
        for one in opportunities:
            known = self._states.get(one.name)
            if known is None or not self._allowed or f"{known.status}->{one.status}" in self._allowed:
                self._states[one.name] = one

    def trigger(self, opportunity: Opportunity) -> None:
        """Take in an action that was observed to be triggered."""
        self._states[opportunity.name] = opportunity

    def missing(self) -> list[str]:
        """The required inputs that aren't known yet, of actions that are pending."""
        names = (part.name for one in self if one.status == "pending" for part in one.required if not part.provided)
        return list(dict.fromkeys(names))


def observed(trigger: Trigger, catalog: Catalog) -> Opportunity:
    """A trigger as an opportunity, with all of its values."""
    action = catalog.find(trigger.action)
    required, optional = list[Input](), list[Input]()
    for name, value in trigger.values.items():
        parameter = action.find(name) if action else None
        (optional if parameter and not parameter.required else required).append(Input(name, True, value))
    return Opportunity(action.name if action else trigger.action, "triggered", tuple(required), tuple(optional))
