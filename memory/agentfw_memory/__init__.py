"""agentfw_memory: what an agent keeps of its user, as a library of its own.

The one rule: nothing here imports agentfw or torch, so that any agent, of any framework, can use it alone.
"""
