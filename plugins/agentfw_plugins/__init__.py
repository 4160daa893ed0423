"""agentfw_plugins: every component that comes with agentfw.

The one rule: a built-in has no advantage over a stranger's plugin. It is found through the same entry-point group,
described by the same `Component`, and passes the same contract suite.
"""
