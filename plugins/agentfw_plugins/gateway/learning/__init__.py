"""`agentfw serve --learn`: feedback that comes in trains the next version beside the service."""
