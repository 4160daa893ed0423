"""How hypothesis works here: the same examples on every machine, however slow, and no database beside the code."""

from hypothesis import settings

settings.register_profile("agentfw", deadline=None, derandomize=True, database=None, max_examples=100)
settings.load_profile("agentfw")
