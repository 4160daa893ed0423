"""Finds domains: those that ship, by name, and those of the user, by path.

A domain is a folder with a `domain.yaml`, see `agentfw_papers.timing.domain`. No code knows a domain by name.

    >>> load_domain(domain_names()[0]).catalog.name in domain_names()
    True
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from agentfw.errors import UnknownNameError
from agentfw_papers.timing import Domain
from agentfw_papers.timing import load_domain as read_domain
from agentfw_plugins.rewards import translated_errors

_SHIPPED = Path(__file__).parent / "domains"


def domain_names() -> tuple[str, ...]:
    """The domains that ship."""
    return tuple(sorted(file.parent.name for file in _SHIPPED.glob("*/domain.yaml")))


def domain_file(domain: str) -> Path:
    """The YAML file of a domain, given by its name, its folder or the file itself."""
    if domain in domain_names():
        return _SHIPPED / domain / "domain.yaml"
    path = Path(domain)
    if path.is_dir() and (path / "domain.yaml").exists():
        return path / "domain.yaml"
    if path.is_file():
        return path
    raise UnknownNameError(
        "domain",
        domain,
        domain_names(),
        fix=f"use one of {', '.join(domain_names())}, or the path of a folder with a domain.yaml",
    )


@lru_cache(maxsize=16)
def _read(path: Path, changed: int) -> Domain:
    with translated_errors():
        return read_domain(path)


def load_domain(domain: str) -> Domain:
    """The domain of this name, in this folder, or in this file."""
    path = domain_file(domain)
    return _read(path, path.stat().st_mtime_ns)
