"""Runs: playing tasks, learning from them, and storing and reporting the results.

`spec.py` says what to do, `assembly.py` creates the components, `run.py` and `loop.py` do the work, `folder.py` and
`journal.py` store it, `summary.py`, `comparison.py` and `report.py` present the results. A run with an optimizer is
called a training.
"""
