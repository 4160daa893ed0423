"""What a person reads in a session and on the page, in six languages, and what they send to others, in twelve.

    texts = Texts.of("de")
    texts("conflicts", count=2)                    # "2 Überschneidungen"
    texts("kept", title="Zahnarzt")                # "behalten: Zahnarzt"
    texts.say(Said("no_time", {"title": "Demo"}))  # a text that was chosen where the language isn't known

The texts are data: `texts/LANGUAGE.yaml` has them by name. Where one depends on a number, `count` chooses between `one`
and `other`. A number is written as the language writes it, and a moment as day and time. What is missing in a language
is said in English, and so are `--json`, what a language model reads, and errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date as day_only
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

LANGUAGES = ("en", "de", "fr", "es", "it", "pt")
LETTERS = (*LANGUAGES, "nl", "pl", "ar", "ja", "ko", "zh")
"""Languages in which drafts are written."""
_FOLDER = Path(__file__).parent / "texts"


class Said(NamedTuple):
    """A text by its name, with what stands in it."""

    name: str
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of one language."""

    language: str
    dates: Mapping[str, Any]
    said: Mapping[str, str | Mapping[str, str]]
    attributes: Mapping[str, str]
    """Attributes of an event, by feature: "a client comes"."""
    compared: Mapping[str, str]
    """Kinds of events, by feature, for comparing them: "clients"."""

    @staticmethod
    @cache
    def of(language: str = "en") -> Texts:
        import yaml  # this module is imported for --help

        # All values are texts: for YAML, "no" is a truth value.
        given = yaml.load((_FOLDER / f"{language}.yaml").read_text("utf-8"), Loader=yaml.BaseLoader)
        if language == "en":
            return Texts(language, **given)
        parts = ("dates", "said", "attributes", "compared")
        return Texts(language, **{name: {**getattr(Texts.of(), name), **given.get(name, {})} for name in parts})

    def __call__(self, name: str, /, **fields: Any) -> str:
        found = self.said[name]
        if not isinstance(found, str):
            count = fields["count"]
            found = found["one" if count == 1 or (count == 0 and self.language == "fr") else "other"]
        return found.format(**{field: self._written(value) for field, value in fields.items()})

    def say(self, said: Said | str) -> str:
        """A text that was chosen elsewhere; what is no text of ours, such as a path, as it is."""
        return said if isinstance(said, str) else self(said.name, **said.fields)

    def date(self, name: str, moment: day_only) -> str:
        """A moment in one of the ways in which the language says it: `day`, `day_and_year`, `date` or `draft_date`."""
        weekday, day = moment.weekday(), moment.day
        return self(
            name,
            short=self.dates["short"][weekday],
            weekday=self.dates["weekdays"][weekday],
            day=self.dates["first"] if day == 1 else str(day),
            month=self.dates["months"][moment.month - 1],
            year=str(moment.year),
            time=f"{moment:%H:%M}",
        )

    def quoted(self, texts: Sequence[str]) -> str:
        return ", ".join(self("quoted", text=text) for text in texts)

    def _written(self, value: Any) -> str:
        if isinstance(value, datetime):
            return self.date("moment", value)
        if isinstance(value, day_only):
            return self.date("day", value)
        return f"{value:,}".replace(",", self.dates["thousands"]) if isinstance(value, int) else str(value)
