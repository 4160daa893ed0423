"""Policies whose model runs in vLLM, started here or elsewhere."""
