"""How `agentfw memory` prints what a skill graph answers, for people. With `--json`, the answer is printed as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agentfw.printing.out import counted as amount

from ..command_options import one_line

if TYPE_CHECKING:
    from agentfw.printing.out import Out
    from agentfw_memory import Hit, Learned, Skill, SkillHistory, Stats


def said(words: str) -> Callable[..., None]:
    """Return what prints these words, with parts of the answer and parameters in braces."""

    def show(out: Out, answer: Mapping[str, Any], **given: Any) -> None:
        out.line(words.format_map({**given, **answer}))

    return show


def exported(out: Out, answer: Mapping[str, Any], **given: Any) -> None:
    written = amount(answer["rows"], "row") if "rows" in answer else amount(answer["skills"], "reviewed skill")
    out.line(f"{written} written to {answer['path']}")


def counted(done: str) -> Callable[..., None]:
    """Return what prints how much of what was deleted."""

    def show(out: Out, receipt: Mapping[str, Any], **given: Any) -> None:
        rows = [[name, f"{count:,}"] for name, count in receipt.items() if name != "user"]
        out.table([done, "rows"], rows, right=(1,))

    return show


def stats(out: Out, found: Stats) -> None:
    skills, shared = found.nodes.get("skill", 0), found.shared
    told = f"{shared:,} shared, {skills - shared:,} private; {found.past_versions:,} past versions"
    others = sorted((kind, count) for kind, count in found.nodes.items() if kind != "skill")
    rows = [
        ["skills", f"{skills:,}", told],
        *([f"{kind}s" if kind[-1] != "y" else f"{kind[:-1]}ies", f"{count:,}", ""] for kind, count in others),
        *([kind, f"{count:,}", "edges"] for kind, count in sorted(found.edges.items())),
        ["communities", " ".join(f"{count:,}" for count in found.communities) or "none yet", "from the widest level"],
        ["on disk", f"{found.bytes_on_disk / 1e6:,.1f} MB", f"tenant {found.tenant}"],
        ["embedder", found.embedder or "none", f"version {found.embedder_version}, {found.dimensions} dimensions"],
    ]
    out.table(["what", "how much", ""], rows, right=(1,))


def hits(out: Out, found: Sequence[Hit], *, why: bool, **given: Any) -> None:
    if why and found:
        # What each term adds to the scores, without those that add nothing to any of them.
        terms = [name for name in found[0].why.points if any(round(hit.why.points[name], 3) for hit in found)]
        rows = []
        for hit in found:
            adds = [f"{hit.why.points[name]:+.3f}" if round(hit.why.points[name], 3) else "" for name in terms]
            rows.append([hit.skill.id, one_line(hit.skill.text), f"{hit.score:.3f}", *adds, hit.why.path])
        out.table(["skill", "text", "score", *terms, "found"], rows, right=range(2, 3 + len(terms)))
        return
    for hit in found:
        out.line(f"{hit.score:6.3f}  {out.style(hit.skill.id, 'bold')}  {one_line(hit.skill.text)}")
        about = [f"{hit.skill.visibility}, {hit.skill.owner}'s"]
        about += [f"tools {', '.join(hit.skill.tools)}"] if hit.skill.tools else []
        about += [f"for {', '.join(hit.skill.scenarios)}"] if hit.skill.scenarios else []
        about += [f"{amount(hit.skill.uses, 'use')}, mean reward {hit.skill.utility:.2f}"] if hit.skill.uses else []
        out.line(out.style(f"        {'; '.join(about)}", "dim"))


def skill(out: Out, one: Skill, **given: Any) -> None:
    out.line(f"{one.id}  {one_line(one.text)}")


def skills(out: Out, found: Sequence[Skill], **given: Any) -> None:
    for one in found:
        out.line(f"{out.style(one.id, 'bold')}  {_day(one.valid_from)}  {one_line(one.text)}")


def versions(out: Out, history: SkillHistory, **given: Any) -> None:
    rows = []
    for one in history.versions:
        span = _day(one.valid_from), "" if one.valid_to is None else _day(one.valid_to)
        rows.append([str(one.number), *span, one.visibility, one_line(one.text)])
    out.table(["version", "from", "to", "visible", "text"], rows)


def learned(out: Out, answers: Sequence[Learned], **given: Any) -> None:
    rows = []
    for one in answers:
        new = "known already" if one.known_already else " ".join(f"+{skill}" for skill in one.added) or "nothing new"
        changed = " ".join(one.merged), " ".join(one.retired), f"{len(one.complements)} complements"
        rows.append([one.trajectory, new, *changed])
    out.table(["trajectory", "learned", "merged into", "retired", "edges"], rows)


def prepared(out: Out, found: Mapping[str, Any]) -> None:
    communities = " ".join(f"{one:,}" for one in found["communities"]) or "none"
    out.line(f"{found['skills']:,} skills prepared, communities {communities}")


def _day(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).date().isoformat()
