"""The page results/papers.md of agentfw-papers, which holds what the papers claim beside what was found here."""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_FOLDER = "plugins/papers/docs/results"
_SITE = "plugins/papers/docs/"
_GITHUB = "https://github.com/agentfw/agentfw/blob/main/"
_HEAD = """# The papers' claims, and what was found here

Every table, ablation and headline figure of the four papers, one by one. *Same* means the same order or sign with
intervals apart, and never the same size; *same, by construction*, that the world or the arithmetic was made so that
hardly anything else could come out; *not told apart* that intervals overlap; *not measured* that what was run couldn't
have shown it, and says what could. Figures are explained, with their commands, on the page they link to.
"""
VERDICTS = ("same", "same, by construction", "different", "not told apart", "not measured")


def papers() -> list[dict[str, Any]]:
    """The papers with their claims."""
    found: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "papers.toml").read_text("utf-8"))["paper"]
    return found


def papers_page() -> str:
    every = papers()
    lines = [_HEAD, f"| paper | {' | '.join(VERDICTS)} |", "| --- " * (len(VERDICTS) + 1) + "|"]
    for paper in every:
        counts = Counter(claim["verdict"] for claim in paper["claim"])
        cells = [str(counts[verdict]) for verdict in VERDICTS]
        lines.append(f"| [{paper['name']}](#{paper['name'].lower().replace(' ', '-')}) | {' | '.join(cells)} |")
    for paper in every:
        lines += ["", f"## {paper['name']}", "", paper["about"], "", paper["first"].strip(), ""]
        lines += ["| where | the paper | here | verdict |", "| --- | --- | --- | --- |"]
        lines += [_row(claim) for claim in paper["claim"]]
    return "\n".join(lines) + "\n"


def _row(claim: Mapping[str, str]) -> str:
    ours = f"{claim['ours']} ([page]({_link(claim['from'])}))" if "ours" in claim else ""
    verdict = f"**{claim['verdict']}**" + (f". {claim['why']}" if "why" in claim else "")
    return f"| {claim['where']} | {claim['claim']} | {ours} | {verdict} |"


def _link(page: str) -> str:
    return os.path.relpath(page, _FOLDER) if page.startswith(_SITE) else _GITHUB + page
