"""Settings of generated dialogues: how long they are and how difficult."""

from __future__ import annotations

from pydantic import Field

from agentfw import Settings


class GeneratorSettings(Settings):
    flows: tuple[str, ...] = Field((), description="Flows or workflows to draw from. Default: all of the domain.")
    volunteered: float = Field(0.15, ge=0, le=1, description="Share of values that are said before they are asked for.")
    refused: float = Field(0.1, ge=0, le=1, description="Share of questions that are refused once.")
    ambiguous: float = Field(0.2, ge=0, le=1, description="Share of openings that fit every workflow of a flow.")
    early_end: float = Field(0.2, ge=0, le=1, description="Share of dialogues that end before their workflow does.")
    escalated: float = Field(0.05, ge=0, le=1, description="Share of dialogues that are handed to somebody else.")
    lateness: float = Field(1.0, ge=0, description="Mean number of turns between readiness and trigger.")
    small_talk: float = Field(1.0, ge=0, description="Factor of the small talk that fills a dialogue.")
    noise: float = Field(0.0, ge=0, le=1, description="Share of words with a typing error.")
