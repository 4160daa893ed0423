"""Policies whose model runs in this process."""
