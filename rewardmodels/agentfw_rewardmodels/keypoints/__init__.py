"""Absolute marks by keypoints: a judge that says what an attempt has done of a list, and marks it under each head."""

from agentfw_rewardmodels.keypoints.judge import KeypointJudge, KeypointJudgement
from agentfw_rewardmodels.keypoints.question import Attempt

__all__ = ["Attempt", "KeypointJudge", "KeypointJudgement"]
