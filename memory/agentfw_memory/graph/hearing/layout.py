"""Finds what the author of a message typed, and what they pasted, by its layout.

    >>> typed("[09:14] Nadia: I moved to Ostrava\\n[09:15] Rob: oh no\\n\\nWhat do I answer?")
    'What do I answer?'

Chats, minutes, code and signatures are recognised by their lines. In a letter, only what stands before or after it may
be the author's, and so it is if the first or the last part of the message asks something about a text.
"""

from __future__ import annotations

import re

__all__ = ["typed"]

_I = r"\b(?:i|i'm|im|i'd|i've|my|mine|we|our|ich|mein\w*|wir|unser\w*|je|j'\w+|mon|ma|nous|notre|yo|mi|io|mio|mia)\b"
_SPOKEN = re.compile(
    r"^[ \t]*(?:[-*•][ \t]*)?(?:\[[ x]?\][ \t]*)?(?:TOP \d+:|\d+\.)?[ \t]*(?:<[\w ]{1,25}>|"
    r"[@P]?[^\W_][\w.' →]{0,25}(?:[ \t]*(?:\([^)\n]*\))?[ \t]*:|[ \t]+(?:->?|-+)(?=[ \t])))[ \t]*\S.*$",
    re.MULTILINE,
)
"""A line that begins with who says it."""
_TIMED = re.compile(r"^[ \t]*\[?(?:\d{1,2}[./-]\d{1,2}[./-]\d{2,4},?[ \t]+)?\d{1,2}[:.]\d\d\b", re.MULTILINE)
_CODE = re.compile(
    r"^[ \t]*(?:#(?!\d)|//|/\*|--[ \t]|<[!/]?\w|<!--|;)|[;{}][ \t]*$|^(?: {4}|\t)\S|[ \t]#[ \t]|"
    r"^\w+(?:,\w[\w ]*){2,}$|^Traceback\b|\{\"",
    re.MULTILINE,
)
_LETTER = re.compile(
    r"^[ \t]*(?:(?:hi|hello|hey|dear|hallo|liebe[rs]?|bonjour|chère?|hola|ciao)\b[^.!?\n]{0,30}[,!][ \t]*$|all,$|"
    r"(?:(?:(?:best|kind|warm)[ \t]+)?(?:regards|wishes)|(?:yours[ \t]+)?sincerely|cheers|gruß|herzlich|"
    r"(?:mit )?(?:freundlich|viel|lieb)\w+ grüßen?|cordialement|saludos)\b[^.?\n]{0,25}$|"
    r"(?:-{2,3}|—|_{3,})[ \t]*$|\[\.\.\.\])",
    re.IGNORECASE | re.MULTILINE,
)
"""A greeting, an end, or what stands above a signature."""
_ABOUT_A_TEXT = re.compile(
    r"\b(?:e?-?mails?|messages?|letter|signature|footer|bio|profile|paragraph|review|notes|minutes|records?|"
    r"transcript|chat|thread|comments?|docstring|readme|prompt|headline|grammar|spelling|commas|prose|tone|"
    r"answer|reply|linter|yaml|json|csv|texts?)\b|"
    r"\b(?:this|that|these|those|he|she|they|them|below|above|following)\b[^.!\n]*\?|"
    r"\b(?:re(?:write|word|phrase)|summari\w+|translate)\b|\b(?:make|turn|put|cut|format|convert|improve|polish|shorten|group|sort|remove|fix|explain|classify|check)\b.{0,20}"
    r"\b(?:it|them|this|that|the|by)\b",
    re.IGNORECASE,
)


def typed(text: str) -> str:
    """Return the parts of a message that its author typed, as far as the layout tells."""
    parts = re.split(r"\n[ \t]*\n", text.strip("\n"))
    if len(parts) == 1:
        parts = text.strip("\n").split("\n")
    if len(parts) == 1:
        return text
    spoken = len(_SPOKEN.findall(text)) > 1 and re.search(_I, "\n".join(_SPOKEN.findall(text)), re.IGNORECASE)
    marks = [_TIMED, _CODE, *([_SPOKEN] if spoken else [])]
    marked = [any(mark.search(part) for mark in marks) for part in parts]
    letter = [bool(_LETTER.search(part)) for part in parts]
    ends = [place for place in (0, len(parts) - 1) if not marked[place] and not letter[place]]
    # What stands behind a colon is the text that a request is about: "Fix my grammar: he go home".
    asks = [place for place in ends if _ABOUT_A_TEXT.search(parts[place]) and not re.search(r":[ \t]*\S", parts[place])]
    if asks or any(letter):
        return "\n".join(parts[place] for place in asks[:1] or [one for one in ends if "?" in parts[one]])
    return "\n\n".join(part for part, is_pasted in zip(parts, marked, strict=True) if not is_pasted)
