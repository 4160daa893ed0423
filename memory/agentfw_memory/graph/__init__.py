"""The parts of `SkillGraph`. Its public names are exported by `agentfw_memory`."""
