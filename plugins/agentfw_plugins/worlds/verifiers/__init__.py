"""An environment of the library verifiers: it plays its examples against the policy, and its rubric is the reward."""
