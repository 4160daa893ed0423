"""Line charts and timelines as SVG, self-contained HTML pages, and bars for a terminal.

>>> page = Page("calendar, 104 rounds")
>>> page.figure(line_chart([Series("error", [0.42, 0.31, 0.22])], title="Error by round"))
>>> page.render().startswith("<!doctype html>")
True
"""

from agentfw.report.canvas import Canvas, printable
from agentfw.report.html import Number, Page, page_policy, page_style, short, web_page
from agentfw.report.lanes import Lane, Mark, Span, lanes_chart
from agentfw.report.line_chart import Series, bars, line_chart, sparkline

__all__ = [
    "Canvas",
    "Lane",
    "Mark",
    "Number",
    "Page",
    "Series",
    "Span",
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
