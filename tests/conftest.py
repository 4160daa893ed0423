"""How tests run here: side by side without waiting for one another, and hypothesis the same on every machine."""

import os

from hypothesis import settings

# Two test processes whose arithmetic takes all cores each wait for one another most of the time: four times as long.
# Read by numpy and torch when they are first imported, and by every process that a test starts.
if workers := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 0)):
    share = str(max(1, (os.cpu_count() or 1) // workers))
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, share)

# MKL reads this at its first use, which may be long before the first policy is made (see models/arithmetic.py).
os.environ.setdefault("MKL_CBWR", "AVX2,STRICT")

# The same examples everywhere, however slow, and no database beside the code.
settings.register_profile("agentfw", deadline=None, derandomize=True, database=None, max_examples=100)
settings.load_profile("agentfw")
