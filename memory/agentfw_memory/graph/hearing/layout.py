"""Tells by the layout of a message what its author typed and what they pasted.

    >>> typed("[09:14] Nadia: I moved to Ostrava\\n[09:15] Rob: oh no\\n\\nWhat do I answer?")
    'What do I answer?'

Chats, minutes, tables, pages, code and signatures show by their lines. Of a message that asks something about a text at
its beginning or end, only that is the author's, and what they ask for themselves at the other end. So it is with a
letter. The words of such requests are in about_a_text.json: English, German, French, Spanish, Italian, Portuguese,
Dutch, Polish and Russian.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files

from .worth import is_request

__all__ = ["BEHIND_A_COLON", "OF_A_TEXT", "typed"]

_WORDS: dict[str, list[str]] = json.loads(
    files("agentfw_memory.graph.hearing").joinpath("about_a_text.json").read_text("utf-8")
)


def _any(name: str) -> str:
    return "|".join(_WORDS[name])


_I = r"\b(?:i|i'm|im|i'd|i've|my|mine|we|our|ich|mein\w*|wir|unser\w*|je|j'\w+|mon|ma|nous|notre|yo|mi|io|mio|mia)\b"
_SPOKEN = re.compile(
    r"^[ \t]*(?:[-*•][ \t]*)?(?:\[[ x]?\][ \t]*)?(?:TOP \d+:|\d+\.)?[ \t]*(?:<[\w ]{1,25}>|"
    r"[@P]?[^\W_][\w.' →]{0,25}(?:[ \t]*(?:\([^)\n]*\))?[ \t]*:|[ \t]+(?:->?|-+|[–—])(?=[ \t])))[ \t]*\S.*$",
    re.MULTILINE,
)
"""A line that begins with who says it."""
_SPOKEN_TOGETHER = re.compile(rf"(?:\b[A-Z][\w.]+: {_I}[^\n]*){{2}}")
"""A line with what several people say."""
_SIGNED = re.compile(r"^.*\S[ \t]*\([^\W\d_][\w. ]{1,20}\)[.!]?[ \t]*$", re.MULTILINE)
"""A line that ends with who said it."""
_TIMED = re.compile(
    r"^[ \t]*\[?(?:\d{1,2}[./-]\d{1,2}[./-]\d{2,4},?[ \t]+)?\d{1,2}[:.]\d\d\b|^WEBVTT\b|-->", re.MULTILINE
)
_CODE = re.compile(
    r"^[ \t]*(?:#(?!\d)|//|/\*|--[ \t]|<[!/]?\w|<!--|;|''|\{)|[;{}][ \t]*$|^(?: {4}|\t)\S|[ \t]#[ \t]|</\w+>|"
    r"^\w+(?:,\w[\w ]*){2,}$|^[^;\n]+;[^;\s][^\n]*$|\S\t\S|^.{0,30}\S {4,}\S|^Traceback\b|\{\"",
    re.MULTILINE,
)
"""Code, and rows of tables."""
_POSTED = re.compile(
    r"^[ \t]*(?:[★☆]{2,}|@\w+\b.*[:#]|[A-ZÄÖÜÀ-Þ][A-ZÄÖÜÀ-Þ' ]{3,30}$|\*\w+:\*)|"
    r"^.{1,40} · |\b\d+ (?:likes?|comments?|gefällt)\b",
    re.MULTILINE,
)
"""Stars, handles, headings in capitals, and what stands around a post."""
_GREETING = (
    r"(?:hi|hello|hey|dear|hallo|liebe[rs]?|sehr geehrte\w*|guten (?:tag|morgen|abend)|bonjour|chère?|madame|hola|"
    r"estimad\w+|buongiorno|gentile|ciao|olá|prezad\w+|beste|szanown\w+|dzień dobry|здравствуйте|добрый день|"
    r"уважаем\w+)\b[^.!?\n]{0,40}[,!]"
)
_LETTER = re.compile(
    rf"^[ \t]*(?:{_GREETING}[ \t]*$|all,$|to whom it may concern|"
    r"(?:(?:(?:best|kind|warm)[ \t]+)?(?:regards|wishes)|warmly|(?:yours[ \t]+)?sincerely|cheers|gruß|herzlich|groeten|"
    r"(?:mit )?(?:freundlich|viel|lieb)\w+ grüßen?|cordialement|saludos|saluti|cumprimentos|z poważaniem|"
    r"с уважением)\b[^.?\n]{0,25}$|"
    r"(?:-{2,3}|—|_{3,})[ \t]*$|\[\.\.\.\]|(?:(?:re|fwd?|aw|wg|tr)\s*:\s*)+\S)",
    re.IGNORECASE | re.MULTILINE,
)
"""A greeting, an end, what stands above a signature, or a subject."""
_GREETED = re.compile(rf"^[ \t]*{_GREETING}", re.IGNORECASE)
_GREETS_THE_AGENT = re.compile(
    r"\W*(?:hi|hello|hey|hallo|bonjour|hola|ciao|olá|привет)(?: there)?[,.!]?[ \t]*\n", re.IGNORECASE
)
_OF_TEXTS = re.compile(rf"\b(?:{_any('text')})\b", re.IGNORECASE)
_TREATS = re.compile(rf"\b(?:{_any('treatment')})\b|(?:{_any('received')})", re.IGNORECASE)
_POINTS_AT = re.compile(rf"\b(?:{_any('pointed_at')})\b", re.IGNORECASE)
_OWN_QUESTION = re.compile(
    r"\b(?:should|can|could|do|does|must|shall|would|am|may|are) (?:i|we|my)\b[^.\n]*\?|"
    r"\b(?:soll|kann|muss|darf)\w* (?:ich|wir)\b[^.\n]*\?|\b(?:dois|puis|peux|faut)\b[^.\n]*\?|"
    r"\b(?:debo|puedo|devo|posso|moet ik|kan ik|мне)\b[^.\n]*\?",
    re.IGNORECASE,
)
_PLEASE = re.compile(r"\b(?:please|pls|bitte|proszę)\b", re.IGNORECASE)
_HEADING = re.compile(r"\W*\w+(?:[^\w\n.?!:]+\w+){0,4}[^\w.?!:]*")
BEHIND_A_COLON = re.compile(rf"^(?!\W*{_I})[^:：\n]{{0,60}}\b(?:{_any('treatment')})\b[^:：\n]*[:：]", re.IGNORECASE)
"""A request with the text that it is about: "Complete the sentence: I prefer mountains"."""
OF_A_TEXT = re.compile(
    rf"\b(?:{_any('text')}|intro|slogan)\b[^.!?:,]{{0,20}}\b(?:says|reads|goes|states|lautet|dit|dice|diz|zegt|brzmi|гласит)\b",
    re.IGNORECASE,
)
"""What a text says: "Her profile says I build bridges"."""
_SENTENCE = re.compile(r"(?<=[.!?。])\s+|\n+")


def typed(text: str) -> str:
    """Return the parts of a message that its author typed, as far as the layout tells."""
    parts = re.split(r"\n[ \t]*\n", text.strip("\n"))
    if len(parts) == 1:
        parts = text.strip("\n").split("\n")
    if len(parts) == 1:
        return text
    spoken = len(_SPOKEN.findall(text)) > 1 and re.search(_I, "\n".join(_SPOKEN.findall(text)), re.IGNORECASE)
    signed = len(_SIGNED.findall(text)) > 1
    marks = [_TIMED, _CODE, _POSTED, _SPOKEN_TOGETHER, *([_SPOKEN] if spoken else []), *([_SIGNED] if signed else [])]
    marked = [any(mark.search(part) for mark in marks) for part in parts]
    letter = [bool(_LETTER.search(part) or (place and _GREETED.search(part))) for place, part in enumerate(parts)]
    if _GREETS_THE_AGENT.match(text):
        letter[0] = letter[-1] = False
    ends = [place for place in (0, len(parts) - 1) if not marked[place] and not letter[place]]
    asks = [place for place in ends if _asks_about_a_text(parts[place])]
    if asks or any(letter):
        above = {place: _above(part) if place == 0 else part for place, part in enumerate(parts)}
        asks = [place for place in asks if not _HEADING.fullmatch(above[place])][:1]
        own = [place for place in ends if place in asks or _OWN_QUESTION.search(above[place])]
        return "\n".join(above[place] for place in own or [one for one in ends if "?" in above[one]])
    return "\n\n".join(part for part, is_pasted in zip(parts, marked, strict=True) if not is_pasted)


def _asks_about_a_text(part: str) -> bool:
    """Whether one of its sentences is about a text that stands elsewhere, and not about what its author writes."""
    return any(_is_about_a_text(one) for one in _SENTENCE.split(part.strip()))


def _is_about_a_text(sentence: str) -> bool:
    # What stands behind a colon is the text that a request is about: "Fix my grammar: he go home".
    if re.search(r":[ \t]*\S", sentence):
        return False
    if _TREATS.search(sentence):
        return True
    points = bool(_POINTS_AT.search(sentence))
    if not _OF_TEXTS.search(sentence):
        return points and sentence.endswith("?")
    asks = is_request(sentence) or sentence.endswith(":") or bool(_PLEASE.search(sentence))
    return points or asks or bool(_HEADING.fullmatch(sentence))


def _above(part: str) -> str:
    """What is above a text, without the lines of the text that follow on it directly."""
    lines = part.split("\n")
    last = next((place for place, line in enumerate(lines) if _asks_about_a_text(line)), len(lines) - 1)
    return "\n".join(lines[: last + 1])
