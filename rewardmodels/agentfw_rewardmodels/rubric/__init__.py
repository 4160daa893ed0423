"""The rubric judge: a language model that scores several attempts at one task relative to each other.

    from agentfw_rewardmodels.rubric import RubricJudge

    judge = RubricJudge(ask, name="gpt-5-mini", rules=["Acting early, for good reasons, counts for much."])
    judgement = await judge.judge([[{"role": "user", "content": "Tea?"}, {"role": "assistant", "content": "Please."}]])

`ask` is any async function from messages to a text, or to an `Answer` that also says how many tokens it took.

Every attempt gets a score. If the judge gives no usable answer, even when asked again, all attempts of the group get
the same score, so that nothing is learned from them. The idea is RULER's (proactor, section 3.3 and appendix H.3).
"""

from agentfw_rewardmodels.rubric.answer import Answer, Usage
from agentfw_rewardmodels.rubric.cache import JudgementCache
from agentfw_rewardmodels.rubric.judge import FALLBACK, Ask, Judgement, JudgeRefused, RubricJudge, Tally
from agentfw_rewardmodels.rubric.marks import Mark
from agentfw_rewardmodels.rubric.question import LONGEST, Message, Question, make_question

__all__ = [
    "FALLBACK",
    "LONGEST",
    "Answer",
    "Ask",
    "JudgeRefused",
    "Judgement",
    "JudgementCache",
    "Mark",
    "Message",
    "Question",
    "RubricJudge",
    "Tally",
    "Usage",
    "make_question",
]
