"""`agentfw view`: every recorded episode in one place, as a page of its own and in a table that can be searched."""
