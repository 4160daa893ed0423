"""How often `agentfw serve --learn` finds a version better, where it is known how much of what it says is liked.

    python benchmarks/gateway_comparison.py

Versions and answers are drawn, without a model. The versions of each kind of world are compared on 20, 50 and 100
held-out answers, with one thumb in ten the wrong way round. Shown is which share of the versions passes, beside how
much more of their answers is liked than before, and how much more the estimate says (with 100 answers).

    thumbs by chance   versions that prefer some of five offers, of which none is liked more. Required: at most 5% pass
    better choice      versions that prefer what is liked of five offers
    worse choice       versions that prefer what isn't liked
    shorter            versions that end answers earlier; those of at most four words are liked, and one in twenty of
                       what was said before isn't said any more
    longer texts       versions that change long texts by chance, and prefer those that are liked
    learned before     versions that learn from what the policy and a better version said, which is compared with them.
                       They make what that one no longer says still rarer, and nothing better
    ruined             versions that say something else altogether
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from agentfw_benchmarks import Options, print_markdown, tell
from agentfw_plugins.gateway.learning.comparison import LEAST, compare

WRONG = 0.1
QUESTIONS, OFFERS = 40, 5


class Drawn(NamedTuple):
    """Rated answers, and how much more of what the new version says is liked."""

    logprobs: dict[str, np.ndarray]
    before: str
    given_by: Sequence[str]
    liked: np.ndarray
    gain: float


def of_policy(changes: np.ndarray, liked: np.ndarray, gain: float) -> Drawn:
    """Answers of the policy as it came, and by how much likelier they have become."""
    return Drawn({"v0": np.zeros(len(changes)), "new": changes}, "v0", ["v0"] * len(changes), liked, gain)


def shares_of(values: np.ndarray) -> np.ndarray:
    powers = np.exp(values - values.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def liked_offers(draw: np.random.Generator) -> np.ndarray:
    """One or two of the offers of each question."""
    found = np.zeros((QUESTIONS, OFFERS), bool)
    for _ in range(2):
        found[np.arange(QUESTIONS), draw.integers(0, OFFERS, QUESTIONS)] = True
    return found


def choices(draw: np.random.Generator, count: int, prefers: float, noise: float = 1.0) -> Drawn:
    offers, values = liked_offers(draw), draw.normal(0, 1.2, (QUESTIONS, OFFERS))
    old = shares_of(values)
    new = shares_of(values + prefers * offers + draw.normal(0, noise, values.shape))
    asked = draw.integers(0, QUESTIONS, count)
    said = np.array([draw.choice(OFFERS, p=old[one]) for one in asked])
    liked = draw.random(count) < 0.4 if not prefers else offers[asked, said]
    gain = float(((new - old) * offers).sum(axis=1).mean()) if prefers else 0.0
    return of_policy(np.log(new[asked, said] / old[asked, said]), liked, gain)


def shorter(draw: np.random.Generator, count: int) -> Drawn:
    longest, old, new, gone = 16, 0.12, 0.27, 0.05
    words = np.minimum(draw.geometric(old, count), longest)
    going_on, ending = np.log((1 - new) / (1 - old)), np.log(new / old)
    changes = np.where(words < longest, (words - 1) * going_on + ending, words * going_on)
    changes -= np.where(draw.random(count) < gone, 20.0, 0.0)
    return of_policy(changes, words <= 4, (1 - old) ** 4 - (1 - new) ** 4)


def texts(draw: np.random.Generator, count: int) -> Drawn:
    share, noise, gain = 0.4, 2.0, 2.0
    liked = draw.random(count) < share
    total = share * np.exp(gain) + 1 - share
    changes = gain * liked - np.log(total) + draw.normal(-(noise**2) / 2, noise, count)
    return of_policy(changes, liked, share * np.exp(gain) / total - share)


def learned_before(draw: np.random.Generator, count: int) -> Drawn:
    offers, values = liked_offers(draw), draw.normal(0, 1.2, (QUESTIONS, OFFERS))
    learned = values + 3 * offers + draw.normal(0, 0.5, values.shape)
    served = shares_of(learned)
    rare = ~offers & (served < 0.05)
    new = shares_of(learned - 4 * rare + ~offers * ~rare)
    by = {"v0": shares_of(values), "v1": served, "new": new}
    given_by = ["v0", "v1"] * (count // 2)
    asked = draw.integers(0, QUESTIONS, count)
    said = np.array([draw.choice(OFFERS, p=by[version][one]) for version, one in zip(given_by, asked, strict=True)])
    gain = float(((new - served) * offers).sum(axis=1).mean())
    logprobs = {version: np.log(shares[asked, said]) for version, shares in by.items()}
    return Drawn(logprobs, "v1", given_by, offers[asked, said], gain)


def ruined(draw: np.random.Generator, count: int) -> Drawn:
    return of_policy(draw.normal(-12, 6, count), draw.random(count) < 0.4, -0.4)


WORLDS: dict[str, Callable[[np.random.Generator, int], Drawn]] = {
    "thumbs by chance": lambda draw, count: choices(draw, count, 0.0),
    "better choice": lambda draw, count: choices(draw, count, 1.5),
    "worse choice": lambda draw, count: choices(draw, count, -0.7),
    "shorter": shorter,
    "longer texts": texts,
    "learned before": learned_before,
    "ruined": ruined,
}


def measure(versions: int, answers: Sequence[int], seed: int) -> dict[str, Any]:
    rows = []
    for name, world in WORLDS.items():
        draw, passed = np.random.default_rng(seed), {}
        for count in answers:
            gains, estimates, better = list[float](), list[float](), list[bool]()
            for number in range(versions):
                drawn = world(draw, count)
                thumbs = drawn.liked ^ (draw.random(count) < WRONG)
                if not LEAST <= thumbs.sum() <= count - LEAST:
                    continue
                found = compare(
                    {version: list(values) for version, values in drawn.logprobs.items()},
                    "new",
                    drawn.before,
                    drawn.given_by,
                    list(thumbs),
                    number,
                )
                better.append(found.better)
                gains.append(drawn.gain)
                estimates.append(found.liked - found.before)
            passed[str(count)] = float(np.mean(better))
        row = {"versions": name, "liked more": float(np.mean(gains)), "estimated": float(np.mean(estimates))}
        rows.append({**row, "passed": passed})
    return {"rows": rows}


def show(found: dict[str, Any]) -> None:
    counts = list(found["rows"][0]["passed"])
    head = ["versions", "liked more", "estimated", *(f"passed, {count} answers" for count in counts)]
    figures = [[row["liked more"], row["estimated"], *row["passed"].values()] for row in found["rows"]]
    rows = [
        [row["versions"], *(f"{one:.2f}" for one in some)] for row, some in zip(found["rows"], figures, strict=True)
    ]
    print_markdown(head, rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__, versions=(200, "number of versions of each kind"), answers=([20, 50, 100], "held-out answers"), seed=7
    ).parse_args(arguments)
    return tell(measure(options.versions, options.answers, options.seed), options.json, show)


if __name__ == "__main__":
    main()
