"""The implementation of the preference model. Import its public names from `agentfw_rewardmodels`."""
