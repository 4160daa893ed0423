"""A tracker that keeps the results of all runs in one database, and a command that shows them."""
