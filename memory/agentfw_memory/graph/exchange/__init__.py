"""In and out: export and import, a page to look at, and a server for other agents."""
