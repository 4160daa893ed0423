"""Writes tasks as rows for other trainers: the columns that RLHF data sets have."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from inspect import cleandoc
from pathlib import Path
from typing import Any

from agentfw.errors import MissingExtraError
from agentfw.runs import write_whole

from .copy_of_etapp import Copy, Instruction, request_text
from .environment import Etapp


def row_of(copy: Copy, name: str, instruction: Instruction, split: str) -> dict[str, Any]:
    """One task as a row."""
    person = copy.persons[name]
    points = {"personal": list(instruction.personal), "proactive": list(instruction.proactive)}
    schemas = [copy.schemas[tool] for tool in instruction.tools]
    tools = [{"name": one.name, "description": one.description, "parameters": dict(one.parameters)} for one in schemas]
    return {
        "data_source": "etapp-hard",
        "prompt": [
            {"role": "system", "content": cleandoc(Etapp.__doc__ or "")},
            {"role": "user", "content": request_text(instruction, person)},
        ],
        "ability": "personal assistant",
        # As text: the schemas of tools differ, and a Parquet column has one type.
        "reward_model": {"style": "keypoints", "ground_truth": json.dumps(points, ensure_ascii=False)},
        "extra_info": {
            "split": split,
            "user": name,
            "instruction": instruction.number,
            "tools": json.dumps(tools, ensure_ascii=False),
        },
    }


def write_rows(
    copy: Copy, folder: Path, tasks: Mapping[str, Sequence[tuple[str, Instruction]]], form: str
) -> dict[str, int]:
    """Write a file for each split, as JSON lines or Parquet. Returns the number of rows of each."""
    for split, pairs in tasks.items():
        rows = [row_of(copy, name, instruction, split) for name, instruction in pairs]
        if form == "parquet":
            _write_parquet(folder / f"{split}.parquet", rows)
        else:
            write_whole(folder / f"{split}.jsonl", "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return {split: len(pairs) for split, pairs in tasks.items()}


def _write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("Parquet files", "parquet", module="pyarrow") from None
    partial = path.with_suffix(".part")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), partial)
    partial.replace(path)
