"""The reward `assistant_preference`: a preference model that is fitted on the log of the world when it is first needed.

    agentfw train assistant --reward assistant_base --reward assistant_preference \
        --set reward.assistant_preference.model=preferences

It knows what a log tells of users, which is more than they have stated and less than the truth. What users accept and
reject in a run becomes a newer model in the run's folder, as with the reward `preference`.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from agentfw_papers.rewards.log_preference import LogPreference

from .assistant_settings import AssistantSettings
from .catalogue import Catalogue
from .logs import write_logs


class AssistantPreference(LogPreference):
    """Scores what took hold by a model of the log of the assistant's world."""

    name = "assistant_preference"

    @classmethod
    def write_log(cls, folder: Path, world: int) -> None:
        write_logs(folder, AssistantSettings(world=world))

    @classmethod
    def texts(cls, world: int) -> dict[str, str]:
        return _texts(world)


@lru_cache(maxsize=4)
def _texts(world: int) -> dict[str, str]:
    return {item.id: item.text for item in Catalogue(AssistantSettings(world=world)).by_id.values()}
