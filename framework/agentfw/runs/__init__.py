"""Runs: what a run is made of, the loop that plays and learns, what is on disk of it, and what came of it.

`spec.py` says what to do, `assembly.py` makes the components, `run.py` and `loop.py` do it, `folder.py` and
`journal.py` keep it, `summary.py`, `comparison.py` and `report.py` tell the result. A run with an optimizer is called a
training.
"""
