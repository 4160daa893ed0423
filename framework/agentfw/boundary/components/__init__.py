"""The components of a run: how they are made, and what watches over each call of them."""
