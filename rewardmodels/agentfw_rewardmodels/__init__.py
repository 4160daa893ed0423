"""Reward models: a preference model of each user, and a rubric judge.

    from agentfw_rewardmodels import PreferenceModel

    model = PreferenceModel.fit("likes.csv", items="places.csv", profiles="people.csv")
    model.score("ana", "Book the museum first, then lunch nearby").reward
    model.save("preferences/")

Import the judge by its own name: `agentfw_rewardmodels.rubric` rates answers by a rubric.

The package works alone and doesn't import agentfw. torch is imported only by the functions that compute with it.
"""

from .errors import BadInputError, FileRefusedError, MissingExtraError, RewardModelError, StorageError, UnknownUserError
from .judging import json_values, without_thought
from .preference.encoders import open_encoder
from .preference.model import Evaluation, Explanation, NearItem, OwnItem, PreferenceModel, PreferenceScore
from .preference.preference_settings import PreferenceSettings
from .preference.scoring import Scores
from .preference.training import Progress

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
