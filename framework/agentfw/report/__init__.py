"""Charts as SVG and PNG, self-contained HTML pages, and bars for a terminal.

Importing it is cheap. Only writing a PNG imports Pillow.

    >>> page = Page("calendar, 104 rounds")
    >>> page.figure(line_chart([Series("error", [0.42, 0.31, 0.22])], title="Error by round"))
    >>> page.render().startswith("<!doctype html>")
    True
"""

from agentfw.report.bars import Bar, bar_chart
from agentfw.report.canvas import Canvas
from agentfw.report.html import Number, Page, short
from agentfw.report.lanes import Lane, Mark, Span, lanes_chart
from agentfw.report.line_chart import Reference, Series, line_chart
from agentfw.report.shapes import printable
from agentfw.report.terminal import bars, sparkline
from agentfw.report.web_page import WebPage, page_policy, page_style, web_page

__all__ = [
    "Bar",
    "Canvas",
    "Lane",
    "Mark",
    "Number",
    "Page",
    "Reference",
    "Series",
    "Span",
    "WebPage",
    "bar_chart",
    "bars",
    "lanes_chart",
    "line_chart",
    "page_policy",
    "page_style",
    "printable",
    "short",
    "sparkline",
    "web_page",
]
