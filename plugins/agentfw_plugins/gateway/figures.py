"""What a gateway counts, for Prometheus. No label names a user, a key or a session.

figures = Figures()
figures.request("chat/completions", 200, seconds=0.2)
figures.text()      # b"# HELP agentfw_requests_total ..."
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agentfw.errors import AgentfwError

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
    from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
except ImportError as error:
    from agentfw.errors import MissingExtraError

    raise MissingExtraError("the gateway", "web", module=error.name or "") from None

if TYPE_CHECKING:
    from .work import Work

__all__ = ["CONTENT_TYPE", "Figures"]

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class Figures:
    """The figures of one gateway."""

    def __init__(self) -> None:
        self._all = CollectorRegistry()

        def counter(name: str, words: str, *labels: str) -> Counter:
            return Counter(f"agentfw_{name}", words, labels, registry=self._all)

        def histogram(name: str, words: str, *labels: str) -> Histogram:
            return Histogram(f"agentfw_{name}_seconds", words, labels, buckets=_SECONDS, registry=self._all)

        self._requests = counter(
            "requests", "Requests, by what was asked and the status of the answer", "what", "status"
        )
        self._until = histogram("request", "Time until an answer or a stream begins, by what was asked", "what")
        self._answers = counter("answers", "Answers of the policy, by how they ended", "end")
        self._answer = histogram("answer", "Time that a complete answer of the policy takes, with its wait in the line")
        self._first = histogram("first_piece", "Time until the first piece of a streamed answer")
        self._tokens = counter("tokens", "Tokens of complete answers, where the policy tells their number", "kind")

    def show(self, name: str, words: str, value: Callable[[], float]) -> None:
        """Show a value as it is whenever somebody looks."""
        Gauge(f"agentfw_{name}", words, registry=self._all).set_function(value)

    def request(self, what: str, status: int, seconds: float) -> None:
        self._requests.labels(what, str(status)).inc()
        self._until.labels(what).observe(seconds)

    def answer(self, work: Work) -> None:
        """Count an answer that is over."""
        if work.seconds_to_first is not None:
            self._first.observe(work.seconds_to_first)
        if work.hung_up or work.task.cancelled():
            self._answers.labels("hung_up").inc()
        elif (failure := work.task.exception()) is not None:
            self._answers.labels("failed" if isinstance(failure, AgentfwError) else "refused").inc()
        else:
            usage, count = work.task.result().turn.usage, work.task.result().turn.count
            self._answers.labels("complete").inc()
            self._answer.observe(work.seconds)
            self._tokens.labels("prompt").inc(usage.prompt or 0)
            self._tokens.labels("cached").inc(usage.cached or 0)
            self._tokens.labels("sampled").inc(count if usage.sampled is None else usage.sampled)

    def text(self) -> bytes:
        """All figures in Prometheus' format."""
        return generate_latest(self._all)
