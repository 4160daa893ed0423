"""The card: a whole request in one message, for models that read their last message only.

It holds the request, what the user has stated about it, the mails if they were looked at, what is done, what is still
to do, the offers between which to choose, and what went wrong last. Offers that somebody else has taken are left out.
"""

from __future__ import annotations

from .apps import LETTERS, Apps

NONE = "none"
"""What stands for no offer at all."""


def write_card(apps: Apps, news: str) -> str:
    """What is known of a request. `news` says what the last call brought, where nothing else on the card does."""
    errand = apps.errand
    names = [part.scenario.name for part in errand.parts]
    lines = [f"day {errand.day}: {errand.text}"]
    lines += [f"{name}: {errand.person.profile[name]}" for name in names if name in errand.person.profile]
    if apps.read:
        lines += [f"inbox: {mail}" for mail in apps.inbox()]
    for name, item in apps.chosen.items():
        lines.append(f"done: {name} {item.name}{', in the calendar' if name in apps.calendar else ''}")
    if any(to == "guest" for to, _ in apps.sent):
        lines.append("told: guest")
    left = [name for name in names if name not in apps.chosen]
    if left:
        lines.append(f"to do: {', '.join(left)}")
    looked_up = next((name for name in left if name in apps.searched), None)
    if looked_up is not None:
        lines += [f"offers for {looked_up}:", *_offers(apps, looked_up)]
    if news:
        lines.append(news)
    return "\n".join(lines)


def _offers(apps: Apps, scenario: str) -> list[str]:
    """Which offers have which value, as a table by question.

    What belongs together has no space in it, so that it can be a token: "quiet=AD" says that A and D are quiet. A small
    model can find such a token at once. To find letters in the token after the value, it would first have to learn what
    stands beside what, and in trainings of some minutes it doesn't.
    """
    part = apps.part(scenario)
    assert part is not None
    offers = [
        (letter, item) for letter, item in zip(LETTERS, part.offers, strict=False) if item.id != apps.gone.get(scenario)
    ]
    lines = []
    for question, values in part.scenario.questions.items():
        having = {
            words[0]: "".join(letter for letter, item in offers if item.tags.get(question) == value)
            for value, words in values.items()
        }
        if any(having.values()):
            lines.append(f"{question}: {', '.join(f'{word}={letters or NONE}' for word, letters in having.items())}")
    fame = ", ".join(f"{letter}{max(1, round(10 * item.fame))}" for letter, item in offers)
    names = ", ".join(f"{letter} {item.name}" for letter, item in offers)
    return [*lines, f"fame: {fame}", f"names: {names}"]
