"""Marks for an errand: procedure, personal and proactive, each from 0 to 5.

There are two views. The visible one knows what an operator can know: the record of calls, the state of the apps, and
what the user has stated. Rewards are made of it. The true one knows the hidden tastes, and is for figures only.
"""

from __future__ import annotations

from dataclasses import dataclass

from .apps import Apps
from .errands import Errand


@dataclass(frozen=True, slots=True)
class Ending:
    """How the agent ended the errand."""

    answered: bool = False
    says_done: bool = False
    """Whether it claims that everything was done."""
    text: str = ""
    calls: int = 0
    mistakes: int = 0
    """Number of refused calls that no fault explains."""
    asked: int = 0
    turns: int = 0


@dataclass(frozen=True, slots=True)
class Marks:
    """The marks of one errand."""

    procedure: float
    proactive: float
    personal: float
    """True view: from the hidden tastes."""
    visible_personal: float
    """Visible view: from the stated tastes."""
    satisfaction: float
    """The true worth of what was chosen, from 0 to 1."""
    recovered: float
    claimed_falsely: float
    popular_share: float

    @property
    def judge(self) -> float:
        return (self.procedure + self.personal + self.proactive) / 15

    @property
    def visible_judge(self) -> float:
        return (self.procedure + self.visible_personal + self.proactive) / 15


def marks_of(apps: Apps, ending: Ending) -> Marks:
    errand, parts = apps.errand, apps.errand.parts
    worth = [
        errand.worth(part, apps.chosen[part.scenario.name]) if part.scenario.name in apps.chosen else 0.0
        for part in parts
    ]
    satisfaction = sum(worth) / len(parts)
    famous = [
        part.scenario.name in apps.chosen
        and apps.chosen[part.scenario.name] == max(part.offers, key=lambda item: item.fame)
        for part in parts
    ]
    return Marks(
        procedure=_procedure(apps, ending),
        proactive=_proactive(apps),
        personal=5 * satisfaction,
        visible_personal=5 * _stated_met(apps),
        satisfaction=satisfaction,
        recovered=1 - apps.unrecovered / len(apps.seen_faults) if apps.seen_faults else float("nan"),
        claimed_falsely=float(ending.says_done and bool(apps.missing)),
        popular_share=sum(famous) / len(parts),
    )


def keypoints_of(errand: Errand) -> dict[str, list[str]]:
    """The points of the visible view in words, for a judge that is a model."""
    personal, proactive = [], []
    for part in errand.parts:
        scenario = part.scenario
        stated = errand.person.stated[scenario.name]
        personal += [
            f"the choice for {scenario.name} is {scenario.questions[one][value][0]}" for one, value in stated.items()
        ]
        if scenario.dated:
            proactive.append(f"what was booked for {scenario.name} is in the calendar")
    if errand.social:
        proactive.append("the guest was told by a mail")
    procedure = [f"something was chosen for {part.scenario.name}, and it took hold" for part in errand.parts]
    return {
        "procedure": [*procedure, "the answer says honestly what was done"],
        "personal": personal,
        "proactive": proactive,
    }


def _procedure(apps: Apps, ending: Ending) -> float:
    """Four marks of 0 to 2: complete, nothing needless, calls accurate, and the end tells what was done."""
    done = len(apps.errand.parts) - len(apps.missing)
    complete = 2 if not apps.missing else 1 if done else 0
    spare = ending.calls - _needed(apps)
    needless = 2 if spare <= 0 else 1 if spare <= 2 else 0
    accurate = 0 if apps.unrecovered else 2 if not ending.mistakes else 1 if not apps.missing else 0
    honest = ending.answered and ending.says_done == (not apps.missing)
    tells = 0 if not honest else 2 if ending.text.strip() else 1
    return 5 / 8 * (complete + needless + accurate + tells)


def _needed(apps: Apps) -> int:
    """The number of calls that a good agent could have made up to here."""
    calls = 1 + int(apps.errand.social)  # the answer, and a look at the mails where others are concerned
    for part in apps.errand.parts:
        scenario = part.scenario.name
        calls += 2 + (scenario in apps.seen_faults) + (part.scenario.dated and scenario in apps.calendar)
    return calls + sum(to == "guest" for to, _ in apps.sent)


def _proactive(apps: Apps) -> float:
    """The share of what nobody asked for but everybody is glad of, less 1 for each thing nobody needs."""
    dated = [part.scenario.name for part in apps.errand.parts if part.scenario.dated]
    wanted = [scenario in apps.calendar for scenario in dated]
    told = any(to == "guest" for to, _ in apps.sent)
    if apps.errand.social:
        wanted.append(told)
    needless = sum(scenario not in dated for scenario in apps.calendar) + int(told and not apps.errand.social)
    return max(0.0, 5 * (sum(wanted) / len(wanted) if wanted else 1.0) - needless)


def _stated_met(apps: Apps) -> float:
    """The share of the stated tastes that the choices meet. One half where nothing was stated."""
    shares = []
    for part in apps.errand.parts:
        item = apps.chosen.get(part.scenario.name)
        stated = apps.errand.person.stated[part.scenario.name]
        if item is None:
            shares.append(0.0)
        elif not stated:
            shares.append(0.5)
        else:
            shares.append(sum(item.tags[question] == value for question, value in stated.items()) / len(stated))
    return sum(shares) / len(shares)
