"""Settings of the proactive world: which dialogues, when the agent is asked, what it reads and how it answers.

>>> ProactiveSettings().unit, ProactiveSettings(unit="dialogue", style="asg").style
('turn', 'asg')
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from agentfw import Settings
from agentfw_papers.timing import STATUSES


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


Unit = Literal["turn", "dialogue"]
Ask = Literal["spoken", "every", "customer"]
Style = Literal["plain", "reasoning", "asg"]
Rendering = Literal["full", "signatures", "names", "none"]
Answers = Literal["json", "calls", "lines"]


class ProactiveSettings(GeneratorSettings):
    domain: str = Field(
        "", description="Domain: the name of one that ships, or its folder. Default: the first that ships."
    )
    data: str = Field("", description="Directory of dialogues with references. Default: generated dialogues.")
    dialogues: int = Field(200, ge=1, description="Number of generated dialogues per split.")
    data_seed: int = Field(7, ge=0, description="Seed of the generated dialogues, and of the order of tasks.")
    unit: Unit = Field("turn", description="What an episode is: one turn of a dialogue, or a whole dialogue.")
    ask: Ask = Field("spoken", description="Turns at which the agent is asked: `spoken` ones, `every` or `customer`.")
    style: Style = Field(
        "plain", description="Prompting style: at once, with `reasoning`, or with the action states too."
    )
    catalog: Rendering = Field("signatures", description="How the prompt lists the actions of the domain.")
    answers: Answers = Field("json", description="How the agent answers: `json`, `lines`, or `calls` of an action.")
    values: Literal["original", "placeholder"] = Field(
        "original", description="Values in the dialogues: the original ones, or a placeholder such as <email>."
    )
    questions: bool = Field(False, description="Whether the agent also says what it would ask next.")
    encoder: str = Field(
        "",
        description="Text encoder that compares questions (IC): wordllama, hash:256 or sentence-transformers:NAME. "
        "Default: the best one installed.",
    )
    pace: float = Field(1.0, gt=0, description="Time between two turns, where the data has no times.")
    time_per_token: float = Field(0.0, ge=0, description="Time to generate a token, in dialogues.")
    silence: float = Field(
        1.0, ge=0, allow_inf_nan=False, description="Reward of a silent turn at which nothing is expected."
    )
    pt_of: Literal["ready", "all"] = Field("ready", description="Predictions that can be in time: `ready` ones or all.")
    transitions: tuple[str, ...] = Field(
        (), description="Allowed changes of an action's status, such as `pending->triggered`. Default: all."
    )

    @field_validator("transitions")
    @classmethod
    def _of_statuses(cls, transitions: tuple[str, ...]) -> tuple[str, ...]:
        for one in transitions:
            before, _, after = one.partition("->")
            if before not in STATUSES or after not in STATUSES:
                raise ValueError(f'"{one}" is not of the form STATUS->STATUS, with statuses of {", ".join(STATUSES)}')
        return transitions

    @model_validator(mode="after")
    def _fits_together(self) -> ProactiveSettings:
        if self.style == "asg" and self.unit == "turn":
            raise ValueError('style "asg" follows actions through a dialogue: it needs unit = "dialogue"')
        return self
