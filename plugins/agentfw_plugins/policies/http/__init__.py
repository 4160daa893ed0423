"""Policies that ask a model over HTTP."""
