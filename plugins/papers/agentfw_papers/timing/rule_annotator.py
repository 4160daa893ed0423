"""References by rule: hindsight about the observed triggers of a dialogue takes the place of an annotator.

An action is pending from the turn at which the customer's wish can be recognised, ready from the first turn by which
everything that was used at its trigger has been said, triggered at its trigger, and gone afterwards. The reference thus
says when the action could have been triggered at the earliest.

Decisions of ours: the wish can be recognised at the first turn of the customer that has five words or more, unless the
caller knows better. Every value that was used at a trigger counts as needed for it, whether or not the catalog calls
the parameter required, because few uses don't show that. A value that nobody says, such as the number of an FAQ page,
is known once the wish is. Entries of actions say nothing.

    >>> turns = (Turn("customer", "I would like to have my money back"), Turn("professional", "Your name, please?"))
    >>> turns += (Turn("customer", "Joyce Wu"), Turn("professional", "Thanks"), Turn("action", "Account pulled up"))
    >>> dialogue = Dialogue("d1", turns, (Trigger(5, "pull-up-account", {"customer_name": "joyce wu"}),))
    >>> annotate(dialogue).statuses("pull-up-account")[1:4]
    ((2, 'pending'), (3, 'ready_to_trigger'), (4, 'ready_to_trigger'))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentfw_papers.timing.actions import Input, Level, Opportunity, Status, TurnOpportunities, check_turn
from agentfw_papers.timing.catalog import Action, Catalog, Parameter
from agentfw_papers.timing.dialogues import Annotation, Dialogue, Trigger, Turn
from agentfw_papers.timing.matching import normalise
from agentfw_rewardmodels import BadInputError

WORDS_OF_A_WISH = 5


def annotate(
    dialogue: Dialogue,
    catalog: Catalog | None = None,
    *,
    recognisable: int | None = None,
    later: Mapping[int, int] | None = None,
) -> Annotation:
    """The references of a dialogue. `recognisable` is the turn at which the customer's wish can be recognised.

    For a trigger that has nothing to do with this wish, `later` has the turn at which it can be foreseen, by its turn.

    With a catalog, optional inputs are listed as such, and other spellings of a value count as saying it.
    """
    texts = [f" {normalise(turn.text)} " if turn.speaker != "action" else "" for turn in dialogue.turns]
    wish = _first_wish(dialogue.turns) if recognisable is None else check_turn(recognisable)
    references: dict[int, list[Opportunity]] = {}
    gone: dict[str, int] = {}
    for trigger in sorted(dialogue.triggers, key=lambda one: one.turn):
        action = catalog.find(trigger.action) if catalog else None
        if catalog and not action:
            raise BadInputError(
                f'"{trigger.action}" is triggered in the dialogue "{dialogue.id}", but not in the catalog',
                fix="add the action to the catalog, or leave the dialogue out",
            )
        name = action.name if action else trigger.action
        recognised = min((later or {}).get(trigger.turn, wish), trigger.turn)
        known = {
            one: _said(value, action.find(one) if action else None, texts[: trigger.turn - 1]) or recognised
            for one, value in trigger.values.items()
        }
        start = max(recognised, gone.get(name, 0) + 1)
        changes = {start, trigger.turn, *known.values()}
        for turn in range(start, trigger.turn + 1):
            if turn in changes:
                opportunity = _opportunity(name, trigger, turn, known, action)
            references.setdefault(turn, []).append(opportunity)
        gone[name] = trigger.turn
    turns = tuple(TurnOpportunities(dialogue.id, turn, tuple(found)) for turn, found in sorted(references.items()))
    return Annotation(dialogue.id, len(dialogue.turns), turns)


def _opportunity(
    name: str, trigger: Trigger, turn: int, known: Mapping[str, int], action: Action | None
) -> Opportunity:
    """What the reference says at one turn. `known` has the turn from which each input is known."""
    required, optional = list[Input](), list[Input]()
    for one, value in trigger.values.items():
        parameter = action.find(one) if action else None
        listed = optional if parameter and not parameter.required else required
        listed.append(Input(one, True, value) if known[one] <= turn else Input(one))
    ready = all(first <= turn for first in known.values())
    status: Status = "triggered" if turn == trigger.turn else "ready_to_trigger" if ready else "pending"
    some = any(first <= turn for first in known.values())
    maturity: Level = "high" if status != "pending" else "medium" if some else "low"
    return Opportunity(name, status, tuple(required), tuple(optional), maturity, "high")


def _first_wish(turns: Sequence[Turn]) -> int:
    """The first turn of the customer with enough words, or the turn after the last."""
    wishes = (
        number
        for number, turn in enumerate(turns, start=1)
        if turn.speaker == "customer" and len(turn.text.split()) >= WORDS_OF_A_WISH
    )
    return next(wishes, len(turns) + 1)


def _said(value: str, parameter: Parameter | None, texts: Sequence[str]) -> int | None:
    """The first turn at which the value is said."""
    spellings = [f" {normalise(one)} " for one in (parameter.spellings(value) if parameter else (value,))]
    return next((turn for turn, text in enumerate(texts, start=1) if any(one in text for one in spellings)), None)
