"""The hook `budget`: counts what users, keys of a gateway and the run spend, and refuses what is beyond their limits.

Every gateway has it, and counts with it. A limit is exceeded by at most one answer: while the answers on their way may
take what is left, the next one waits for them. How much they may take is reckoned from their texts and `max_tokens`
(32,000 without), and is at least what the largest answer so far took.

What was spent is kept in `usage.db` in the directory of runs, for all gateways and chats of it together, and for each
run of another kind by itself; what a replay takes is no user's. Gateways that share sessions keep it in their database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Annotated, NamedTuple

from pydantic import Field

from agentfw import Request, Settings, Task, hookimpl
from agentfw.episode import Usage
from agentfw.errors import BudgetSpentError, StorageError, UsageError
from agentfw.hookspecs import Hook, ObservedRun
from agentfw.settings import OPERATIONAL

from .ledger import FILE, Account, Ledger, today

_Tokens = Annotated[int | None, OPERATIONAL]
_Money = Annotated[float | None, OPERATIONAL]
_PATIENCE = 60.0  # seconds that a request waits for those on their way
_SESSIONS = "sessions"  # the environment of gateways and chats


class Limits(Settings):
    user_tokens: _Tokens = Field(None, ge=0, description="Maximum number of tokens of one user")
    user_money: _Money = Field(None, ge=0, description="Maximum cost of one user")
    key_tokens: _Tokens = Field(None, ge=0, description="Maximum number of tokens of one key of a gateway")
    key_money: _Money = Field(None, ge=0, description="Maximum cost of one key of a gateway")
    run_tokens: _Tokens = Field(None, ge=0, description="Maximum number of tokens of the run, or of all gateways")
    run_money: _Money = Field(None, ge=0, description="Maximum cost of the run, or of all gateways")


class Allowance(Settings):
    tokens: _Tokens = Field(None, ge=0, description="Maximum number of tokens")
    money: _Money = Field(None, ge=0, description="Maximum cost")
    day_tokens: _Tokens = Field(None, ge=0, description="Maximum number of tokens in a day")
    day_money: _Money = Field(None, ge=0, description="Maximum cost in a day")
    month_tokens: _Tokens = Field(None, ge=0, description="Maximum number of tokens in a month")
    month_money: _Money = Field(None, ge=0, description="Maximum cost in a month")


class BudgetSettings(Limits):
    """Settings of the hook `budget`. Without a limit it only counts."""

    ledger: Annotated[str, OPERATIONAL] = Field(
        "", description="File or postgresql:// address with what was spent. Default: usage.db in the directory of runs"
    )
    day: Annotated[Limits, OPERATIONAL] = Field(default_factory=Limits, description="Limits of each day")
    month: Annotated[Limits, OPERATIONAL] = Field(default_factory=Limits, description="Limits of each month")
    users: Annotated[dict[str, Allowance], OPERATIONAL] = Field(
        default_factory=dict, description="Limits of single users, by name, in the place of the general ones"
    )
    keys: Annotated[dict[str, Allowance], OPERATIONAL] = Field(
        default_factory=dict, description="Limits of single keys, by name, in the place of the general ones"
    )


class Limit(NamedTuple):
    whose: str  # `user`, `key` or `run`
    name: str
    period: str  # `day`, `month`, or empty for ever
    unit: str
    most: float
    setting: str

    @property
    def title(self) -> str:
        payer = "the run" if self.whose == "run" else f"{self.whose} {self.name}"
        return f"{payer} for this {self.period} (UTC)" if self.period else payer


class Budget(Hook):
    """Counts what each request took, and refuses those beyond a limit."""

    changes_requests = False

    def __init__(self, settings: BudgetSettings) -> None:
        self._settings = settings
        self._ledger: Ledger | None = None
        self._replays = False  # whether an operator asks, in sessions that have the names of users
        self._unwritten: list[tuple[Account, str, Usage, bool]] = []
        """What couldn't be written. Nothing else is asked until it can be."""
        self._on_their_way: dict[object, tuple[Account, Usage]] = {}
        """What the requests that are being answered take at most, by the asyncio task that asks."""
        self._largest: dict[str, float] = {}
        """What the largest answer took so far, in tokens and money. The first one is given alone."""
        self._answered = asyncio.Event()

    @hookimpl
    def agentfw_run_started(self, run: ObservedRun) -> None:
        self._ledger = Ledger(self._settings.ledger or run.folder.path.parent / FILE)
        self._replays = "replay_of" in run.folder.about

    @hookimpl(tryfirst=True)
    async def agentfw_request(self, run: ObservedRun, request: Request, model: str, most: Callable[[], Usage]) -> None:
        self._write()
        account = self._account(run, request.task)
        if not (limits := list(self._limits(account))):
            return
        needed = most()
        if needed.cost is None and any(limit.unit == "money" for limit in limits):
            fix = f"set it: --set 'policy.prices.\"{model}\".prompt=1.25' and .sampled, or pip install genai-prices"
            raise UsageError(f"budget: the price of the model {model} isn't known", fix=fix)
        try:
            async with asyncio.timeout(_PATIENCE):
                while (limit := self._may_exceed(account, limits, needed)) is not None:
                    self._answered.clear()
                    await self._answered.wait()
        except TimeoutError:
            text = f"the answers on their way may take what is left of the budget of {limit.title if limit else ''}"
            raise BudgetSpentError(text, fix="ask again when they are done") from None
        self._on_their_way[asyncio.current_task()] = account, needed

    @hookimpl
    def agentfw_answered(self, run: ObservedRun, request: Request, model: str, usage: Usage, counted: bool) -> None:
        self._on_their_way.pop(asyncio.current_task(), None)
        for unit in ("tokens", "money") if usage.tokens else ():
            self._largest[unit] = max(self._largest.get(unit, 0), _amount(usage, unit))
        if usage.tokens or not counted:
            self._unwritten.append((self._account(run, request.task), model, usage, counted))
            with suppress(StorageError):  # the next request is told
                self._write()
        self._answered.set()

    def _write(self) -> None:
        while self._unwritten and self._ledger is not None:
            account, model, usage, counted = self._unwritten[0]
            self._ledger.add(account, model, usage, counted=counted)
            del self._unwritten[0]

    def _may_exceed(self, account: Account, limits: list[Limit], needed: Usage) -> Limit | None:
        """The limit that this request may exceed together with those on their way. Raises if one is spent."""
        found = None
        for limit in limits:
            since = {"day": today(), "month": f"{today()[:7]}-01"}.get(limit.period, "")
            row = self._ledger.spent(limit.whose, limit.name, book=account.book, since=since) if self._ledger else None
            spent = 0.0 if row is None else row.money if limit.unit == "money" else row.tokens
            if spent >= limit.most:
                told, most = (f"{value:,.12g}" for value in (round(spent, 6), limit.most))
                text = f"the budget of {limit.title} is spent: {told} of {most} {limit.unit}"
                change = f"{limit.setting}={2 * limit.most or 1:.12g}"
                raise BudgetSpentError(text, fix=f"raise the limit {limit.setting}", change=change)
            theirs = self._on_their_way.values()  # of a run, all of them
            others = [most for whose, most in theirs if getattr(whose, limit.whose, limit.name) == limit.name]
            least = self._largest.get(limit.unit, limit.most)
            may_take = sum(max(least, _amount(one, limit.unit)) for one in (*others, needed))
            if others and spent + may_take > limit.most:
                found = limit
        return found

    def _account(self, run: ObservedRun, task: Task) -> Account:
        """Whose a request is. The name of a session begins with that of the key that it came with."""
        if self._replays or run.spec.environment.name != _SESSIONS:
            return Account("" if self._replays else task.user, book=str(run.id))
        key, colon, _ = task.query.partition(":")
        return Account(task.user, key if colon else "", task.query)

    def _limits(self, account: Account) -> Iterator[Limit]:
        """The limits that hold for an answer."""
        own = {"user": self._settings.users, "key": self._settings.keys}
        for whose, name in (("run", "run"), ("user", account.user), ("key", account.key)):
            allowance = own.get(whose, {}).get(name)
            for period in ("", "day", "month") if name else ():
                for unit in ("tokens", "money"):
                    place, field = period, f"{whose}_{unit}"
                    holder: Settings = getattr(self._settings, period) if period else self._settings
                    if allowance is not None:
                        place = f'{whose}s."{name}"' if "." in name else f"{whose}s.{name}"
                        holder, field = allowance, f"{period}_{unit}".removeprefix("_")
                    if (most := getattr(holder, field)) is not None:
                        setting = ".".join(filter(None, ("hook.budget", place, field)))
                        yield Limit(whose, name, period, unit, most, setting)


def _amount(usage: Usage, unit: str) -> float:
    return (usage.cost if unit == "money" else usage.tokens) or 0.0
