"""Memories for agents: a skill graph that is shared by a team, and a short list of strategies per user.

    from agentfw_memory import SkillGraph, StrategyHubs

    hubs = StrategyHubs.open("hubs.db")
    hubs.hub("ana").update(["Deadlines today come first"], round=1)

    graph = SkillGraph.open("skills.db", tenant="team-a")
    graph.add(owner="ana", text="Offer the earliest slot first", tools=["calendar"])
    graph.recall("move my meeting", user="ana")

The package works alone, with any agent framework. It imports neither agentfw nor torch.
"""

from .errors import (
    BadInputError,
    HubRefusal,
    MissingExtraError,
    SkillGraphError,
    StorageError,
    StoreBusyError,
    StoreRefusedError,
    UnknownSkillError,
    WriterError,
)
from .graph.exchange.foreign_import import read_memories
from .graph.graph_settings import GraphSettings
from .graph.index.word_index import WordIndex
from .graph.learning.extraction import Case, Extractor, SkillDraft, Step, Trajectory, as_messages, as_text, extract
from .graph.learning.hearing import Saying
from .graph.records import Edge, Heard, Hit, Learned, NewSkill, Receipt, Skill, SkillHistory, SkillVersion, Stats, Why
from .graph.words import followed, terms
from .skill_graph import AsyncSkillGraph, SkillGraph
from .strategy_hub import Change, StrategyHub, StrategyHubs
from .writing.writer import CompletingModel, Decision, KnownMemory, ModelWriter, Said, Writer

__all__ = [
    "AsyncSkillGraph",
    "BadInputError",
    "Case",
    "Change",
    "CompletingModel",
    "Decision",
    "Edge",
    "Extractor",
    "GraphSettings",
    "Heard",
    "Hit",
    "HubRefusal",
    "KnownMemory",
    "Learned",
    "MissingExtraError",
    "ModelWriter",
    "NewSkill",
    "Receipt",
    "Said",
    "Saying",
    "Skill",
    "SkillDraft",
    "SkillGraph",
    "SkillGraphError",
    "SkillHistory",
    "SkillVersion",
    "Stats",
    "Step",
    "StorageError",
    "StoreBusyError",
    "StoreRefusedError",
    "StrategyHub",
    "StrategyHubs",
    "Trajectory",
    "UnknownSkillError",
    "Why",
    "WordIndex",
    "Writer",
    "WriterError",
    "as_messages",
    "as_text",
    "extract",
    "followed",
    "read_memories",
    "terms",
]
