"""Counts what a run spends, and lets nothing new be asked once its budget is spent.

A run that stops must not lose answers that were paid for. So whatever stops it here, a limit of the run or the end of
an account's quota, is raised only when every request that is on its way has been answered. What is on its way may
exceed a limit. Episodes that are complete are still scored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from ..episode import Usage
from ..errors import BudgetSpentError, QuotaEndedError, UsageError
from ..policy import FREE, Policy
from .spec.run_spec import SpendingSettings

Answer = TypeVar("Answer")

_NOTHING = Usage(0, 0, 0)


class Spending:
    """What a run has spent so far, in earlier executions too."""

    def __init__(self, budget: SpendingSettings) -> None:
        self.budget = budget
        self.policy = self.judges = _NOTHING
        self.tell: Callable[[Usage, Usage], object] = lambda policy, judges: None  # both totals, at each change
        self._on_its_way = 0
        self._all_answered = asyncio.Event()
        self._all_answered.set()
        self._refusal: QuotaEndedError | None = None  # of an account, until everything on its way is answered

    def check(self, asked: Mapping[str, Policy]) -> None:
        """Raise if a limit on money can't be kept. `asked` are all policies of the run, by what they are called."""
        if self.budget.money is None:
            return
        limit = "or limit tokens: --set budget.tokens=1000000"
        if unknown := [name for name, policy in asked.items() if policy.price is None]:
            raise UsageError(
                f"budget.money needs the price of {' and '.join(unknown)}, which is not set",
                fix="set it per million tokens, as in --set policy.price.prompt=1.25 --set policy.price.sampled=10; "
                + limit,
            )
        if all(policy.price == FREE for policy in asked.values()):
            text = f"budget.money has no effect: {' and '.join(asked)} costs nothing"
            raise UsageError(text, fix=f"remove it, {limit}")

    def count(self, policy: Usage = _NOTHING, judges: Usage = _NOTHING) -> None:
        self.policy, self.judges = self.policy + policy, self.judges + judges
        self.tell(self.policy, self.judges)

    async def ask(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Ask, unless the budget is spent."""
        stop = self._refusal or self._over()
        if stop is not None:
            await self.settled()
            raise stop
        return await self.finish(ask)

    async def finish(self, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Ask, even if the budget is spent."""
        self._on_its_way += 1
        self._all_answered.clear()
        try:
            return await ask()
        except QuotaEndedError as error:
            self._refusal = ended = error
        finally:
            self._on_its_way -= 1
            if not self._on_its_way:
                self._refusal = None
                self._all_answered.set()
        await self.settled()
        raise ended

    async def settled(self) -> None:
        """Wait until everything that is on its way is answered, so that nothing is lost when the run stops."""
        await self._all_answered.wait()

    def _over(self) -> BudgetSpentError | None:
        """Why nothing else may be asked, if a limit is reached or can't be kept."""
        spent = self.policy + self.judges
        for name, limit, amount, form in (
            ("tokens", self.budget.tokens, spent.tokens, "{:,} of {:,}"),
            ("money", self.budget.money, spent.cost, "{:.4g} of {:g}"),
        ):
            if limit is None:
                continue
            if amount is None:
                return BudgetSpentError(
                    f"budget.{name} can't be kept: a server doesn't report how many tokens its answers take",
                    fix="remove the limit",
                    change=f"budget.{name}=null",
                )
            if amount >= limit:
                return BudgetSpentError(
                    f"budget.{name} is spent: {form.format(amount, limit)}",
                    fix="raise the limit",
                    change=f"budget.{name}={2 * limit:.12g}",
                )
        return None
