"""What users of the papers' worlds say they want, as the short wishes that the policies of these worlds read.

    memories = [{ name = "skillgraph", settings = { extractor = "agentfw_papers.said_wishes:extract_wishes" } }]

The memory keeps what a person says as it was said. The users of these worlds speak in a few templates, and the small
policies read one wording. So here the templates are known, and every sentence in another one is left out. These
policies were trained on maxims about tools, too, which the memory itself doesn't write.

    >>> from agentfw_memory import Trajectory
    >>> said = Trajectory("t1", "ana", "a table", ("dining",), outcome="Next time, quiet tables please.")
    >>> [draft.text for draft in extract_wishes(said)]
    ['For dining, prefer quiet tables']
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from agentfw_memory import SkillDraft, Trajectory

_WISH = re.compile(
    r"^(?:I'd rather have|Next time,|I prefer|I want|I like|We really like|I love) (.+?)(?: please)?\.$", re.MULTILINE
)


def extract_wishes(trajectory: Trajectory, maximum: int = 3) -> Sequence[SkillDraft]:
    """Return the user's wishes, then which tools replaced one that failed, and then which worked."""
    about = f"For {' and '.join(trajectory.scenarios)}, " if trajectory.scenarios else ""
    steps = [step for step in trajectory.steps if step.tool]
    worked = tuple(dict.fromkeys(step.tool for step in steps if step.worked))
    told = {f"prefer {wanted}": worked for wanted in _WISH.findall(trajectory.outcome)}
    ways: dict[str, tuple[str, ...]] = {
        f"when {before.tool} fails, use {after.tool}": (before.tool, after.tool)
        for before, after in pairwise(steps)
        if not before.worked and after.worked and before.tool != after.tool
    }
    if worked:
        ways[f"use {', then '.join(worked)}"] = worked
    found = list((told | ways).items())[:maximum]
    texts = [about + text if about else text[0].upper() + text[1:] for text, _ in found]
    return [
        SkillDraft(whole, tools, trajectory.scenarios, wish=text in told)
        for whole, (text, tools) in zip(texts, found, strict=True)
    ]
