"""The numbers of a day at the inbox, after table 17 of the engagement-process paper.

The one rule: they are the same under every interface, and whoever plays.

    >>> InboxSettings().durations.handle_email
    1.0
    >>> InboxSettings(rate=0.5, single=True).slack("high")
    (5.0, 15.0)
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from agentfw import Settings

__all__ = ["Durations", "InboxSettings"]

Positive = Annotated[float, Field(gt=0)]
Slack = tuple[Positive, Positive]
"""At least, and at most."""


class Durations(Settings):
    """How long each thing takes that is done at the desk, writing itself apart."""

    check_inbox: float = Field(0.1, ge=0, description="Looking which mails have come.")
    triage: float = Field(0.2, ge=0, description="Weighing the mails that were seen.")
    open_message: float = Field(0.1, ge=0, description="Reading a mail.")
    handle_email: float = Field(1.0, ge=0, description="Doing what a mail asks for, and answering it.")
    set_reminder: float = Field(0.1, ge=0, description="Setting a reminder.")
    turning_back: float = Field(0.1, ge=0, description="Turning from the mails back to the document.")


class InboxSettings(Settings):
    horizon: float = Field(90.0, gt=0, description="How long an episode lasts.")
    rate: float = Field(0.2, ge=0, description="How many mails arrive in one unit of time, on average.")
    high: float = Field(0.4, ge=0, le=1, description="The share of mails of high urgency.")
    medium: float = Field(0.4, ge=0, le=1, description="The share of mails of medium urgency; the rest is low.")
    high_slack: Slack = Field((5.0, 15.0), description="How long after it came a mail of high urgency is due.")
    medium_slack: Slack = Field((15.0, 25.0), description="The same for medium urgency.")
    low_slack: Slack = Field((25.0, 35.0), description="The same for low urgency.")
    time_per_token: float = Field(
        0.05, gt=0, description="How long it takes to write a token, of the document or of an answer."
    )
    durations: Durations = Field(Durations(), description="How long everything else takes.")
    single: bool = Field(False, description="Write the document in one go instead of section by section.")

    @model_validator(mode="after")
    def _possible(self) -> InboxSettings:
        if self.high + self.medium > 1:
            raise ValueError(f"{self.high:g} of high and {self.medium:g} of medium urgency are more than all mails")
        for urgency in ("high", "medium", "low"):
            least, most = self.slack(urgency)
            if least > most:
                raise ValueError(f"a {urgency} slack of at least {least:g} can't be at most {most:g}")
        return self

    def slack(self, urgency: str) -> tuple[float, float]:
        """After how long a mail of this urgency is due: at least, and at most."""
        return {"high": self.high_slack, "medium": self.medium_slack, "low": self.low_slack}[urgency]
