"""Sentences about a training that its figures alone don't say: they open the report, and end what a command prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["training_notes"]

_NOTABLE = 0.01
"""Share of corrected tokens from which it is told."""


def training_notes(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a reader of the updates has to know, the most important first."""
    return [note for note in (_optimizer_note(lines), _correction_note(lines), _proof_note(lines)) if note]


def _optimizer_note(lines: Sequence[Mapping[str, Any]]) -> str:
    """What the optimizer has said after every update, in its newest words."""
    notes = [str(line.get("note", "")) for line in lines]
    return notes[-1] if notes and all(notes) else ""


def _correction_note(lines: Sequence[Mapping[str, Any]]) -> str:
    """A sentence where the sampler's probabilities were so different that tokens were learned from less, or not."""
    shares = [line["learner"]["importance_corrected"] for line in lines if "importance_corrected" in line["learner"]]
    mean = sum(shares) / max(1, len(shares))
    if mean < _NOTABLE or any("age" in line["rollouts"] for line in lines):  # older versions sampled them, as was asked
        return ""
    return (
        f"{mean:.1%} of the sampled tokens counted less or not at all, because sampler and trainer give them different "
        "probabilities. Let the policy serve what is trained, in the same precision."
    )


def _proof_note(lines: Sequence[Mapping[str, Any]]) -> str:
    """A sentence where it is not certain that the policy served every version that was learned."""
    published = [line["served"] for line in lines if line["served"]]
    checked = [served["proven"] for served in published if "proven" in served]
    if not published or (len(checked) == len(published) and all(checked)):
        return ""
    if not checked:
        # Tables and scripts have no tokens to compare, and no other program that could serve something else.
        if not any(line["learner"].get("tokens_trained") for line in lines):
            return ""
        return "Which versions were served was not verified: the policy or the learner gives no logprobs."
    count = "None" if not any(checked) else f"Only {int(sum(checked))}"
    return (
        f"{count} of {len(published)} versions could be proven to be served: "
        "the others are closer to the versions before them than rounding allows to tell."
    )
