"""agentfw_plugins: every component that comes with agentfw.

A built-in has no advantage over anybody else's plugin. It is found through the same entry-point group, described by the
same `Component`, and passes the same contract suite.
"""
