"""Estimates with their 95% intervals, as records of a result and as text such as "0.50 [0.42, 0.58]"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentfw.report.statistics import Interval, bootstrap, paired_difference

Figure = dict[str, float]
Values = Sequence[float] | Mapping[str, float]


def bounds_of(interval: Interval) -> Figure:
    """An interval of a mean as a record."""
    return {"mean": interval.estimate, "low": interval.low, "high": interval.high}


def mean_of(values: Sequence[float]) -> Figure:
    """The mean of values with its interval."""
    return bounds_of(bootstrap(values))


def difference_of(ours: Values, theirs: Values) -> Figure:
    """The mean difference between pairs, by place or by name, with its interval and the p-value of no difference."""
    found = paired_difference(ours, theirs)
    return {**bounds_of(found.difference), "p": found.p_value}


def triple_of(values: Sequence[float]) -> list[float]:
    """The mean and its bounds. A single value has no bounds, so it comes alone."""
    found = bootstrap(values)
    return [found.estimate, found.low, found.high] if len(values) > 1 else [found.estimate]


def shown(figure: Mapping[str, float] | Sequence[float], shape: str = ".3f") -> str:
    """An estimate with its interval in brackets."""
    middle, *ends = list(figure.values() if isinstance(figure, Mapping) else figure)[:3]
    text = f"{middle:{shape}}"
    return f"{text} [{', '.join(f'{end:{shape}}' for end in ends)}]" if ends else text


def beside(text: str, paper: object) -> str:
    """Our figure with the paper's in round brackets, where the paper has one."""
    return text if paper is None else f"{text} ({paper})"


def share_of(found: int, total: int) -> str:
    """A share with its 95% interval (Wilson), in words."""
    if not total:
        return "none"
    share, square = found / total, 1.96**2
    middle = (share + square / (2 * total)) / (1 + square / total)
    half = 1.96 / (1 + square / total) * (share * (1 - share) / total + square / (4 * total**2)) ** 0.5
    return f"{share:.3f} ({max(0.0, middle - half):.3f} to {min(1.0, middle + half):.3f})"
