"""The reward rules of the ProActor paper side by side, from one small model, with a program as judge.

    python tests/benchmarks/proactive_rewards.py --work FOLDER
    python tests/benchmarks/proactive_rewards.py --work FOLDER --table lambda --seeds 7 8 9 --jobs 2 --json

Every row is `agentfw train proactive` with other weights and nothing else changed, measured on the same held-out turns
before and after. The tables:

- rules: agreement alone, the judge alone, and the mixtures between them (part D2 of the specification)
- lambda: the judge's highest share in the adaptive rule (D3)
- level: rewards of a turn, and means of the dialogue up to it, in whole dialogues (D4)
- cap: the importance ratio capped at 10 and at 100, with several steps an update (D5)

What is in FOLDER is not done again: a command that was broken off goes on. The rows of the simple players stand beside,
because eager gets the best timing without learning anything.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from agentfw import Host, HostOptions, Run
from agentfw.runs import RunFolder, apply_assignments, parse_spec, read_spec
from agentfw.statistics import Interval, bootstrap, bootstrap_quantile_correlation  # placeholder
