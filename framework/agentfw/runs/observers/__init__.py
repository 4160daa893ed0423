"""Who is told of what happens in a run: progress displays, hooks of plugins, and trackers."""
