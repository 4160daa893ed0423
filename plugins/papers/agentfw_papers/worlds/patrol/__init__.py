"""A patrol on a grid, with alarms that don't wait."""
