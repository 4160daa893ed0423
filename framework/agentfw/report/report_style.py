"""The style sheet and the script of a report page, and the colours of all pages.

The Content-Security-Policy forbids style attributes and inline handlers, so no page may use them. Colours come from the
palette, so that light and dark mode match.

    >>> " style=" in SCRIPT, "prefers-color-scheme:dark" in colours()
    (False, True)
"""

from __future__ import annotations

from agentfw.report.palette import AXIS, DARK, FAINT, GRID, INK, MUTED, SERIES, SURFACE
from agentfw.report.vector import FONTS

__all__ = ["SCRIPT", "STYLE", "colours"]

_NAMES = {"ink": INK, "muted": MUTED, "faint": FAINT, "axis": AXIS, "grid": GRID, "card": SURFACE, "accent": SERIES[0]}


def _variables(*, dark: bool) -> str:
    back = "#0f1317" if dark else "#f5f6f8"
    named = "".join(f"--{name}:{DARK[colour] if dark else colour};" for name, colour in _NAMES.items())
    return f":root{{--back:{back};{named}}}"


def _recoloured() -> str:
    """Dark-mode rules for charts. Charts set colours in `fill` and `stroke`, which a style sheet overrides."""
    return "\n".join(
        f'svg [{attribute}="{light}"]{{{attribute}:{dark}}}'
        for light, dark in DARK.items()
        for attribute in ("fill", "stroke")
    )


def colours() -> str:
    """The colours of pages and charts as a style sheet: variables such as `--ink`, and what changes in dark mode."""
    return f"""
{_variables(dark=False)}
@media screen and (prefers-color-scheme:dark){{
{_variables(dark=True)}
{_recoloured()}
}}
"""


_SHADOW = "color-mix(in srgb,var(--ink) 22%,transparent),transparent"
# A shadow at each edge beyond which there is more. It stays at the edge, and a cover over it scrolls with the content.
_SCROLL_SHADOWS = (
    "background:linear-gradient(90deg,var(--card) 50%,transparent) 0/32px 100% no-repeat local,"
    "linear-gradient(270deg,var(--card) 50%,transparent) 100%/32px 100% no-repeat local,"
    f"linear-gradient(90deg,{_SHADOW}) 0/12px 100% no-repeat,"
    f"linear-gradient(270deg,{_SHADOW}) 100%/12px 100% no-repeat,var(--card)"
)

STYLE = f"""
{_variables(dark=False)}
*{{box-sizing:border-box}}
html{{-webkit-text-size-adjust:100%}}
body{{margin:0;background:var(--back);color:var(--ink);font:16px/1.55 {FONTS}}}
main{{max-width:928px;margin:0 auto;padding:56px 24px 96px}}
h1{{margin:0;font-size:30px;line-height:1.2;letter-spacing:-.015em;font-weight:650;overflow-wrap:anywhere}}
h2{{margin:56px 0 8px;font-size:20px;line-height:1.3;letter-spacing:-.01em;font-weight:650}}
p{{margin:0 0 16px;max-width:68ch}}
h2+p,.subtitle{{color:var(--muted)}}
.subtitle{{margin:6px 0 0}}
dl,dd,figure{{margin:0}}
dt{{color:var(--muted);font-size:13px}}
.facts{{display:flex;flex-wrap:wrap;gap:12px 36px;margin:24px 0;padding:16px 0}}
.facts{{border:solid var(--grid);border-width:1px 0}}
.facts dd{{font-size:15px;overflow-wrap:anywhere}}
.highlights{{display:grid;grid-template-columns:repeat(auto-fit,minmax(max(140px,26%),1fr));gap:16px;margin:24px 0}}
.highlights div,figure,details{{background:var(--card);border:1px solid var(--grid);border-radius:12px}}
.highlights div{{padding:18px 24px 16px}}
.highlights b{{display:block;font-size:30px;line-height:1.25;font-weight:600;letter-spacing:-.02em}}
.highlights small{{display:block;line-height:1.4;color:var(--muted);font-size:13px}}
figure{{margin:16px 0 24px;overflow:hidden}}
svg{{display:block;width:100%;height:auto;font-variant-numeric:tabular-nums}}
svg svg{{display:inline}}
figcaption{{color:var(--muted);font-size:14px;line-height:1.5;padding:14px 24px 16px;border-top:1px solid var(--grid)}}
.scroll{{overflow-x:auto;{_SCROLL_SHADOWS}}}
.narrow{{display:none}}
table{{border-collapse:collapse;width:100%;font-size:15px;font-variant-numeric:tabular-nums}}
th,td{{padding:10px 11px;text-align:left;vertical-align:baseline}}
th:first-child,td:first-child{{padding-left:24px}}
th:last-child,td:last-child{{padding-right:24px}}
td{{border-top:1px solid var(--grid)}}
th{{font-size:13px;font-weight:500;color:var(--muted);white-space:nowrap}}
.number{{text-align:right;white-space:nowrap}}
th button{{all:unset;cursor:pointer}}
th button:hover{{color:var(--ink)}}
th button::after{{content:"";display:inline-block;width:.9em;text-align:right;color:var(--accent)}}
th.number button::after{{float:left;text-align:left}}
[aria-sort=ascending] button::after{{content:"↑"}}
[aria-sort=descending] button::after{{content:"↓"}}
tbody tr:hover td{{background:color-mix(in srgb,var(--accent) 5%,transparent)}}
:focus-visible{{outline:2px solid var(--accent);outline-offset:2px;border-radius:4px}}
details{{margin:8px 0}}
summary{{display:flex;gap:12px;align-items:baseline;padding:12px 24px;cursor:pointer;list-style:none;font-size:15px}}
summary::-webkit-details-marker{{display:none}}
summary::before{{content:"›";color:var(--faint);font-size:18px;line-height:1;transition:transform .12s}}
[open]>summary::before{{transform:rotate(90deg)}}
summary span{{flex:1;overflow-wrap:anywhere}}
summary small{{color:var(--muted);font-size:13px;font-variant-numeric:tabular-nums}}
pre{{margin:0;padding:16px 24px;border-top:1px solid var(--grid);overflow:auto;max-height:70vh}}
pre{{font:13px/1.6 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;white-space:pre-wrap}}
pre{{overflow-wrap:anywhere;tab-size:4}}
@media (max-width:620px){{
main{{padding:32px 16px 64px}}
h1{{font-size:25px}}
.highlights div{{padding:14px 14px 12px}}
.highlights b{{font-size:24px}}
h2{{margin-top:40px}}
.facts{{gap:10px 28px}}
.scroll>svg{{min-width:640px}}
.wide{{display:none}}
.narrow{{display:block}}
th,td{{padding:9px 10px}}
th:first-child,td:first-child{{padding-left:16px}}
th:last-child,td:last-child{{padding-right:16px}}
summary,pre,figcaption{{padding-left:16px;padding-right:16px}}
}}
@media screen and (prefers-color-scheme:dark){{
{_variables(dark=True)}
{_recoloured()}
}}
@media print{{
body{{background:none;font-size:11pt}}
main{{max-width:none;padding:0}}
h2{{break-after:avoid}}
figure,tr,.highlights,summary{{break-inside:avoid}}
pre{{max-height:none;overflow:visible}}
.scroll{{overflow:visible}}
th button::after{{content:none!important}}
}}
"""

SCRIPT = """
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.querySelectorAll("th")], body = table.tBodies[0];
  heads.forEach((head, column) => head.querySelector("button")?.addEventListener("click", () => {
    const down = head.getAttribute("aria-sort") === "ascending" ||
      (!head.hasAttribute("aria-sort") && head.classList.contains("number"));
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = row => {
      const value = row.cells[column].dataset.value;
      return value === undefined ? null : Number(value);
    };
    const order = (a, b) => {
      const x = key(a), y = key(b);
      const missing = value => value === null || Number.isNaN(value);
      if (!missing(x) && !missing(y)) return down ? y - x : x - y;
      if (missing(x) !== missing(y) && head.classList.contains("number")) return missing(x) ? 1 : -1;
      const words = row => row.cells[column].textContent;
      return words(a).localeCompare(words(b), undefined, {numeric: true}) * (down ? -1 : 1);
    };
    body.append(...[...body.rows].sort(order));
  }));
}
"""
