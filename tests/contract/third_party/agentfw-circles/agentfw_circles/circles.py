"""A reward model that finds circles in what an agent does.

Actions are the nodes of a graph, and each action points to the one that follows it. An action that can be reached from
itself is part of a circle.

    agentfw run inbox --reward utility --reward circles=0.2
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import networkx
from agentfw import Episode, RewardModel, Score


class Circles(RewardModel):
    """One score an episode, from 0 (everything is a circle) to 1."""

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [Score(episode.id, "circles", self.value(episode)) for episode in group]

    def value(self, episode: Episode) -> float:
        actions = [f"{call.name} {dict(call.arguments)}" for turn in episode.turns for call in turn.calls]
        follows = networkx.DiGraph()
        follows.add_nodes_from(actions)
        follows.add_edges_from(pairwise(actions))
        circles = [part for part in networkx.strongly_connected_components(follows) if len(part) > 1]
        inside = set().union(*circles, networkx.nodes_with_selfloops(follows))
        return 1.0 - len(inside) / max(1, len(follows))
