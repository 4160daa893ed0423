"""What users of the papers' worlds say they want, as the short wishes that the policies of these worlds read.

    memories = [{ name = "skillgraph", settings = { extractor = "agentfw_papers.said_wishes:extract_wishes" } }]

The memory keeps what a person says as it was said. The users of these worlds speak in a few templates, and the small
policies read one wording. So here the templates are known, and every sentence in another one is left out.

    >>> from agentfw_memory import Trajectory
    >>> said = Trajectory("t1", "ana", "a table", ("dining",), outcome="Next time, quiet tables please.")
    >>> [draft.text for draft in extract_wishes(said)]
    ['For dining, prefer quiet tables']
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from agentfw_memory import SkillDraft, Trajectory, extract

_WISH = re.compile(
    r"^(?:I'd rather have|Next time,|I prefer|I want|I like|We really like|I love) (.+?)(?: please)?\.$", re.MULTILINE
)


def extract_wishes(trajectory: Trajectory, maximum: int = 3) -> Sequence[SkillDraft]:
    """Return the user's wishes, and then which tools worked."""
    about = " and ".join(trajectory.scenarios)
    worked = tuple(dict.fromkeys(step.tool for step in trajectory.steps if step.tool and step.worked))
    wishes = [
        SkillDraft(f"For {about}, prefer {wanted}", worked, trajectory.scenarios, wish=True)
        for wanted in dict.fromkeys(_WISH.findall(trajectory.outcome))
    ]
    return [*wishes, *extract(replace(trajectory, outcome=""), maximum)][:maximum]
