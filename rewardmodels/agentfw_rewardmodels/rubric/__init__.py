"""The rubric judge: a language model that marks several attempts at one task relative to each other.

The one rule: whatever the judge says, every attempt gets a mark. An answer that can't be used, also after it was asked
for again, counts as a failure, and then all attempts of the group get the same mark, so that nothing is learned of it.

    from agentfw_rewardmodels.rubric import RubricJudge

    judge = RubricJudge(ask, name="gpt-5-mini", rules=["Acting early, on good grounds, counts for much."])
    judgement = await judge.judge([[{"role": "user", "content": "Tea?"}, {"role": "assistant", "content": "Please."}]])

`ask` is any async function from messages to a text. The idea is RULER's (proactor, section 3.3 and appendix H.3).
"""

from agentfw_rewardmodels.rubric.answer import Mark
from agentfw_rewardmodels.rubric.cache import JudgementCache
from agentfw_rewardmodels.rubric.judge import FALLBACK, Ask, Judgement, JudgeRefused, RubricJudge, Tally
from agentfw_rewardmodels.rubric.question import LONGEST, Message, Question, make_question

__all__ = [
    "FALLBACK",
    "LONGEST",
    "Ask",
    "JudgeRefused",
    "Judgement",
    "JudgementCache",
    "Mark",
    "Message",
    "Question",
    "RubricJudge",
    "Tally",
    "make_question",
]
