"""agentfw_cli: the `agentfw` command.

It parses, calls the framework, and prints. It decides nothing and knows no plugin.
"""
