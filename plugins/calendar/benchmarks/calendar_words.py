"""What share of reasons and titles is understood in six languages.

    python plugins/calendar/benchmarks/calendar_words.py
    python plugins/calendar/benchmarks/calendar_words.py --show de

The texts are in `plugins/calendar/tests/data/reasons/`. Sentences and titles were written before the word lists and
aren't used to make them, but by the same author, so their rows are optimistic. The row "paraphrases" has forty reasons
that the project's simulated users gave in English long before, and their literal translations. These name little:
"those we do all this for must never wait" is about a client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from agentfw_benchmarks import Options, print_aligned, tell
from agentfw_calendar.words import LANGUAGES, Kind, named
from agentfw_plugins.worlds.calendar.choice_model import FEATURES

DATA = Path(__file__).parents[1] / "tests" / "data" / "reasons"


class Given(NamedTuple):
    """A text and what it says."""

    text: str
    says: frozenset[str]


def held_out(name: str) -> list[Given]:
    """The lines of a file."""
    found = []
    for line in (DATA / f"{name}.txt").read_text("utf-8").splitlines():
        attributes, _, text = line.partition(" | ")
        found.append(Given(text, frozenset(attributes.split()) - {"-", "topic=delivery"}))
    return found


def measured(given: Sequence[Given], kind: Kind, *, needed: Callable[[Iterable[bool]], bool] = all) -> dict[str, Any]:
    """Shares of texts that are understood, also with something that wasn't said; or not at all; or only wrongly."""
    counts = dict.fromkeys(("understood", "and more", "nothing", "mistaken"), 0)
    for one in given:
        found = _read(one.text, kind)
        right = needed(name in found for name in one.says) if one.says else not found
        counts["understood" if right else "mistaken" if found else "nothing"] += 1
        counts["and more"] += right and not found <= one.says
    return {"texts": len(given), **{name: count / len(given) for name, count in counts.items()}}


def _read(text: str, kind: Kind) -> frozenset[str]:
    wanted = (*FEATURES, "due=today", "due=week")
    return frozenset(name for name in named(text, kind) if name in wanted and name != "topic=delivery")


def measure() -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name in LANGUAGES:
        result[name] = {"reasons": measured(held_out(name), "reasons")}
        result[name]["titles"] = measured(held_out(f"titles_{name}"), "titles")
        result[name]["paraphrases"] = measured(held_out(f"principles_{name}"), "reasons", needed=any)
    return result


def show(result: dict[str, Any], language: str) -> None:
    """The table, and each text of a language with what is read and what it says."""
    names = ("understood", "and more", "nothing", "mistaken")
    rows = [(part, name, result[name][part]) for part in ("reasons", "paraphrases", "titles") for name in result]
    cells = [[part, name, str(row["texts"]), *(f"{row[one]:.2f}" for one in names)] for part, name, row in rows]
    print_aligned(["", "", "texts", *names], cells)
    for one in (*held_out(language), *held_out(f"principles_{language}")) if language else ():
        found = _read(one.text, "reasons")
        print(f"{one.text}: {', '.join(sorted(found)) or '-'}   ({', '.join(sorted(one.says)) or '-'})")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__)
    parser.add_argument("--show", choices=LANGUAGES, help="also print each text of a language and what is read")
    options = parser.parse_args(arguments)
    return tell(measure(), options.json, lambda result: show(result, options.show))


if __name__ == "__main__":
    main()
