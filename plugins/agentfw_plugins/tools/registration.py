"""Registers the tools."""

from __future__ import annotations

from agentfw import Component

from ..registration import Registration

REGISTRATION = Registration(
    tools=[
        Component(
            "mcp",
            "agentfw_plugins.tools.mcp:MCPToolbox",
            "The tools of any MCP server, started here or at a URL",
            settings="agentfw_plugins.tools.mcp_settings:MCPSettings",
            extra="web",
            needs=("mcp",),
        ),
        Component(
            "tape",
            "agentfw_plugins.tools.tape:Tape",
            "Records the answers of any toolbox, and gives them again to the same calls",
            settings="agentfw_plugins.tools.tape:TapeSettings",
        ),
    ],
)
