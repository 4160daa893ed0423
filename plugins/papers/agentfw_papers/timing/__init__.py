"""Metrics of proactive scheduling: which actions an agent foresees in a dialogue, and whether it is ready in time.

Needs no torch:

    from agentfw_papers.timing import read_annotations, read_predictions, score

    report = score(read_predictions("predictions.jsonl"), read_annotations("annotations.jsonl"))
    print(report["ac"], report["pt"])

The metrics are those of the ProActor paper (section 3.2, appendices C, D.3, K.4 and M.2). See
docs/reference/proactive-metrics.md.
"""

from agentfw_papers.timing.actions import STATUSES, Input, Level, Opportunity, Status, TurnOpportunities, Windows
from agentfw_papers.timing.alignment import AlignmentReport, Margin, early_ready, validate
from agentfw_papers.timing.catalog import Action, Catalog, Dependencies, Parameter, Workflow
from agentfw_papers.timing.dialogues import Annotation, Dialogue, Speaker, Trigger, Turn
from agentfw_papers.timing.domain import Domain, load_domain
from agentfw_papers.timing.jsonl import (
    annotation_row,
    read_annotations,
    read_dialogues,
    read_predictions,
    turn_row,
    write_rows,
)
from agentfw_papers.timing.matching import agreements, normalise, same_value
from agentfw_papers.timing.metrics import RATES, Counted, Rewards, TurnScores, rewards, score_turn
from agentfw_papers.timing.questions import Encode, asked_missing, information_consistency, next_questions
from agentfw_papers.timing.ranking import Figures, Rank, Ranking, difference, rank
from agentfw_papers.timing.rating import SCALE, Rating, mean_rating, rating_question, read_rating
from agentfw_papers.timing.reading import Answer, read_answer, read_value
from agentfw_papers.timing.rule_annotator import annotate
from agentfw_papers.timing.run_agreement import MetricAgreement, RunAgreement, run_agreement
from agentfw_papers.timing.scoring import Estimate, ReadyActions, Report, SeedFigure, over_seeds, score, summarise

__all__ = [
    "RATES",
    "SCALE",
    "STATUSES",
    "Action",
    "AlignmentReport",
    "Annotation",
    "Answer",
    "Catalog",
    "Counted",
    "Dependencies",
    "Dialogue",
    "Domain",
    "Encode",
    "Estimate",
    "Figures",
    "Input",
    "Level",
    "Margin",
    "MetricAgreement",
    "Opportunity",
    "Parameter",
    "Rank",
    "Ranking",
    "Rating",
    "ReadyActions",
    "Report",
    "Rewards",
    "RunAgreement",
    "SeedFigure",
    "Speaker",
    "Status",
    "Trigger",
    "Turn",
    "TurnOpportunities",
    "TurnScores",
    "Windows",
    "Workflow",
    "agreements",
    "annotate",
    "annotation_row",
    "asked_missing",
    "difference",
    "early_ready",
    "information_consistency",
    "load_domain",
    "mean_rating",
    "next_questions",
    "normalise",
    "over_seeds",
    "rank",
    "rating_question",
    "read_annotations",
    "read_answer",
    "read_dialogues",
    "read_predictions",
    "read_rating",
    "read_value",
    "rewards",
    "run_agreement",
    "same_value",
    "score",
    "score_turn",
    "summarise",
    "turn_row",
    "validate",
    "write_rows",
]
