"""What of a copy can be used, in counts."""

from __future__ import annotations

from collections import Counter
from typing import Any

from .copy_of_etapp import load_copy


def check(folder: str) -> dict[str, Any]:
    """Counts of a copy, and its gaps. Raises SettingsError where nothing can be played."""
    copy = load_copy(folder)
    rows: Counter[str] = Counter()
    for person in copy.persons.values():
        rows.update({table: len(read.rows) for table, read in person.tables.items()})
    rows.update({table: len(read.rows) for table, read in copy.shared.items()})
    rows.update({name: len(value) if isinstance(value, dict) else 0 for name, value in copy.documents.items()})
    return {
        "counts": {
            "persons": len(copy.persons),
            "instructions": len(copy.instructions),
            "tasks": len(copy.persons) * len(copy.instructions),
            "tools": len(copy.schemas),
            "sections": len({schema.section for schema in copy.schemas.values()}),
            "gaps": len(copy.gaps),
        },
        "rows": dict(rows),
        "gaps": [str(gap) for gap in copy.gaps],
    }
