"""agentfw_rewardmodels: models that say how good an action was, and for whom, as a library of its own.

The one rule: nothing here imports agentfw, and torch only inside the functions that compute with it.
"""
