"""The modules here, and the scripts in docs_making/, import each other by name."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "docs_making")]
