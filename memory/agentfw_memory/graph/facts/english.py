"""The forms in which English statements say something that has one value at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentfw_memory.graph.facts.fact import Fact
from agentfw_memory.graph.facts.values import kind_of, of_category, split_words, typed_values

__all__ = ["nouns", "read_english"]

_FORM = re.compile(
    r"'s?\b|\b(?:my|our|of|at|for|new)\b|live|living|based|resid|settled|mov|relocat|work|employ|hired|join|left|quit|job|"
    r"promoted|appointed|became|report|call|name|address|\bgo(?:es)? by\b|driv|up at|years old|pay|answer|repl|respon|"
    r"write|speak|talk|continue|communicate|seat|prefer|rather|favou?r|like|love|"
    r"\b(?:is|am|are|eat\w*|go\w*|went|turn\w*|becom\w*|follow\w*)\b|@|\d",
    re.IGNORECASE,
)
"""What every form has some of. Most texts have none, and needn't be read."""
_LEAD = re.compile(
    r"^(?:(?:actually|by the way|btw|fyi|update|correction|note|heads up|just so you know|for the record|from now on|"
    r"please note(?: that)?|as of (?:today|now)|sorry|oh|well|okay|ok|hey|hi|hello|so|and|but|now|currently|these days|"
    r"nowadays|at the moment|please|remember(?: that)?|note that|be aware that|it turns out(?: that)?|"
    r"also note(?: that)?|in (?:the )?future|yes|no|yeah|it's official|good news|news|going forward|starting today|"
    r"since today)\b[\s,:;!–—-]*)+",
    re.IGNORECASE,
)
_TRAIL = re.compile(
    r"(?:[\s,]+(?:now|nowadays|these days|from now on|going forward|at the moment|right now|currently|instead|please|"
    r"in (?:the )?future|as of (?:today|now)|last (?:week|month|year)|(?:since )?(?:today|yesterday)|so should you|"
    r"again|already|this (?:week|month|year)|anymore|any more|any longer|by the way|btw|recently|for now))+$",
    re.IGNORECASE,
)
_ADVERBS = re.compile(
    r"\b(?:now|currently|just|recently|finally|officially|already|actually|usually|mostly|generally|always|still|"
    r"meanwhile|presently)\s+(?=\S)",
    re.IGNORECASE,
)
_CONTRACTED = {"'m": " am", "'ve": " have", "'d": " would", "'re": " are", "'ll": " will"}
_UNCERTAIN = re.compile(
    r"\b(?:used to|formerly|previously|if|maybe|perhaps|might|could|suppose|imagine|wish|think|guess|until|before|said|"
    r"says|told|heard|also|too|as well|another|additionally|either|other|old|former|previous|ex|next|first|last|second|"
    r"sometimes|often)\b|\?\s*$",
    re.IGNORECASE,
)
_NEGATION = re.compile(r"\b(?:(?:do|does|is|am|are|have|has)(?: not|n't)|no longer|not)\b(?! only)\s*", re.IGNORECASE)
_SPEAKER = {"i", "we", "me", "us", "user", "the user"}
_NOBODY = {
    *("he", "she", "it", "they", "you", "this", "that", "there", "who", "what", "which", "one", "someone", "everyone"),
    *(
        "somebody",
        "everybody",
        "people",
        "these",
        "those",
        "here",
        "him",
        "her",
        "them",
        "everything",
        "nothing",
        "let",
    ),
}
_CHANGED = (
    "moved|changed|rescheduled|switched|set|raised|increased|rose|risen|grew|grown|shrank|shrunk|fell|fallen|dropped|went|"
    "gone|lowered|cut|updated|postponed|shifted|pushed|renamed|extended|reduced|turned|jumped|climbed|brought|put"
)
_TO = r"(?: (?:up|down|back|forward|over|again))?(?: from .+?)? (?:up to|to|at|on|for|as) "
_VERB = re.compile(
    rf"^(?:(?:is|are)(?: going to be| named| called)? |(?:will be|became|becomes|equals|remains|reads) |[:=] ?"
    rf"|(?:(?:has|have|was|were|is|are|got)(?: been)? )?(?:{_CHANGED}){_TO}"
    r"|(?:starts?|begins?|takes? place|is held|will take place|rings?|leaves?|departs?|arrives?|opens?|closes?|ends?|"
    r"goes off|happens|costs?|amounts?|stands?|comes)(?: (?:at|on|in|from|to))? |(?=(?:has|have|counts) \d))",
    re.IGNORECASE,
)
_NAME = r"[A-Z][\w.-]*(?: (?:(?:van|von|de|da|der|del|di|la|bin|al) )*[A-Z][\w.-]*)*"
_OWNER = rf"(?:(?:my|our) (?:[\w-]+ ){{0,2}}?[\w-]+'s|my|our|[Tt]he user's|(?:[Tt]he )?[\w-]+'s|{_NAME}'s?)"
_POSSESSIVE = re.compile(rf"(?<![\w'])(?P<owner>{_OWNER}) (?P<rest>.+)$", re.IGNORECASE)
_OF = re.compile(r"^[Tt]he (?P<what>[\w-]+(?: [\w-]+){0,2}) (?:of|at|for) (?P<owner>.+)$")
_END_OF_NOUN = re.compile(
    rf"\s(?=(?:is|are|was|were|has|have|will|became|becomes|equals|remains|reads|got|goes|to|at|on|under|as|it's|{_CHANGED}|"
    r"starts?|begins?|takes?|rings?|leaves?|departs?|arrives?|opens?|closes?|ends?|happens|costs?|amounts?|stands?|comes|"
    r"counts)\b)|\s*[:=,]|\s(?=\d)"
)
_FILLERS = frozenset(
    split_words(
        """
    new current latest present actual own name date time day daily monthly regular main
    """
    )
)
_STOP = frozenset(split_words("a an and the of for at in on my our their his her this to with"))
_FAMILIES = {
    word: family
    for family, some in {
        "phone": "phone telephone mobile cell cellphone smartphone",
        "email": "email mail e-mail",
        "home": "home city town residence hometown",
        "employer": "employer company firm workplace",
        "job": "title role position profession occupation job",
        "manager": "manager boss supervisor",
        "colour": "colour color",
        "favourite": "favourite favorite preferred choice",
        "partner": "husband wife spouse partner",
    }.items()
    for word in some.split()
}
_OF_ONE_KIND = frozenset(split_words("phone email home employer job manager diet"))
"""Aspects whose values are all of one kind, so that the kind needn't tell them apart."""
_MANY = frozenset(
    split_words(
        """
    friend sister brother son daughter kid child children colleague cousin aunt uncle hobby hobbie pet plan
    problem idea question opinion thing goal photo picture trip weekend way part reason concern issue advice
    life work
    """
    )
)
"""What one may have several of, so that a second one doesn't replace the first."""
_STATED = frozenset(
    split_words(
        """
    colour favourite size name diet language status password code seat address drink food meal dish music genre
    mode format font style tone unit currency tariff budget theme shift weight height age job
    """
    )
)
"""Aspects whose value may be any word. Of others, such as a dog that is hungry, a word is a passing state."""


def read_english(text: str, speaker: str) -> Fact | None:
    """Return what an English statement says, or None."""
    if not _FORM.search(text):
        return None
    plain = _plain(text)
    if not plain or re.search(r"[.!?;]\s", re.sub(r"\b(?:[Dd]r|[Mm]rs?|[Mm]s|[Pp]rof|[Ss]t)\. ", "", plain)):
        return None
    negated = bool(_NEGATION.search(plain))
    if negated:
        plain = _NEGATION.sub("", plain, count=1)
    if _UNCERTAIN.search(_without_names(plain)):
        return None
    found = _by_verb(plain, speaker) or _by_noun(plain, speaker) or _by_kind(plain, speaker)
    if found is None:
        return None
    subject, aspect, value = found
    return Fact(subject, aspect, value, negated)


def _plain(text: str) -> str:
    """Return a statement without what begins and ends it, adverbs and contractions."""
    for short, full in _CONTRACTED.items():
        text = re.sub(rf"\b(I|[Ww]e|[Tt]hey|[Yy]ou){short}\b", rf"\1{full}", text)
    text = text.rstrip(" .!")
    before = ""
    while text != before:
        before, text = text, _TRAIL.sub("", _LEAD.sub("", text)).rstrip(" .!,")
    return _ADVERBS.sub("", text)


def _without_names(text: str) -> str:
    return re.sub(r"(?<!^)\b[A-Z]\w+", "", text)


# Statements with a verb of their own: "Lena lives in Berlin"

_BE = r"(?:(?:am|is|are|has|have|was|were|been|would|will be|be)\s+)*"
_A = r"(?:an?\s+|the\s+)?"
_PLACE = r"(?P<v>[A-Z\u00c0-\uffff][^,;]{1,40})"
_VERBS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (aspect, re.compile(rf"^(?P<s>.{{1,60}}?)\s+{_BE}{form}$"))
    for aspect, form in (
        ("home", rf"(?:lives?|living|based|resides?|residing|settled) in {_PLACE}"),
        ("home", rf"(?:moved|moving|relocated|relocating)(?: over| back| house)?(?: from .+?)? to {_PLACE}"),
        ("employer", rf"(?:works?|working|employed|hired|started(?: working)?|a new job) (?:at|for|with|by) {_PLACE}"),
        ("employer", rf"(?:joined|(?:left|quit)(?: [A-Z]\w+)? for) {_PLACE}"),
        ("job", rf"(?:works? as|working as|employed as|promoted to|appointed) {_A}(?P<v>[\w -]{{3,40}})"),
        (
            "job",
            r"became (?P<v>(?:head|chief|director|lead|leader|manager|president|[a-z]+ (?:of|manager|lead)) ?.*)",
        ),
        ("manager", r"reports? to (?P<v>[A-Z].*)"),
        ("name", r"(?:called|named) (?P<v>[A-Z][\w -]*)"),
        ("name", r"(?:goes|go) by (?:the name (?:of )?)?(?P<v>[A-Z][\w -]*)"),
        ("name", r"(?:like|love|prefer|want)s? to be called (?P<v>[A-Z][\w -]*)"),
        ("car", rf"(?:drives?|driving) {_A}(?P<v>[A-Z][\w -]*)"),
        ("alarm (time)", r"(?:wakes?|waking|gets?|getting) up at (?P<v>.*\d.*)"),
        ("age", r"(?:turned )?(?P<v>\d{1,3}) years old"),
        ("rent (money)", r"(?:pays?|paying) (?P<v>\S*\d.*?) (?:of|in|as|for) (?:the )?rent"),
    )
)
_IMPERATIVES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("name", re.compile(r"^(?:you (?:can|may|should) )?(?:.* and )?(?:call|name) me (?P<v>[A-Z][\w -]*)$", re.I)),
    ("name", re.compile(r"(?:^|, |my \w+ )(?:call|address) me (?:as )?(?P<v>[A-Z][\w-]*)", re.I)),
    (
        "language of answers",
        re.compile(
            r"\b(?:answer|answers|reply|replies|respond|responses|write|speak|talk|continue|communicate)\b.*?"
            r"\b(?:in )?(?P<v>[A-Za-z]+)(?: only)?$",
            re.I,
        ),
    ),
    (
        "favourite seat",
        re.compile(
            r"\b(?:book|get|give|make|want|prefer|like|need|take|have|choose)\b.*?\b(?P<v>aisle|window) seats?\b", re.I
        ),
    ),
)
_PREFERS = (
    re.compile(r"^(?P<s>.{1,60}?) (?:prefers?|would rather (?:have|drink|take|get|eat)|favou?rs?) (?P<v>.+)$", re.I),
    re.compile(r"^(?P<s>.{1,60}?) (?:likes?|loves?) (?P<v>.+?) (?:the )?(?:best|most|better)$", re.I),
)
_DIET = re.compile(
    rf"^(?P<s>.{{1,60}}?) {_BE}(?:gone|went|turned|became|become|eats?|eating|going|follows?)?\s*{_A}"
    r"(?P<v>[\w-]+)(?: diet)?$"
)


def _by_verb(text: str, speaker: str) -> tuple[str, str, str] | None:
    for aspect, pattern in _IMPERATIVES:
        match = pattern.search(text)
        if match and (aspect != "language of answers" or of_category(match["v"]) == "language"):
            return speaker, aspect, match["v"]
    for aspect, pattern in _VERBS:
        if (match := pattern.match(text)) and (subject := _subject(match["s"], speaker)):
            return subject, aspect, match["v"]
    if (
        (match := _DIET.match(text))
        and of_category(match["v"]) == "diet"
        and (subject := _subject(match["s"], speaker))
    ):
        return subject, "diet", match["v"]
    for pattern in _PREFERS:
        if (match := pattern.match(text)) and (subject := _subject(match["s"], speaker)):
            category = of_category(match["v"])
            short = len(match["v"].split()) <= 4
            return (subject, f"favourite {category}", match["v"]) if category and short else None
    return None


# Statements about what somebody has: "Lena's phone number is 5550100"

_MIDDLE = re.compile(
    rf"^(?:[\w' -]{{0,30}} )?(?:{_CHANGED}|change|move|raise|lower|update|switch|use|reschedule|postpone) "
    rf"(?P<owner>{_OWNER}) (?P<what>[\w-]+(?: [\w-]+){{0,3}}?){_TO}(?P<v>.+)$",
    re.IGNORECASE,
)
_OWN = re.compile(
    rf"^(?P<owner>{_NAME}) (?:has |have )?(?:{_CHANGED}) (?:their|his|her) "
    rf"(?P<what>[\w-]+(?: [\w-]+){{0,3}}?){_TO}(?P<v>.+)$"
)
_AS = re.compile(
    rf"\b(?:use|take|see|seeing|have|choose|chose|picked|to|want) (?P<v>[^,]{{2,40}}?) as (?P<owner>{_OWNER}) "
    r"(?P<what>[\w-]+(?: [\w-]+){0,2})$",
    re.IGNORECASE,
)
_GOT = re.compile(
    r"^(?P<owner>.{1,60}?) (?:have |has )?(?:got|has|have|found|hired) a new (?P<what>[\w-]+(?: [\w-]+)?)"
    r"(?:[,:]| is| named| called)+ (?:it's |it is |named |called )?(?P<v>.+)$"
)
_NAMED = re.compile(rf"(?:at|to|see|seeing) (?P<v>[A-Z][^,]{{2,40}}), (?P<owner>{_OWNER}) (?P<what>[\w-]+)$")
_PEOPLE = re.compile(r"(?P<v>\d+) (?:people|members|employees|colleagues|persons|engineers)\b")


def _by_noun(text: str, speaker: str) -> tuple[str, str, str] | None:
    if match := _OWN.match(text):
        return _stated(match["owner"] + "'s", match["what"], match["v"], speaker)
    for pattern in (_MIDDLE, _AS, _NAMED):
        if match := pattern.search(text):
            return _stated(match["owner"], match["what"], match["v"], speaker)
    if match := _GOT.match(text):
        return _stated(match["owner"] + "'s", match["what"], match["v"], speaker)
    if (match := _OF.match(text)) and (split := _split(match["owner"])):
        what, (owner, value) = match["what"], split
        if inner := _POSSESSIVE.match(owner):  # "the size of Lena's team", "the code of my door"
            return _stated(inner["owner"], f"{what} of {inner['rest']}", value, speaker)
        return _stated(f"{owner}'s", what, value, speaker)
    if (match := _POSSESSIVE.match(text)) and (split := _split(match["rest"])):
        return _stated(match["owner"], *split, speaker)
    return None


def _split(text: str) -> tuple[str, str] | None:
    """Split "phone number is now 5550100" into the noun and the value."""
    end = _END_OF_NOUN.search(text)
    if end is None:
        return None
    rest = text[end.start() :].lstrip(" ,")
    if people := _PEOPLE.search(rest):
        return text[: end.start()] + " size", people["v"]
    verb = _VERB.match(rest)
    return (text[: end.start()], rest[verb.end() :]) if verb and rest[verb.end() :] else None


def _stated(owner: str, what: str, value: str, speaker: str) -> tuple[str, str, str] | None:
    """Return the fact that somebody's so-and-so is a value, if it is of a kind of which there is one at a time."""
    value = re.split(r";|, (?!\d{4})| (?:because|but|which|so that|and (?:I|he|she|they|we))\b", value)[0].strip(" .")
    value = re.sub(r"^(?:at|on|in|to|under|an?|the|it's|being) ", "", value)
    subject, said, kind = _owner(owner, speaker), nouns(what), kind_of(value)
    if subject is None or not value or not 0 < len(said) <= 4 or len(value.split()) > 6:
        return None
    head = nouns(re.split(r" (?:for|of|at|in|with) ", what)[0])[-1:]
    if not head or head[0] in _MANY:
        return None
    if kind == "text" and not (value[0].isupper() or not value[0].isascii() or _STATED.intersection(said)):
        return None
    aspect = _aspect(said, kind, value)
    return (subject, aspect, value) if aspect else None


def nouns(text: str) -> list[str]:
    """Return the nouns of a phrase in the singular, those that mean the same by one name."""
    plain = (word for word in re.findall(r"[\w-]+", text.casefold()) if word not in _STOP)
    singular = (word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] not in "su" else word for word in plain)
    return [_FAMILIES.get(word, word) for word in singular]


def _aspect(said: Sequence[str], kind: str, value: str) -> str:
    named = {noun for noun in said if noun not in _FILLERS} or set(said)
    if kind in ("phone", "email"):
        named = (named - {"number", "address", "contact", "phone", "email"}) | {kind}
    if "favourite" in named and (category := of_category(value)):
        named = {"favourite", category}
    if named == {"job"} and kind != "text":
        return ""
    told = {"code": "number", "clock": "time", "date": "day"}.get(kind, kind)
    whole = " ".join(sorted(named, key=lambda noun: (noun != "favourite", noun)))
    return whole if named & _OF_ONE_KIND or kind == "text" else f"{whole} ({told})"


# Statements that name one person and a value of a kind of which a person has one: "You can reach Lena on 030 5550100"

_CONTACT = re.compile(r"\b(?:call|phone|ring|reach|reached|text|dial|number|write|mail|mails|email|contact)\b", re.I)


def _by_kind(text: str, speaker: str) -> tuple[str, str, str] | None:
    found = [(kind, value) for kind, value in typed_values(text) if kind in ("phone", "email")]
    if len(found) != 1 or not _CONTACT.search(text):
        return None
    named = {
        _owner(name, speaker) for name in re.findall(rf"\b(?:{_NAME})", re.sub(r"^\w+", "", text)) if len(name) > 1
    }
    relative = re.search(r"\b(?:my|our) ([a-z]+) (?:at|on|under)\b", text)
    mine = f"{speaker}'s {relative[1]}" if relative else speaker
    named |= {mine} if re.search(r"\b(?:me|I|my|our)\b", text) else set()
    named -= {None}
    first = re.match(rf"({_NAME}) (?:reads|answers|uses|can|is)\b", text)
    if first and (own := _subject(first[1], speaker)):
        named.add(own)
    return (next(iter(named)) or "", *found[0]) if len(named) == 1 else None


# Whom a statement is about


def _subject(text: str, speaker: str) -> str | None:
    plain = text.casefold().strip(" ,")
    if plain in _SPEAKER:
        return speaker
    if plain in _NOBODY or not re.fullmatch(r"[\w'. -]+", plain) or len(plain.split()) > 4:
        return None
    if plain.split()[0] in _NOBODY or plain.split()[0] in _SPEAKER:
        return None
    if match := re.match(r"(?:my|our) (.+)", plain):
        return f"{speaker}'s {match[1]}"
    return plain.removeprefix("the ")


def _owner(text: str, speaker: str) -> str | None:
    plain = text.casefold().strip()
    if plain in ("my", "our"):
        return speaker
    return _subject(plain.removesuffix("'s").removesuffix("'"), speaker)
