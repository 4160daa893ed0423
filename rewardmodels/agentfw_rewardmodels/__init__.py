"""Reward models: a preference model of each user, and a rubric judge.

    from agentfw_rewardmodels import PreferenceModel

    model = PreferenceModel.fit("likes.csv", items="places.csv", profiles="people.csv")
    model.score("ana", "Book the museum first, then lunch nearby").reward
    model.save("preferences/")

Import the judge by its own name: `agentfw_rewardmodels.rubric` rates answers by a rubric.

The package works alone and doesn't import agentfw. torch is imported only by the functions that compute with it.
"""

from agentfw_rewardmodels.errors import (
    BadInputError,
    FileRefusedError,
    MissingExtraError,
    RewardModelError,
    StorageError,
    UnknownUserError,
)
from agentfw_rewardmodels.judging import json_values, without_thought
from agentfw_rewardmodels.preference.encoders import open_encoder
from agentfw_rewardmodels.preference.model import PreferenceModel
from agentfw_rewardmodels.preference.preference_settings import PreferenceSettings
from agentfw_rewardmodels.preference.results import Evaluation, Explanation, NearItem, OwnItem, PreferenceScore
from agentfw_rewardmodels.preference.scoring import Scores
from agentfw_rewardmodels.preference.training import Progress

__all__ = [
    "BadInputError",
    "Evaluation",
    "Explanation",
    "FileRefusedError",
    "MissingExtraError",
    "NearItem",
    "OwnItem",
    "PreferenceModel",
    "PreferenceScore",
    "PreferenceSettings",
    "Progress",
    "RewardModelError",
    "Scores",
    "StorageError",
    "UnknownUserError",
    "json_values",
    "open_encoder",
    "without_thought",
]
