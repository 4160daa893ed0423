"""Settings of a day at the inbox, after table 17 of the engagement-process paper.

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
"""Minimum and maximum."""


class Durations(Settings):
    """Durations of everything except writing."""

    check_inbox: float = Field(0.1, ge=0, description="Checking which mails have arrived.")
    triage: float = Field(0.2, ge=0, description="Triage of the new mails.")
    open_message: float = Field(0.1, ge=0, description="Reading a mail.")
    handle_email: float = Field(1.0, ge=0, description="Handling and answering a mail.")
    set_reminder: float = Field(0.1, ge=0, description="Setting a reminder.")
    turning_back: float = Field(0.1, ge=0, description="Returning from the mails to the document.")


class InboxSettings(Settings):
    horizon: float = Field(90.0, gt=0, description="Length of an episode.")
    rate: float = Field(0.2, ge=0, description="Mean number of mails per unit of time.")
    high: float = Field(0.4, ge=0, le=1, description="Share of mails of high urgency.")
    medium: float = Field(0.4, ge=0, le=1, description="Share of mails of medium urgency; the rest is low.")
    high_slack: Slack = Field((5.0, 15.0), description="Minimum and maximum time until a mail of high urgency is due.")
    medium_slack: Slack = Field((15.0, 25.0), description="The same for medium urgency.")
    low_slack: Slack = Field((25.0, 35.0), description="The same for low urgency.")
    time_per_token: float = Field(0.05, gt=0, description="Time to write a token of the document or of an answer.")
    durations: Durations = Field(Durations(), description="Durations of everything else.")
    single: bool = Field(False, description="Write the document in one go instead of section by section.")

    @model_validator(mode="after")
    def _possible(self) -> InboxSettings:
        if self.high + self.medium > 1:
            raise ValueError(f"the shares high ({self.high:g}) and medium ({self.medium:g}) add up to more than 1")
        for urgency in ("high", "medium", "low"):
            least, most = self.slack(urgency)
            if least > most:
                raise ValueError(f"the minimum of {urgency}_slack, {least:g}, is above its maximum, {most:g}")
        return self

    def slack(self, urgency: str) -> tuple[float, float]:
        """Minimum and maximum time until a mail of this urgency is due."""
        return {"high": self.high_slack, "medium": self.medium_slack, "low": self.low_slack}[urgency]
