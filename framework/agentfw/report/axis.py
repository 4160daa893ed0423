"""What charts have in common: the title, axes with round ticks, numbers as text, and text widths.

Every finite number works, however large, small or close to its neighbour. NaN can't be placed on an axis, so callers
draw a gap.

    >>> axis = make_axis(0.03, 0.42, target=5)
    >>> axis.labels
    ['0.0', '0.1', '0.2', '0.3', '0.4', '0.5']
    >>> ellipsis("the very long name of a policy", width=90, size=12)
    'the very long…'
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

from agentfw.report.canvas import MUTED, Canvas

PADDING = 24.0
SMALL, TITLE = 11.5, 15.0  # font sizes of ticks and notes, and of the title
LARGEST = 1e300  # beyond it, differences overflow


@dataclass(frozen=True, slots=True)
class Axis:
    low: float
    high: float
    ticks: tuple[float, ...]

    @property
    def labels(self) -> list[str]:
        step = self.ticks[1] - self.ticks[0] if len(self.ticks) > 1 else 0.0
        return number_labels(self.ticks, resolution=step)

    def share(self, value: float) -> float:
        """The relative position of a value: 0 at the low end, 1 at the high end."""
        bounded = max(-LARGEST, min(LARGEST, value))
        return (bounded - self.low) / (self.high - self.low)


def begin(title: str, subtitle: str, width: float, height: float) -> tuple[Canvas, float]:
    """Start a canvas with a title and a muted subtitle. Returns the top of the remaining area."""
    canvas = Canvas(width, height, label=title)
    room = width - 2 * PADDING
    canvas.text(PADDING, PADDING + 12, ellipsis(title, width=room, size=TITLE, weight=600), size=TITLE, weight=600)
    top = PADDING + 20
    if subtitle:
        canvas.text(PADDING, top + 12, ellipsis(subtitle, width=room, size=12), size=12, colour=MUTED)
        top += 20
    return canvas, top


def make_axis(low: float, high: float, *, target: int, exact: bool = False, integral: bool = False) -> Axis:
    """An axis of both values with about `target` steps. With `exact` it ends at exactly these values, else at ticks."""
    low, high = max(-LARGEST, min(low, high)), min(LARGEST, max(low, high))
    size = max(abs(low), abs(high))
    if high - low <= max(size * 1e-9, 1e-300):  # nothing, or nothing that could be told apart
        margin = size * 0.1 if size > 1e-300 else 1.0
        low, high = low - margin, high + margin
    rough = (high - low) / max(1, target)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * 0.999)
    if integral:
        step = max(1.0, 2 * power if step == 2.5 * power and power < 10 else step)
    if exact:
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        return Axis(low, high, tuple(index * step for index in range(first, last + 1)))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(index * step for index in range(first, last + 1))
    return Axis(ticks[0], ticks[-1], ticks)


def rounded(value: float) -> str:
    """A number alone, with three decimals where they matter."""
    return f"{value:,.3f}" if abs(value) < 1000 else f"{value:,.0f}"


def number_labels(values: Sequence[float], *, resolution: float | None = None) -> list[str]:
    """The numbers as text, all with the same unit and decimals.

    `resolution` is the smallest difference to show. By default, the largest number gets three digits.
    """
    finite = [abs(value) for value in values if math.isfinite(value)]
    largest = max(finite, default=0.0)
    if largest == 0:
        return ["0" if math.isfinite(value) else "–" for value in values]
    if resolution is None:
        whole = all(value == int(value) for value in finite) and largest < 10_000
        resolution = 1.0 if whole else 10.0 ** (math.floor(math.log10(largest)) - 2)
    unit, suffix, kind = 1.0, "", "f"
    if largest < 1e-4 or largest >= 1e15:
        kind, digits = "e", math.floor(math.log10(largest)) - math.floor(math.log10(resolution or largest))
        digits = max(0, min(3, digits))
    else:
        for size, name in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k")):
            if largest >= max(size, 1e4):
                unit, suffix = size, name
                break
        # As many decimals as the resolution has: 0 for 20, 1 for 0.5, 2 for 0.25.
        scaled = [resolution / unit * 10**decimals for decimals in range(6)]
        digits = next((at for at, one in enumerate(scaled) if one >= 0.999 and abs(one - round(one)) < 1e-6 * one), 6)
    return [_signed(f"{value / unit:.{digits}{kind}}{suffix}", value) for value in values]


def _signed(text: str, value: float) -> str:
    if not math.isfinite(value):
        return "–"
    if "e" in text:
        mantissa, exponent = text.split("e")
        text = "0" if value == 0 else f"{mantissa}e{int(exponent)}"
    if value == 0:
        return text.rstrip("kMBT")
    if not any(character in "123456789" for character in text):
        text = text.lstrip("-")
    return text.replace("-", "−")


# Letter widths in ems, close to those of the widest common system font (DejaVu Sans), so that no text is cut off.
_WIDTHS = {0.28: "ijlI|'.,:;!", 0.36: ' ftr()[]{}-/\\"`·', 0.92: "mwMW%@—…"}
_EMS = {character: ems for ems, characters in _WIDTHS.items() for character in characters}


def text_width(text: str, size: float, weight: int = 400) -> float:
    """Approximate width of the text in pixels. The browser's font is unknown, so this is a careful estimate."""
    return sum(map(_ems, text)) * size * (1.14 if weight >= 600 else 1.0)


def _ems(character: str) -> float:
    if character in _EMS:
        return _EMS[character]
    if character.isascii():
        return 0.69 if character.isupper() else 0.62 if character.isdigit() else 0.59
    if unicodedata.east_asian_width(character) in "WF":
        return 1.0
    return 0.0 if unicodedata.combining(character) else 0.66


def ellipsis(text: str, *, width: float, size: float, weight: int = 400) -> str:
    """The text, shortened with "…" to fit. Empty if not even one letter fits."""
    text = " ".join(text.split())
    if text_width(text, size, weight) <= width:
        return text
    room = width - text_width("…", size, weight)
    kept = len(text)
    while kept and text_width(text[:kept], size, weight) > room:
        kept -= 1
    return text[:kept].rstrip() + "…" if text[:kept].strip() else ""
