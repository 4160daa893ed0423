"""The scripts in model_making/ import each other by name, as they do when one is run by its path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "model_making"))
