"""What a run does: its spec, and the components that the spec selects."""
