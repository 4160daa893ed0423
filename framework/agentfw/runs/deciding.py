"""What a run may do: what its budget allows, and what hooks decide on requests, tool calls and records.

A run that stops must not lose answers that were paid for. So whatever stops it here, a limit of the run or the end of
an account's quota, is raised only when every request that is on its way has been answered. What is on its way may
exceed a limit. Episodes that are complete are still scored.

What a hook decides is an event of the kind `hook` in the record of its episode. A run without such hooks has none of
this in its way. A hook may ask a person before a tool is called. Whoever can ask one listens: the terminal that a run
was started in, a chat, the pages of a gateway. The first answer counts. Where nobody listens or answers in time, it is
no.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

from ..boundary.crossing import Layer, layered
from ..boundary.forms import Call as Crossing
from ..episode import Call, Episode, Event, Task, Turn, Usage
from ..errors import AgentfwError, BudgetSpentError, PluginError, QuotaEndedError, UsageError
from ..host.hook_calls import HookManager
from ..policy import FREE, Policy
from ..request import Forwarded, Generation, Passed, Request
from .spec.run_spec import SpendingSettings

if TYPE_CHECKING:
    from .observers import RunInfo

Answer = TypeVar("Answer")
Note = Callable[[str, str, dict[str, Any]], object]
_LONGEST = 32_000  # tokens that an answer without `max_tokens` has at most, as far as anybody reckons with it
_NOTHING = Usage(0, 0, 0)
_YES = "asked: allowed"


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
        if self.budget.tokens is None and self.budget.money is None:
            return None
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


@dataclass(slots=True, eq=False)
class Question:
    """One question that is open."""

    number: int
    text: str
    user: str = ""
    """Whose conversation it belongs to."""
    session: str = ""
    """The name of that conversation in the record."""
    answered: asyncio.Future[bool] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Questions:
    def __init__(self) -> None:
        self.open: dict[int, Question] = {}  # by number
        self.listeners: list[Callable[[Question], object]] = []  # called in the event loop's thread. They must not wait
        self._asked = 0

    async def ask(self, text: str, user: str, session: str, seconds: float) -> tuple[bool, str]:
        """Whether a person allows it, and in words how that was decided."""
        if not self.listeners:
            return False, "there is nobody to ask"
        self._asked += 1
        question = self.open[self._asked] = Question(self._asked, text, user, session)
        try:
            for listen in self.listeners:
                listen(question)
            allowed = await asyncio.wait_for(question.answered, seconds)
        except TimeoutError:
            return False, f"nobody has answered within {seconds:g} s"
        finally:
            del self.open[question.number]
        return allowed, "a person said yes" if allowed else "a person said no"

    def take_line(self, number: int, line: str) -> bool:
        """Answer a question with a line that a person typed, in which anything but `y` or `yes` is a no."""
        return self.answer(number, allow=line.strip().lower() in ("y", "yes"))

    def answer(self, number: int, *, allow: bool) -> bool:
        """Answer a question. False if it isn't open any more."""
        question = self.open.get(number)
        if question is None or question.answered.done():
            return False
        question.answered.set_result(allow)
        return True


def ask_in_terminal(questions: Questions) -> None:
    """Ask in the terminal of this process, if it has one. What isn't a yes is a no."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        return
    turn = threading.Lock()

    def listen(question: Question) -> None:
        loop = asyncio.get_running_loop()

        def ask() -> None:
            with turn:
                if question.answered.done():
                    return
                sys.stderr.write(f"{question.text} [y/N]\n")  # a whole line, which the live picture lets through
                sys.stderr.flush()
                line = sys.stdin.readline()
            loop.call_soon_threadsafe(questions.take_line, question.number, line)

        threading.Thread(target=ask, name="agentfw-question", daemon=True).start()

    questions.listeners.append(listen)


class Decisions:
    def __init__(self, hooks: HookManager, spending: Spending) -> None:
        self.hooks, self.questions, self._spending = hooks, Questions(), spending
        self.run: RunInfo | None = None  # the run, once it has begun
        asking, counting, calls = (
            hooks.implementations(f"agentfw_{name}") for name in ("request", "answered", "before_call")
        )
        self._asks = bool(asking or counting)
        self.before_call = self._before_call if calls else None  # what decides on tool calls. None if no hook does
        self.records = bool(hooks.implementations("agentfw_record"))  # if so, nothing else keeps what was said
        self.record = self._record if self.records else None  # of an episode, or of the news of a session
        self.reads = bool(calls) or any(getattr(each.plugin, "changes_requests", True) for each in asking)
        """Whether requests have to be read, and can't be passed on as they are."""

    def around(self, policy: Policy, name: str) -> Policy:
        """The policy, whose requests are decided on. `name` is what its model is called where no answer says it."""
        made: Policy = layered(_DecidedRequests, "policy")(policy, self, name) if self._asks else policy
        return made

    async def request(
        self, request: Request, model: str, most: Callable[[], Usage], *, passed_on: bool
    ) -> tuple[Request, tuple[Mapping[str, Any], ...]]:
        """The request to ask, and what was done to it. `most` says what its answer takes at most."""
        try:
            decided = await self.hooks.decide("agentfw_request", run=self.run, request=request, model=model, most=most)
        except BudgetSpentError:
            await self._spending.settled()
            raise
        if decided is None or decided.answer == request:
            return request, ()
        owner = decided.owner
        if passed_on:
            text = f"{owner.title} has changed a request, but its `changes_requests` says that it doesn't"
            raise PluginError(text, fix=owner.fix)
        return decided.answer, ({"hook": owner.name, "did": "changed the request"},)

    async def _before_call(self, task: Task, call: Call, note: Note) -> tuple[bool, str] | None:
        """What the agent is told in the place of the tool. None: the call is made."""
        own = Call(call.name, dict(call.arguments), call.id)
        decided = await self.hooks.decide("agentfw_before_call", run=self.run, task=task, call=own)
        if decided is None:
            return None
        does, text, seconds = decided.answer
        did = {"allow": "allowed", "refuse": "refused", "answer": "answered"}.get(does, does)
        if does == "ask":
            allowed, how = await self.questions.ask(text, task.user, task.query, seconds)
            does, did, text = ("allow", _YES, text) if allowed else ("refuse", "asked: refused", how)
        note("hook", decided.owner.name, {"did": did, "name": call.name, "call": call.id, "text": text})
        if does == "allow":
            return None
        return (True, text) if does == "answer" else (False, f"{call.name} was refused: {text}".removesuffix(": "))

    async def before_tool(self, episode: Episode, call: Call, note: Note) -> tuple[bool, str] | None:
        """As `before_call`, of a tool that a program asks for. A person's yes to a call of the model is good once."""
        events = [one for one in episode.events if call.id in (one.data.get("call"), one.data.get("id"))]
        left = sum(one.data.get("did") == _YES for one in events) - sum(one.name == "called" for one in events)
        is_allowed = left > 0 and any(call in turn.calls for turn in episode.turns)
        asks = None if is_allowed else self.before_call
        decided = await asks(episode.task, call, note) if asks is not None else None
        if decided is None:
            note("session", "called", {"id": call.id, "name": call.name, "arguments": dict(call.arguments)})
        return decided

    def _record(self, episode: Episode) -> Episode:
        decided = self.hooks.decide_now("agentfw_record", run=self.run, record=episode.copied().to_record())
        if decided is None:
            return episode
        owner = decided.owner
        try:
            made = Episode.from_record(decided.answer)
        except AgentfwError as error:
            text = f"{owner.title} made a record that can't be read: {error.message}"
            raise PluginError(text, fix=owner.fix) from error
        lengths = [(len(each.turns), len(each.messages)) for each in (made, episode)]
        if lengths[0] != lengths[1] or made.task != episode.task:
            text = f"{owner.title} has taken turns or messages out of a record, or added some"
            raise PluginError(text, fix=owner.fix)
        if made != episode:
            made.events.append(Event(made.ended, "hook", owner.name, {"did": "changed the record"}))
        return made


class _DecidedRequests(Layer):
    def __init__(self, policy: Policy, decisions: Decisions, name: str) -> None:
        self.inside, self._decisions, self._name = policy, decisions, name
        self.take_attributes(policy)
        innermost: Any = policy
        while isinstance(innermost, Layer):
            innermost = innermost.inside
        self._innermost: Policy = innermost

    async def later(self, call: Crossing, given: tuple[Any, ...]) -> Any:
        forwarded = given[-1] if given and isinstance(given[-1], Forwarded) else None
        if call.name not in ("generate", "stream", "forward") or (forwarded and not forwarded.protocol):
            return await super().later(call, given)  # nothing of a model, such as a list or a file
        request = given[0]
        models = [forwarded.model] if forwarded is not None and forwarded.model else []
        said, generations, spent = list[str](), tuple[Generation, ...](), False

        def listening(tell: Callable[[str], object]) -> Callable[[str], object]:
            def heard(text: str) -> None:
                said.append(text)
                tell(text)

            return heard

        def most() -> Usage:
            sampled = request.sampling.max_tokens or _LONGEST
            prompt = 2 * _tokens_in(request) if forwarded is None else len(forwarded.raw) // 2  # pictures, too
            return self._innermost.priced(Usage(prompt, 0, sampled), *models)

        try:
            model = next(iter(models), self._name)
            request, did = await self._decisions.request(request, model, most, passed_on=forwarded is not None)
            if forwarded is not None:
                given = (request, replace(forwarded, tell=listening(forwarded.tell)))
            else:
                given = (request, *map(listening, given[1:]))
            spent = True
            found = await super().later(call, given)
            generations = found.generations if isinstance(found, Passed) else (found,)
        except AgentfwError:
            spent = bool(said)  # it was refused, or it broke off
            raise
        finally:
            self._told(request, generations, said, models, spent=spent)
        for generation in generations:
            generation.hooks = (*generation.hooks, *did)
        return found

    def _told(
        self, request: Request, generations: Sequence[Generation], said: list[str], models: list[str], *, spent: bool
    ) -> None:
        """Tell what a request took, which is estimated where nobody has counted it."""
        usage, policy = Usage.total([one.usage for one in generations]), self._innermost
        counted = bool(generations) and usage.tokens is not None
        repeated = bool(generations) and all(one.repeated for one in generations)
        unread = policy.is_program or not request.messages  # it has no tokens, or no conversation
        if repeated or not spent or (unread and not counted):
            usage, counted = Usage(0, 0, 0), True
        elif not counted:
            sampled = sum(one.length for one in generations) or _tokens("".join(said))
            usage = policy.priced(Usage(_tokens_in(request), 0, sampled), *models)
        version = next((one.version for one in generations if policy.forwards), "")
        model = next(filter(None, (version, *models)), self._name)
        told = {"request": request, "model": model, "usage": usage, "counted": counted}
        self._decisions.hooks.tell("agentfw_answered", run=self._decisions.run, **told)


def _tokens_in(request: Request) -> int:
    """About how many tokens a request has: English has four characters in one, and Chinese a single one."""
    said = (f"{one.content}{[dict(call.arguments) for call in one.calls] or ''}" for one in request.messages)
    offered = (f"{one.name}{one.description}{one.parameters}" for one in request.actions)
    return sum(map(_tokens, (*said, *offered)))


def _tokens(text: str) -> int:
    return -(-len(text.encode("utf-8", "replace")) // 4)


def decisions(episode: Episode, turn: Turn) -> list[str]:
    """What hooks decided about a turn and its calls."""
    calls = {call.id for call in turn.calls}
    found = []
    for name, data in ((event.name, event.data) for event in episode.events if event.kind == "hook"):
        if data.get("turn") == turn.index or data.get("call") in calls:
            more = "".join(f": {data[key]}" for key in ("name", "text") if key in data)
            found.append(f"[{name} {data['did']}{more}]")
    return found
