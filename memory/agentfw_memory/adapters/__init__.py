"""The skill graph as the memory of other agent frameworks. Each module needs its framework (extra `adapters`)."""
