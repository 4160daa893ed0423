"""What kind of value a statement gives: a phone number and a time of day are never values of the same fact.

>>> [kind_of(value) for value in ("+49 30 555 0100", "ana@example.com", "half past seven", "1,200 euros", "Bosch")]
['phone', 'email', 'clock', 'money', 'text']
"""

from __future__ import annotations

import re

__all__ = ["kind_of", "of_category", "split_words", "typed_values"]


def split_words(text: str) -> list[str]:
    """Return the words of a list that is written as text."""
    return text.split()


_MONTHS = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    "|nov(?:ember)?|dec(?:ember)?"
)
_DAYS = "(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
_HOURS = "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"
_CURRENCY = r"euros?|dollars?|pounds?|francs?|yen|eur|usd|gbp|chf|€|\$|£|¥"

TYPED: dict[str, re.Pattern[str]] = {
    "email": re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    "link": re.compile(r"(?:https?://|www\.)\S+"),
    "date": re.compile(
        rf"\b\d{{4}}-\d{{2}}-\d{{2}}\b|\b\d{{1,2}}[./]\d{{1,2}}[./]\d{{2,4}}\b"
        rf"|\b(?:the )?\d{{1,2}}(?:st|nd|rd|th)?(?: of)? (?:{_MONTHS})\b(?: \d{{4}})?"
        rf"|\b(?:{_MONTHS}) \d{{1,2}}(?:st|nd|rd|th)?\b(?:,? \d{{4}})?|\b{_DAYS}\b|\b(?:tomorrow|tonight|the weekend)\b"
    ),
    "clock": re.compile(
        r"\b\d{1,2}:\d{2}(?: ?[ap]\.?m\b\.?)?|\b\d{1,2} ?[ap]\.?m\b\.?|\b\d{1,2} o['’]clock\b|\b(?:noon|midnight)\b"
        rf"|\b(?:half past|quarter (?:past|to)) (?:{_HOURS}|\d{{1,2}})\b"
    ),
    "money": re.compile(rf"(?:{_CURRENCY}) ?\d[\d.,]*k?\b|\b\d[\d.,]*k? ?(?:{_CURRENCY})(?!\w)"),
    "phone": re.compile(r"(?<![\w.])(?:\+|\(?0)?\d[\d ()/.-]{4,}\d(?!\w)"),
    "code": re.compile(r"(?<!\w)(?=[\w#*-]*\d)(?=[\w#*-]*[a-z#*])[\w#*-]{2,}"),
    "number": re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*%?(?!\w)"),
}
"""Values that are told by their form, in a case-folded text. The first kind that matches counts."""

_CATEGORIES = {
    "drink": """tea coffee espresso cappuccino latte cocoa water juice lemonade beer wine cola soda milk matcha chai
        kombucha mate chocolate smoothie""",
    "colour": """red blue green yellow orange purple violet pink black white grey gray brown turquoise teal indigo beige
        magenta silver gold crimson navy maroon""",
    "language": """english german french spanish italian portuguese russian arabic chinese japanese korean hindi dutch
        polish turkish swedish danish norwegian finnish greek czech hungarian ukrainian vietnamese thai hebrew""",
    "diet": """vegan vegetarian pescatarian flexitarian omnivore keto paleo kosher halal gluten-free lactose-free
        macrobiotic carnivore""",
    "seat": "aisle window",
    "appearance": "dark light",
    "car": """toyota skoda fiat volvo renault mazda tesla bmw audi mercedes volkswagen vw opel ford peugeot citroën
        citroen kia hyundai honda nissan dacia porsche mini subaru suzuki lexus jeep chevrolet chevy yaris clio golf
        polo corolla prius civic""",
    "job": """manager lead engineer owner director developer designer analyst consultant accountant nurse teacher
        scientist architect assistant secretary administrator coordinator specialist technician lawyer president
        officer editor supervisor""",
}
_CATEGORY_OF = {word: category for category, words in _CATEGORIES.items() for word in words.split()}


def kind_of(value: str) -> str:
    """Return the kind of a value: one of those with a form of their own, or text."""
    plain = value.casefold()
    return next((kind for kind, pattern in TYPED.items() if pattern.search(plain)), "text")


def typed_values(text: str) -> list[tuple[str, str]]:
    """Return the values in a text that are told by their form, as (kind, value), none inside another."""
    plain, found = text.casefold(), list[tuple[str, str]]()
    for kind, pattern in TYPED.items():
        found += [(kind, match[0].strip()) for match in pattern.finditer(plain)]
        plain = pattern.sub(" ", plain)
    return found


def of_category(value: str) -> str:
    """Return what a value is one of, such as a drink or a language, or nothing if that isn't known."""
    words = re.findall(r"[\w-]+", value.casefold())
    return next((_CATEGORY_OF[word] for word in reversed(words) if word in _CATEGORY_OF), "")
