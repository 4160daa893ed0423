"""Answers that people rated, as tasks to learn from."""
