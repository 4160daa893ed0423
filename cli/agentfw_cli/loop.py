"""`agentfw loop`: memory, rewards and training together, for several variants, in one table.

agentfw loop assistant --seeds 3 --folder loops/first
"""

from __future__ import annotations

from pathlib import Path

import click

from agentfw.out import Out
from agentfw_cli.common import host_options, json_option, load_host, note_problems, quiet_option

__all__ = ["loop"]

_SPEC = "loop-"
"""What the names of specs of loops begin with; the rest is an environment."""


@click.command()
@click.argument("environment", required=False)
@click.option(
    "--variant", "variants", multiple=True, metavar="NAME", help="Do this variant. Default: all. Can be repeated."
)
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Number of seeds for each variant.")
@click.option("--folder", type=click.Path(path_type=Path), help="Directory of the loop. Default: loops/ENVIRONMENT.")
@click.option("--spec", "file", type=click.Path(path_type=Path), help="Spec of the loop (TOML).")
@host_options
@quiet_option
@json_option
def loop(
    environment: str | None,
    variants: tuple[str, ...],
    seeds: int,
    folder: Path | None,
    file: Path | None,
    blocked: tuple[str, ...],
    strict: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Alternate runs and trainings in ENVIRONMENT, and compare variants on held-out users.

    Runs, in which memories learn, and trainings, in which the policy learns, take turns. Then each variant is measured
    on users that it has not seen. Repeat the command with the same folder to resume an interrupted loop, or to add
    variants and seeds.

    \b
      agentfw loop assistant
      agentfw loop assistant --variant A1 --seeds 3 --folder loops/memory
    """
    from agentfw.errors import UsageError
    from agentfw.loops import Loop, read_loop

    out = Out(json=as_json, quiet=quiet)
    host = load_host(out, blocked, strict)
    if file is None:
        specs = host.specs()
        known = [name.removeprefix(_SPEC) for name in specs if name.startswith(_SPEC)]
        if environment is None or _SPEC + environment not in specs:
            what = f'no loop ships for "{environment}"' if environment else "no environment was named"
            raise UsageError(what, fix=f"use {', '.join(known)}, or --spec FILE")
        file = Path(host.find_spec(_SPEC + environment).path)
    spec = read_loop(file).chosen(variants)
    spec.check(host)
    found = Loop.at(folder or Path("loops") / (environment or file.stem), spec, seeds)
    rows = found.do(host, lambda text, done, of: out.progress(f"{done}/{of}  {text}"))
    out.progress("")
    note_problems(host, out)
    if out.json:
        out.data({"folder": str(found.path), "rows": [row.to_record() for row in rows]})
        return
    leading = spec.figures[0]
    lines = []
    for row in rows:
        means = [f"{row.means[figure]:.3f}" if figure in row.means else "" for figure in spec.figures]
        difference = row.differences.get(leading)
        shown = "" if difference is None else f"{difference.difference.estimate:+.3f}"
        bounds = "" if difference is None else f"{difference.difference.low:+.3f} to {difference.difference.high:+.3f}"
        p_value = "" if row.corrected is None else f"{row.corrected:.3f}"
        lines.append([row.variant, row.about, *means, shown, bounds, p_value])
    heads = ["variant", "", *spec.figures, f"{leading} beside {rows[0].variant}", "95% interval", "p (Holm)"]
    out.table(heads, lines, right=tuple(range(2, len(heads))))
    out.line(f"{found.path}/   table.json   cells")
