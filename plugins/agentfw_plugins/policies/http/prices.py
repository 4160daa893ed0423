"""What the answers of a server cost: by the user's own prices, or by the list of the package `genai-prices`.

A model of one's own at an address that the list doesn't know has no price: it may be called like one that somebody else
sells. The list has what is charged for cached tokens, for writing them, and for long prompts. Generated tokens include
those of thoughts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from agentfw.episode import Usage
from agentfw.errors import SettingsError
from agentfw.policy import Price

_MILLION = Usage(prompt=1_000_000, cached=0, sampled=0), Usage(prompt=0, cached=0, sampled=1_000_000)
_CACHED = Usage(prompt=1_000_000, cached=1_000_000, sampled=0)


class Prices:
    def __init__(self, price: Price | None, own: Mapping[str, Price], provider: str, url: str) -> None:
        """`price` holds for all models, and those of `own` for theirs. `provider` is whose list holds, by its name."""
        self._price, self._own = price, dict(own)
        self._provider, self._url = provider or None, url
        if provider:
            try:
                from genai_prices.data_snapshot import get_snapshot

                found = get_snapshot().find_provider(None, provider, None)
            except (ImportError, LookupError):
                found = None
            if found is None:
                fix = 'use one such as openai, or: pip install ".[web]"'
                raise SettingsError(f'genai-prices has no list of "{provider}"', fix=fix)

    def cost(self, usage: Usage, *models: str) -> float | None:
        """What an answer cost, of the first of these models that has a price. None if it isn't known."""
        for model in models:
            if (price := self._own.get(model)) is not None:
                return price.cost(usage)
        if self._price is not None:
            return self._price.cost(usage)
        if usage.prompt is None or usage.sampled is None:
            return None
        found = (_listed(model, self._provider, self._url) for model in models if model)
        return next((cost(usage) for cost in found if cost is not None), None)

    def of(self, model: str) -> Price | None:
        """The usual price of a model, which may be another for long prompts. None if it isn't known."""
        if (own := self._own.get(model, self._price)) is not None:
            return own
        prompt, sampled, cached = (self.cost(usage, model) for usage in (*_MILLION, _CACHED))
        return None if prompt is None or sampled is None else Price(prompt=prompt, cached=cached, sampled=sampled)


@lru_cache(maxsize=256)
def _listed(model: str, provider: str | None, url: str) -> Callable[[Usage], float] | None:
    """What computes the cost of an answer of this model. None if the list doesn't have it."""
    if not provider and urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1"):
        return None  # without reading the list
    try:
        from genai_prices import Usage as Counted
        from genai_prices import calc_price
    except ImportError:
        return None
    whose: dict[str, Any] = {"provider_id": provider} if provider else {"provider_api_url": url}

    def cost(usage: Usage) -> float:
        counts = {
            "input_tokens": usage.prompt,
            "output_tokens": usage.sampled,
            "cache_read_tokens": usage.cached or None,
            "cache_write_tokens": usage.written or None,
            "cache_write_1h_tokens": usage.written_long or None,
        }
        return float(calc_price(Counted(**counts), model, **whose).total_price)

    try:
        cost(Usage(prompt=1, sampled=1))
    except LookupError:
        return None
    return cost
