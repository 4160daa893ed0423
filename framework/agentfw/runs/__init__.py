"""A run: what it is made of, doing it, what is on disk of it, and what it came to.

The one rule: whatever was told is on disk. `spec.py` says what to do, `assembly.py` makes the components, `run.py` does
it, `folder.py` and `journal.py` keep it, `summary.py`, `comparison.py` and `report.py` say what came of it.
"""
