"""A training: a policy that gets better from its own episodes.

The one rule: an update counts once the state file says so; whatever is beyond it is done again, with the same result.
`spec.py` says what to do, `training.py` does it step by step, `state.py` and `folder.py` keep it, `probe.py` proves
which weights are served, `report.py` says what came of it.
"""
