"""Tells what a user wrote themselves from what they pasted, quoted or forwarded.

    >>> own_words('Translate this: "I live in Rome."')
    ['Translate this:']
    >>> own_words("I live in Rome. Summarise this mail:\\n\\nHi all,\\nI prefer tea.")
    ['I live in Rome.', 'Summarise this mail:']

Code, quotations, lines that begin with ">" and what follows the head of a mail are not the user's. After a request such
as "summarise this", everything up to the end of the message belongs to what it is about, and so does what is below a
line that asks how "this" sounds. A sentence that says what
somebody else said isn't the user's either. Where that can't be told, the rules would rather leave out a sentence.
"""

from __future__ import annotations

import re

from .layout import BEHIND_A_COLON, OF_A_TEXT, typed

__all__ = ["LONGEST_HEARD", "own_words"]

LONGEST_HEARD = 4_000
"""Number of characters of a message that are read. People seldom type more, so the rest was pasted."""

EARLY = 30
"""Number of characters in which a request to do something with a text begins, politeness included."""

_FENCED = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_QUOTED = re.compile(
    r"[\"“„«「『][^\"“”„«»「」『』]{3,}(?:[\"“”»」』]|\Z)|»[^«»]{3,}«|‘[^’]{12,}’|(?<!\w)'[^']{20,}'(?!\w)|`[^`]+`"
)
_QUOTED_LINE = re.compile(r"^\s*(?:>|\|).*$", re.MULTILINE)
_MAIL = re.compile(
    r"^\s*(?:-{3,}.*(?:forwarded|original|weitergeleitet|transféré|reenviado|inoltrato|пересыла).*|"
    r"(?:from|von|de|da|от|من|发件人|差出人|보낸 사람|प्रेषक|subject|betreff|objet|asunto|oggetto|assunto|"
    r"тема)\s*:.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_ABOUT_TEXT = re.compile(
    r"\b(?:summari[sz]e|summary of|shorten|translate|proofread|rewrite|rephrase|paraphrase|correct|edit|"
    r"improve|review|"
    r"reply to|respond to|what does this mean|explain (?:this|the following)|tl;?dr|(?:here(?:'s| is)|"
    r"this is|see) (?:the|an?|my)?"
    r" ?(?:output|result|log|mail|email|message|text|letter|article|transcript)|the following|song goes|lyrics|"
    r"fass\w*|zusammenfass\w*|übersetz\w*|kürz\w*|korrigier\w*|resum\w*|résum\w*|tradu\w*|corrig\w*|"
    r"correggi\w*|corrij\w*|"
    r"riassum\w*|сократи\w*|перевед\w*|исправ\w*|резюмир\w*)\b|"
    r"لخص|ترجم|صحح|总结|翻译|改正|要約|翻訳|直して|요약|번역|고쳐|सार|अनुवाद|ठीक करो",
    re.IGNORECASE,
)
_TREATED = (
    r"make|fix|polish|check|read|look at|help|word|phrase|put|turn|tidy|clean|change|simplify|explain|"
    r"feedback on|think (?:of|about)|"
    r"mach|prüf\w*|lies|findest du|klingt|rends|vérifie|penses|suena|haz|revisa|rendi|controlla|pensi|сделай|проверь"
)
_POINTS_AT = r"this|these|that|it|below|das|dies\w*|ça|ceci|cela|esto|questo|isto|это"
_ABOUT_WHAT_FOLLOWS = re.compile(
    rf"^[^\n]*(?:\b(?:{_TREATED})\b[^\n.!]*\b(?:{_POINTS_AT})\b|\b(?:{_POINTS_AT})\b[^\n.!]*\b(?:sounds?|reads?|looks?|means?|"
    r"rude|polite|clear|correct|right|ok(?:ay)?|klingt|verständlich)\b)[^\n.!]*[?:.!]*[ \t]*(?=\n)",
    re.IGNORECASE | re.MULTILINE,
)
"""A line that asks for something to be done with the text below it, or judged of it: "How does this sound?"."""
_SAYS = re.compile(
    r"\b(?:said|says|told|asked|wrote|writes|goes|sagte?|schrieb|meinte|a dit|disait|dijo|dice|ha detto|"
    r"disse|сказал\w*|"
    r"написал\w*)\b[^.!?]{0,40}[:,]?\s*\Z|قال(?:ت)?\b|说：|と言い|라고 말|ने कहा",
    re.IGNORECASE,
)
_END = re.compile(r"(?<=[.!?。！？؟।])[\"”»」]?(?:\s+|(?<=[。！？]))|\n+")
_ASIDE = re.compile(
    r"(?:,| -|;)\s*(?:and |so |but )?(?=(?:what|where|when|how|which|who|why|can|could|is|are|do|does|should|would|any|"
    r"will)\b[^,;?]*\?\W*$)|(?<=\w)\s+(?=(?-i:What|Where|How|Which|Who|Why|Could|Can you)\b[^?]*\?\W*$)",
    re.IGNORECASE,
)
"""Where a question begins that follows on a statement: "I'm in Cork today, what's on?"."""


def own_words(text: str) -> list[str]:
    """Return the sentences of a message that are its author's own."""
    plain = _QUOTED_LINE.sub("\n", _FENCED.sub("\n", text[:LONGEST_HEARD]))
    if head := _MAIL.search(plain):
        plain = plain[: head.start()]
    plain = typed(plain)
    if request := _ABOUT_WHAT_FOLLOWS.search(plain):
        plain = plain[: request.end()]
    found = []
    for sentence in _sentences(_QUOTED.sub(" \x00 ", plain)):
        own = sentence.partition("\x00")[0].strip()
        quotes = "\x00" in sentence
        if (quotes and _SAYS.search(sentence.replace("\x00", ""))) or OF_A_TEXT.search(sentence):
            continue
        about = _ABOUT_TEXT.search(sentence) or BEHIND_A_COLON.search(own)
        # "I review books" is no request. One is at the beginning, or followed by what it is about.
        if about and not own.startswith("I ") and (about.start() < EARLY or quotes or re.search("[:：]", own)):
            # What follows is what the request is about, and begins after its colon.
            found.append(own.partition(":")[0].partition("：")[0] + ":" if ":" in own or "：" in own else own)
            break
        if own and not quotes:
            found.append(own)
    return [own for own in found if re.search(r"\w", own)]


def _sentences(text: str) -> list[str]:
    whole = re.sub(r"\b(Dr|Mr|Mrs|Ms|Prof|St)\. ", "\\1.\u00a0", text)  # no end of a sentence
    pieces = [part for piece in _END.split(whole) for part in _ASIDE.split(piece)]
    return [piece.strip() for piece in pieces if piece.strip()]
