"""The hook `budget`: limits on the tokens and the money of each user, of each key of a gateway, and of the run.

    agentfw serve --policy openai --hook budget --set hook.budget.user_tokens=200000 --set hook.budget.key_money=5

A request beyond a limit is refused: a gateway answers 429, and a run stops in good order and can be resumed with a
higher one. Answers that are on their way may exceed a limit. What was spent is kept in `budget.jsonl` in the run's
folder, so a gateway that is resumed goes on counting. Gateways that share sessions count each for itself.

A price is that of the policy (`policy.price`), else that of the model in `prices`, else that in the package
`genai-prices`, if it is installed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field

from agentfw import Request, Settings, Task, Turn, hookimpl
from agentfw.errors import BudgetSpentError, UsageError
from agentfw.hookspecs import Hook, ObservedRun
from agentfw.policy import Price
from agentfw.runs import make_private
from agentfw.settings import OPERATIONAL

_Tokens = Annotated[int | None, OPERATIONAL]
_Money = Annotated[float | None, OPERATIONAL]


class BudgetSettings(Settings):
    """Settings of the hook `budget`. At least one limit is needed to have an effect."""

    user_tokens: _Tokens = Field(None, ge=1, description="Maximum number of tokens of one user")
    user_money: _Money = Field(None, gt=0, description="Maximum cost of one user")
    key_tokens: _Tokens = Field(None, ge=1, description="Maximum number of tokens of one key of a gateway")
    key_money: _Money = Field(None, gt=0, description="Maximum cost of one key of a gateway")
    run_tokens: _Tokens = Field(None, ge=1, description="Maximum number of tokens of the run")
    run_money: _Money = Field(None, gt=0, description="Maximum cost of the run")
    prices: dict[str, Price] = Field(default_factory=dict, description="Prices per million tokens, by model")


class Budget(Hook):
    """Counts what each turn took, and refuses requests beyond a limit."""

    changes_requests = False

    def __init__(self, settings: BudgetSettings) -> None:
        self._settings = settings
        self._tasks: dict[str, Task] = {}
        self._spent: defaultdict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
        """Tokens and money, by whose they are: `user ada`, `key team`, `the run`."""
        self._file: Path | None = None
        self._limits_money = any(getattr(settings, f"{whose}_money") is not None for whose in ("user", "key", "run"))

    @hookimpl
    def agentfw_run_started(self, run: ObservedRun) -> None:
        self._file = run.folder.path / "budget.jsonl"
        if self._file.exists():
            for line in self._file.read_text("utf-8").splitlines(keepends=True):
                if line.endswith("\n"):  # one that was cut short by a kill isn't counted
                    self._count(*json.loads(line))

    @hookimpl(tryfirst=True)
    def agentfw_request(self, run: ObservedRun, request: Request) -> None:
        self._tasks[request.task.id] = request.task
        if self._limits_money and run.spec.policy.name != "scripted":
            self._price(run, "")  # raises if it isn't known
        for whose in _payers(request.task):
            kind = whose.removeprefix("the ").partition(" ")[0]
            for unit, spent in zip(("tokens", "money"), self._spent[whose], strict=True):
                limit = getattr(self._settings, f"{kind}_{unit}")
                if limit is not None and spent >= limit:
                    key = f"hook.budget.{kind}_{unit}"
                    text = f"the budget of {whose} is spent: {spent:,.12g} of {limit:,.12g} {unit}"
                    raise BudgetSpentError(text, fix=f"raise the limit {key}", change=f"{key}={2 * limit:.12g}")

    @hookimpl
    def agentfw_turn(self, run: ObservedRun, episode_id: str, turn: Turn) -> None:
        price = self._price(run, turn.model) if self._limits_money else None
        usage = turn.usage
        cost = usage.cost or (price.cost(usage) if price is not None else 0.0) or 0.0
        tokens = turn.count if usage.tokens is None else usage.tokens
        payers = list(_payers(self._tasks[episode_id]))
        self._count(payers, tokens, cost)
        if self._file is not None:
            make_private(self._file)
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps([payers, tokens, cost]) + "\n")

    def _count(self, payers: list[str], tokens: int, cost: float) -> None:
        for whose in payers:
            before = self._spent[whose]
            self._spent[whose] = before[0] + tokens, before[1] + cost

    def _price(self, run: ObservedRun, model: str) -> Price:
        """The price of a model. Raises UsageError if nobody knows it, because a limit on money couldn't be kept."""
        policy = next((each for each in run.spec.models if each.alias == model), run.spec.policy)
        given = getattr(policy.checked, "price", None)
        name = str(getattr(policy.checked, "model", "") or policy.name)
        if isinstance(given, Price):
            return given
        if name in self._settings.prices:
            return self._settings.prices[name]
        if not hasattr(policy.checked, "price"):
            return Price(prompt=0.0, sampled=0.0)  # a model of one's own
        found = _listed_price(name)
        if found is None:
            fix = f"set it: --set 'hook.budget.prices.\"{name}\".prompt=1.25' and .sampled, or pip install genai-prices"
            raise UsageError(f"budget: the price of the model {name} isn't known", fix=fix)
        return found


def _payers(task: Task) -> Iterator[str]:
    """Whose budget a request counts for. The name of a session begins with that of the key that it came with."""
    yield "the run"
    if task.user:
        yield f"user {task.user}"
    key, colon, _ = task.query.partition(":")
    if colon:
        yield f"key {key}"


def _listed_price(model: str) -> Price | None:
    try:
        from genai_prices import Usage, calc_price
    except ImportError:
        return None
    try:
        prompt = calc_price(Usage(input_tokens=1_000_000), model_ref=model).total_price
        sampled = calc_price(Usage(output_tokens=1_000_000), model_ref=model).total_price
    except LookupError:
        return None
    return Price(prompt=float(prompt), sampled=float(sampled))
