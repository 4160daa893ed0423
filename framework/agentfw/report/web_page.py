"""What all pages of agentfw have in common: the head, the style, and a content security policy.

A page has one style sheet and one script, and its policy allows these two alone, by their hashes. So nothing that was
recorded can run in it, and nothing is loaded from elsewhere. Inline styles are forbidden too: the page's style sheet
replaces the colours of charts in dark mode by their `fill` and `stroke`.

    >>> page = web_page("<title>Tea</title>\\n<style>p{margin:0}</style>\\n<body><script>let tea;</script></body>")
    >>> page.html.startswith("<!doctype html>"), "p{margin:0}" in page.html
    (True, True)
    >>> page.policy.startswith("default-src 'none'; script-src 'sha256-")
    True
"""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from typing import NamedTuple

from agentfw.report.canvas import AXIS, DARK, FAINT, FONTS, GRID, INK, MUTED, SERIES, SURFACE

__all__ = ["WebPage", "page_policy", "page_style", "web_page"]

_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
"""
_SHARED = f"""
:root{{--good:#137a4b;--bad:#b3261e;--mine:#ebf2fb;--note:#fdf3d8;--badback:#fbe9e7}}
@media screen and (prefers-color-scheme:dark){{
:root{{--good:#4fc98d;--bad:#ff8a80;--mine:#1c2b42;--note:#33290f;--badback:#3a1f1d}}
}}
*{{box-sizing:border-box}}
[hidden]{{display:none!important}}
html{{-webkit-text-size-adjust:100%;color-scheme:light dark}}
body{{margin:0;background:var(--back);color:var(--ink);font:15px/1.5 {FONTS}}}
a{{color:var(--accent);text-decoration:none}}
a:hover{{text-decoration:underline;text-underline-offset:3px}}
small,.quiet{{color:var(--muted);font-size:13px;font-weight:400}}
:focus-visible{{outline:2px solid var(--accent);outline-offset:1px;border-radius:4px}}
"""
_NAMES = {"ink": INK, "muted": MUTED, "faint": FAINT, "axis": AXIS, "grid": GRID, "card": SURFACE, "accent": SERIES[0]}


class WebPage(NamedTuple):
    """A page, and its content security policy, which it also has in its head."""

    html: str
    policy: str


def page_style() -> str:
    """The style that all pages begin with. A page's own style sheet comes after it."""
    light = "".join(f"--{name}:{colour};" for name, colour in _NAMES.items())
    dark = "".join(f"--{name}:{DARK[colour]};" for name, colour in _NAMES.items())
    charts = "\n".join(
        f'svg [{attribute}="{colour}"]{{{attribute}:{replaced}}}'
        for colour, replaced in DARK.items()
        for attribute in ("fill", "stroke")
    )
    return f"""
:root{{--back:#f5f6f8;{light}}}
@media screen and (prefers-color-scheme:dark){{
:root{{--back:#0f1317;{dark}}}
{charts}
}}
{_SHARED}"""


def page_policy(style: str, script: str, *, forms: str = "'none'") -> str:
    """The policy of a page with this style sheet and this script, which may ask its own server."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        f"connect-src 'self'; base-uri 'none'; form-action {forms}"
    )


def web_page(source: str) -> WebPage:
    """A page of its title, its own style sheet, its body and its script, each of them once."""
    style = page_style() + _inside(source, "style")
    policy = page_policy(style, _inside(source, "script"))
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    whole = source.replace(f"<style>{_inside(source, 'style')}</style>", f"<style>{style}</style>\n</head>", 1)
    return WebPage(f"{_HEAD}{meta}{whole}\n</html>\n", policy)


def _inside(source: str, element: str) -> str:
    found = re.search(rf"<{element}>(.*?)</{element}>", source, re.DOTALL)
    assert found is not None
    return found[1]


def _hash(content: str) -> str:
    return f"sha256-{b64encode(sha256(content.encode()).digest()).decode()}"
