"""Tells by the structure of a message which of its sentences its author wrote, in any language.

    >>> own_words("I live in Rome.\\n> I live in Oslo\\nShe said \\"I hate tea\\".")
    ['I live in Rome.']

Not the author's are code, what stands in tags or quotation marks, lines that begin with ">", lines of a log or of a
conversation, and a mail from its head on. What follows a line that ends with a colon is what that line is about, and
so is what stands below a question if it is laid out like a letter. Everything else is the author's.
"""

from __future__ import annotations

import re

LONGEST_HEARD = 4_000
"""Number of characters of a message that are read. People seldom type more, so the rest was pasted."""

_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|<(\w[\w-]*)\b[^>]*>.*?(?:</\1>|\Z)", re.DOTALL)
_FOREIGN_LINE = re.compile(
    r"^\s*(?:[>|].*|\[?\d{1,4}[-/.:]\d\d(?:[-/.:]\d+)*.*|(?:Traceback|\s{4,}at |File \").*|.*[;{}]\s*)$", re.MULTILINE
)
_QUOTED = re.compile(
    r"[\"“”„«「『][^\"“”„«»「」『』]{3,}(?:[\"“”»」』]|\Z)|»[^«»]{3,}«|‘[^’]{12,}’|(?<!\w)'[^']{20,}'(?!\w)|`[^`]+`"
)
_HEAD = re.compile(r"^(?:[^\W\d][\w -]{1,20}\s*[:：] ?.*\n){1,}[^\W\d][\w -]{1,20}\s*[:：].*\n\s*\n", re.MULTILINE)
"""The head of a mail: several lines of a name, a colon and a text, and then an empty line."""
_DIVIDER = re.compile(r"^\s*-{3,}\s*\S.*-{3,}\s*$", re.MULTILINE)
_SPOKEN = re.compile(r"^\s*[*_]*([^\W\d][\w .-]{0,20})[*_]*\s*[:：]\s*\S.*$", re.MULTILINE)
_LETTER = re.compile(r"\A[^\n.!?]{2,40}[,،，]\s*\n|\n[^\n.!?]{2,30},\s*\n[^\n.!?]{2,30}\s*\Z")
"""A text that begins with a greeting in a line of its own, or ends with a name below one."""
_END = re.compile(r"(?<=[.!?。！？؟।])[\"”»」]?(?:\s+|(?<=[。！？]))|\n+")
_ABBREVIATED = re.compile(r"\b(Dr|Mr|Mrs|Ms|Prof|St|Sr|Sra|Dra|bzw|z\.B)\. ")


def own_words(text: str) -> list[str]:
    """Return the sentences of a message that are its author's own."""
    plain = _CODE.sub("\n", text[:LONGEST_HEARD])
    for mark in (_DIVIDER, _HEAD):
        if head := mark.search(plain):
            plain = plain[: head.start()]
    speakers = [name.casefold() for name in _SPOKEN.findall(plain)]
    if len(speakers) > len(set(speakers)):  # a name speaks twice
        plain = _SPOKEN.sub("\n", plain)
    plain = _FOREIGN_LINE.sub("\n", plain)
    if about := re.search(r"[:：][ \t]*\n", plain):
        plain = plain[: about.end()]
    parts = re.split(r"\n[ \t]*\n", plain.strip("\n"))
    if len(parts) > 1 and any(_LETTER.search(part + "\n") for part in parts):
        ends = [part for part in (parts[0], parts[-1]) if re.search(r"[?？؟:：]\s*\Z", part)]
        parts = ends[:1] or [part for part in parts[:1] if not _LETTER.search(part + "\n")]
    whole = _ABBREVIATED.sub("\\1.\u00a0", "\n".join(parts))  # no end of a sentence
    marked = _QUOTED.sub(" \x00 ", whole)
    return [one.strip() for one in _END.split(marked) if re.search(r"\w", one) and "\x00" not in one]
