"""The colours of every picture and page, light and dark.

A chart is drawn in light colours only. Dark is a translation (`DARK`) that the page's style sheet
applies to the SVG attributes, so one scene serves the PNG, the light page and the dark page. A colour that isn't in
`DARK` stays as it is.

The series colours begin with Okabe and Ito's, deepened until they can be read as text on the card (4.5 to 1). Their
orange and sky blue can't be deepened without turning into the vermillion and the blue of a colour-blind reader, so two
others, found by search, stand in for them.

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
    """The colour of the series number `index`; after the last one they begin again."""
    return SERIES[index % len(SERIES)]
