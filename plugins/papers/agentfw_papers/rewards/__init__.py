"""Rewards that several worlds build on."""
