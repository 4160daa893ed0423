"""The README's screenshot: `agentfw view` with an answer, what was remembered for it, and because of what.

    python docs_making/view_picture.py docs/pictures/remembered.png

Two short conversations are recorded first, with fixed answers. The picture is taken with Chromium.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import tempfile
from pathlib import Path

from agentfw import Generation, Message, Policy, Request
from agentfw.runs import LiveRun, parse_spec
from agentfw.testing import fresh_host
from agentfw_plugins.serving import serving
from agentfw_plugins.view.app import Viewer
from agentfw_plugins.view.index import Index

TALKS = (
    ("introduction", "I'm vegetarian, and I live in Lyon.", "Good to know. I'll keep it in mind."),
    ("dinner", "Where should I have dinner tonight?", "In Lyon, try a vegetarian bouchon near the Croix-Rousse."),
)
SIZE = (1000, 800)


class Saying(Policy):
    """Gives one answer."""

    def __init__(self, text: str) -> None:
        self.text = text

    async def generate(self, request: Request) -> Generation:
        return Generation(self.text, count=len(self.text.split()), version="model-1")


async def record(runs: Path) -> str:
    """Record the conversations. Returns the name of the run."""
    spec = {
        "environment": "sessions",
        "policy": {"name": "scripted", "settings": {"replies": [""]}},
        "memories": ["skillgraph"],
        "rewards": ["feedback"],
    }
    async with LiveRun.create(parse_spec(spec), fresh_host(builtins=True), runs) as live:
        for name, said, answer in TALKS:
            session = live.begin(name, user="ada")
            await session.answer([Message("user", said)], user="ada", policy=Saying(answer))
            await live.keep(session)
            await live.hearing.finish("ada")
            await live.conclude(session)
        return live.folder.id


async def picture(file: Path, browser: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        run = await record(runs)
        index = Index(runs)
        index.refresh()
        async with serving(Viewer(index, fresh_host(builtins=True)).app, "127.0.0.1", 0) as url:
            words = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
            words += [f"--window-size={SIZE[0]},{SIZE[1]}", f"--screenshot={file.absolute()}"]
            words += ["--virtual-time-budget=3000", f"{url}/episode/{run}/00001-0"]
            await asyncio.to_thread(subprocess.run, words, check=True, capture_output=True, timeout=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="a .png")
    parser.add_argument("--browser", default=shutil.which("chromium") or "google-chrome", help="Chromium or Chrome.")
    options = parser.parse_args()
    asyncio.run(picture(options.file, options.browser))


if __name__ == "__main__":
    main()
