"""Several copies of a policy, each in a process of its own."""
