"""The preference model, as `agentfw_rewardmodels` offers it.

The one rule: what isn't exported by that package is nobody's to import but this package's own.
"""
