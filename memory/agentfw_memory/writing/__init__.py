"""Decides what to write down of what a person says: by a model, or without one as it was said."""
