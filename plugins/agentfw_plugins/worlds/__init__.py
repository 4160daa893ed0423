"""Worlds: one folder each, with everything that belongs to that world alone."""
