"""Where communities find more: teams whose members file messages by one convention, and forums with people who return.

    python benchmarks/communities.py --abcd shared/data/abcd
    python benchmarks/communities.py --csv train.csv            # banking77 or CLINC150, fetched by you, CC BY

Teams of four file messages into eight folders. All teams have the same folders and mean different subjects by them, so
that only a case of one's own team shows the right one. Members file first, then one newcomer of each team. A message is
filed as the most relevant case says, and the right folder is learned. With `--profiles`, people's profiles name their
team. Told is how often the newcomers' first messages are filed right, for several weights of communities. The weight is
chosen on one half of the seeds and told on the other, with 95% intervals of the difference for each newcomer. There is
no language model.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from cases import messages_of_abcd, messages_of_csv

from agentfw_benchmarks import Options, difference_of, mean_of, print_aligned, shown, tell
from agentfw_memory import GraphSettings, SkillGraph

WEIGHTS = (0.0, 0.1, 0.2, 0.4, 0.8)
TEAM, FOLDERS, FIRST = 4, 8, 10
TEAMS = (
    "card disputes",
    "business lending",
    "insurance claims",
    "branch offices",
    "fraud",
    "pensions",
    "the mint",
    "tax",
)
"""What the profiles of people say, if there are any."""


def newcomers(
    subjects: dict[str, list[str]], teams: int, length: int, weight: float, seed: int, profiles: bool
) -> list[float]:
    """Return the share of each newcomer's first messages that were filed right."""
    draw, names = random.Random(seed), sorted(subjects)
    meant = [{name: place % FOLDERS for place, name in enumerate(draw.sample(names, len(names)))} for _ in range(teams)]
    people = [(team, one) for one in range(TEAM) for team in range(teams)]
    turns = [(team, one) for _ in range(length) for team, one in people if one < TEAM - 1]
    turns += [(team, TEAM - 1) for _ in range(FIRST) for team in range(teams)]
    right: list[list[float]] = [[] for _ in range(teams)]
    settings = GraphSettings(share_learned=True, community_weight=weight)
    with SkillGraph.open(":memory:", tenant="cases", embedder="wordllama", settings=settings) as graph:
        for team, one in people if profiles else ():
            graph.set_profile(f"{team}/{one}", f"works for {TEAMS[team]}")
        for place, (team, one) in enumerate(turns):
            name = draw.choice(names)
            text, folder = draw.choice(subjects[name]), str(meant[team][name])
            cases = graph.cases(text, user=f"{team}/{one}", k=1)
            good = bool(cases) and cases[0].answer == folder
            trip = {"id": str(place), "user": f"{team}/{one}", "query": text, "corrected": folder}
            graph.learn({**trip, "skills": [case.id for case in cases]}, float(good))
            if one == TEAM - 1:
                right[team].append(float(good))
    return [float(np.mean(some)) for some in right]


def measure(
    subjects: dict[str, list[str]], teams: int, length: int, seeds: int, weights: Sequence[float], profiles: bool
) -> dict[str, Any]:
    """Choose the weight on the first half of the seeds, and tell it on the others."""
    found = {
        weight: [newcomers(subjects, teams, length, weight, seed, profiles) for seed in range(2 * seeds)]
        for weight in weights
    }
    choosing = {weight: float(np.mean(some[:seeds])) for weight, some in found.items()}
    best = max(choosing, key=lambda weight: choosing[weight])
    told = {weight: [one for some in rows[seeds:] for one in some] for weight, rows in found.items()}
    return {
        "subjects": len(subjects),
        "newcomers": len(told[best]),
        "choosing": {str(weight): round(mean, 3) for weight, mean in choosing.items()},
        "told": {str(weight): mean_of(some) for weight, some in told.items()},
        "chosen": best,
        "chosen - none": difference_of(told[best], told[0.0]),
    }


def show(result: dict[str, Any]) -> None:
    rows = [[weight, f"{result['choosing'][weight]:.3f}", shown(told)] for weight, told in result["told"].items()]
    print_aligned(["weight of communities", "half for choosing", "other half"], rows)
    print(f"chosen {result['chosen']}; beside none, on the other half: {shown(result['chosen - none'])}")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    options = Options(
        __doc__, abcd="", csv="", teams=4, length=15, seeds=(3, "in each half"), weights=[*WEIGHTS], profiles=False
    ).parse_args(arguments)
    if not (options.abcd or options.csv):
        raise SystemExit("name the data: --abcd FOLDER or --csv FILE")
    subjects = messages_of_abcd(Path(options.abcd)) if options.abcd else messages_of_csv(Path(options.csv))
    return tell(
        measure(subjects, options.teams, options.length, options.seeds, options.weights, options.profiles),
        options.json,
        show,
    )


if __name__ == "__main__":
    main()
