"""The worlds of the four papers behind agentfw, with all that belongs to them.

It is a plugin like any other team's: it imports only what the page Python API documents, and is found
through the same entry points. No world imports another. What several of them use is in `rewards`.
"""
