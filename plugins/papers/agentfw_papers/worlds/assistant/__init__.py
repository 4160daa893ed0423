"""A personal assistant whose users have hidden tastes."""
