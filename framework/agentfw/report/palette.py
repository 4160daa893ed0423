"""The colours of all pictures and pages, in light and dark mode.

Charts are drawn in light colours only. The page's style sheet replaces them in the SVG attributes according to `DARK`,
so one drawing serves the PNG, the light page and the dark page. A colour that isn't in `DARK` stays unchanged.

The series colours are based on those of Okabe and Ito, darkened until they are readable as text on a card (contrast 4.5
to 1). Their orange and sky blue can't be darkened without being confused with vermillion and blue by colour-blind
readers, so two other colours, found by search, replace them.

    >>> series_colour(0), series_colour(len(SERIES)) == series_colour(0)
    ('#2468a8', True)
"""

from __future__ import annotations

__all__ = ["AXIS", "DARK", "FAINT", "GRID", "INK", "MUTED", "SERIES", "SURFACE", "series_colour"]

INK = "#1f2a36"
MUTED = "#626e7b"
FAINT = "#98a3af"
AXIS = "#c3cad2"
GRID = "#e9ecf0"
SURFACE = "#ffffff"

SERIES = (
    "#2468a8",  # blue
    "#c4531d",  # vermillion
    "#12836a",  # bluish green
    "#a4528a",  # reddish purple
    "#5c4414",  # umber, for orange
    "#7b3fd0",  # violet, for sky blue
)

DARK = {
    INK: "#e7ebf0",
    MUTED: "#9ba7b4",
    FAINT: "#6f7b88",
    AXIS: "#46515c",
    GRID: "#282f37",
    SURFACE: "#171c22",
    "#2468a8": "#6cb0ec",
    "#c4531d": "#f08c58",
    "#12836a": "#43c9a2",
    "#a4528a": "#e08fc4",
    "#5c4414": "#eadb8a",
    "#7b3fd0": "#8f7bf0",
}


def series_colour(index: int) -> str:
    """The colour of series number `index`. After the last colour they repeat."""
    return SERIES[index % len(SERIES)]
