"""A tracker that keeps the results of all runs in one file, and a command that shows them."""
