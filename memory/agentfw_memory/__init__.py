"""agentfw_memory: what an agent keeps of its user, as a library of its own.

The one rule: nothing here imports agentfw or torch, so that any agent, of any framework, can use it alone.

    from agentfw_memory import StrategyHubs

    hubs = StrategyHubs.open("hubs.db")
    hubs.hub("ana").update(["Deadlines today come first"], round=1)
"""

from agentfw_memory.strategy_hub import Change, HubRefusal, StrategyHub, StrategyHubs

__all__ = ["Change", "HubRefusal", "StrategyHub", "StrategyHubs"]
