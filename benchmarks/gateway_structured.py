"""Client libraries that ask for an answer of a shape, through the gateway.

    python benchmarks/gateway_structured.py

Each client asks `--asks` times, of a server behind the gateway that follows schemas, and of a small random model in
this process, which has learned nothing: what it says has the shape because nothing else can be drawn. Required: every
answer is parsed by the client. A client that isn't installed is told as such.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from agentfw_benchmarks import TESTS, Options, make_model, print_markdown, tell

sys.path.insert(0, str(TESTS))


def tried(ask: Any, url: str, model: str) -> str:
    try:
        return "no answer" if ask(url, model) is None else "parsed"
    except ImportError as error:
        return f"not installed: {error.name}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0][:100]}"


def show(found: dict[str, Any]) -> None:
    print_markdown(["client", "a server", "a model in this process"], [[name, *row] for name, row in found.items()])


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    from plugins.gateway.conftest import served  # type: ignore[import-not-found]
    from plugins.gateway.structured_clients import CLIENTS  # type: ignore[import-not-found]
    from plugins.gateway.test_structured import answer  # type: ignore[import-not-found]
    from plugins.gateway.upstream import passing  # type: ignore[import-not-found]

    options = Options(__doc__, asks=(20, "how often each client asks")).parse_args(arguments)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        model = make_model(folder / "model")
        settings = [f"policy.model={model}", "policy.device=cpu", "policy.context=2000"]
        gateways = {
            "served": stack.enter_context(passing(folder / "passing", answer)),
            "transformers": stack.enter_context(served(folder / "own", policy="transformers", assignments=settings)),
        }
        for place, (client, ask) in enumerate(CLIENTS.items()):
            counts = [
                Counter(tried(ask, gateway.session(f"c{place}"), asked) for _ in range(options.asks))
                for asked, gateway in gateways.items()
            ]
            found[client] = [
                ", ".join(f"{count} of {options.asks} {what}" for what, count in each.most_common()) for each in counts
            ]
    return tell(found, options.json, show)


if __name__ == "__main__":
    main()
