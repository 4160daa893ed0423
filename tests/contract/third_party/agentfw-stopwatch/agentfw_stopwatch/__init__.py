"""Hooks that write down how long each episode took in its world."""
