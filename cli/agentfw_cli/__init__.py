"""agentfw_cli: the `agentfw` command.

The one rule: it parses, calls the framework, and prints; it decides nothing and knows no plugin.
"""
