"""The forms in which English statements say something that has one value at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentfw_memory.graph.facts.fact import Fact
from agentfw_memory.graph.facts.values import kind_of, of_category, typed_values
from agentfw_memory.graph.facts.words import WORDS, words_of

__all__ = ["nouns", "read_english"]

_FORM = re.compile(
    r"'s?\b|\b(?:my|our|of|at|for|new)\b|live|living|based|resid|settled|mov|relocat|work|employ|hired|join|left|quit|job|"
    r"promoted|appointed|became|bought|switch|made|\bha(?:s|ve)\b|\bown|drink|drunk|order|manag|lead|supervis|spend|cost|keeps?|gets?|"
    r"refer|takes?|took|chang|uses?|using|aisle|window|report|call|name|address|\bgo(?:es)? by\b|driv|up at|years old|"
    r"pay|answer|repl|respon|write|speak|talk|continue|communicate|seat|prefer|rather|favou?r|like|love|"
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
    r"in (?:the )?future|as of (?:today|now)|last (?:week|month|year)|(?:since )?(?:today|yesterday)|"
    r"since (?:last |early |late )?\w+|so should you|"
    r"again|already|this (?:week|month|year)|anymore|any more|any longer|by the way|btw|recently|for now))+$",
    re.IGNORECASE,
)
_ADVERBS = re.compile(
    r"\b(?:now|currently|just|recently|finally|officially|already|actually|usually|mostly|generally|always|still|"
    r"meanwhile|presently)\s+(?=\S)",
    re.IGNORECASE,
)
_LASTING = re.compile(
    r"\b(?:now|nowadays|these days|from now on|currently|at the moment|usually|mostly|generally|always|"
    r"going forward)\b",
    re.IGNORECASE,
)
_UNCERTAIN = re.compile(
    r"\b(?:used to|formerly|previously|if|maybe|perhaps|might|could|suppose|imagine|wish|think|guess|until|before|said|"
    r"says|told|heard|also|too|as well|another|additionally|either|other|old|former|previous|ex|next|first|last|second|"
    r"sometimes|often)\b|\?\s*$",
    re.IGNORECASE,
)
_NEGATION = re.compile(r"\b(?:(?:do|does|is|am|are|have|has)(?: not|n't)|no longer|not)\b(?! only)\s*", re.IGNORECASE)
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
_OF_BARE = re.compile(r"^(?!(?:My|Our|I|You|We) )(?P<what>[A-Z][a-z]+) (?:of|for) (?P<owner>.+)$")
_OF = re.compile(r"^[Tt]he (?P<what>[\w-]+(?: [\w-]+){0,2}) (?:of|at|for|to) (?P<owner>.+)$")
_END_OF_NOUN = re.compile(
    rf"\s(?=(?:is|are|was|were|has|have|will|became|becomes|equals|remains|reads|got|goes|to|at|on|under|as|it's|{_CHANGED}|"
    r"starts?|begins?|takes?|rings?|leaves?|departs?|arrives?|opens?|closes?|ends?|happens|costs?|amounts?|stands?|comes|"
    r"counts)\b)|\s*[:=,]|\s(?=\d)"
)
_FILLERS, _STOP = words_of("fillers"), words_of("stop")
_NO_SUBJECT = words_of("no_subject")
_NOBODY, _SPEAKER = words_of("nobody"), frozenset(WORDS["speaker"])
_FAMILIES = {word: family for family, some in WORDS["families"].items() for word in some.split()}
_OF_ONE_KIND = words_of("of_one_kind")
"""Aspects whose values are all of one kind, so that the kind needn't tell them apart."""
_MANY = words_of("many")
"""What one may have several of, so that a second one doesn't replace the first."""
_STATED = words_of("stated")
"""Aspects whose value may be any word. Of others, such as a dog that is hungry, a word is a passing state."""
_OF_THINGS = words_of("of_things")
"""What things have and people don't, so that "my door's code" is the door code."""
_OF_THE_SPEAKER = words_of("of_the_speaker")
"""What is the speaker's if nobody is named: "the door code is 4711"."""


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
    lasting = bool(_LASTING.search(text))
    turned = _turned(plain)
    found = _by_verb(turned, speaker, lasting) or _by_noun(turned, speaker) or _by_kind(turned, speaker)
    if found is None:
        return None
    subject, aspect, value = found
    return Fact(*_whose(subject, aspect), value, negated)


def _whose(subject: str, aspect: str) -> tuple[str, str]:
    """Return owner and aspect where the subject is itself what somebody has: "my doctor's name" is my doctor."""
    owner, _, thing = subject.rpartition("'s ")
    named = nouns(thing)
    if not owner or not named or named[-1] in _MANY:
        return subject, aspect
    if aspect in ("name", named[-1]):
        return owner, " ".join(sorted(set(named)))
    head, _, kind = aspect.partition(" ")
    if head in _OF_THINGS:
        return owner, " ".join([*sorted({head, *named}), kind]).strip()
    return subject, aspect


def _plain(text: str) -> str:
    """Return a statement without what begins and ends it, adverbs and contractions."""
    for short, full in WORDS["contractions"].items():
        text = re.sub(rf"\b(I|[Ww]e|[Tt]hey|[Yy]ou){short}\b", rf"\1{full}", text)
    text = text.rstrip(" .!")
    before = ""
    while text != before:
        before, text = text, _TRAIL.sub("", _LEAD.sub("", text)).rstrip(" .!,")
    return _ADVERBS.sub("", text)


def _without_names(text: str) -> str:
    return re.sub(r"(?<!^)\b[A-Z]\w+", "", text)


# The same said the other way round

_SUBJECT = rf"(?:{_NAME}|I|[Ww]e)"
_MARKED = {"<owner>": _OWNER, "<subject>": _SUBJECT, "<name>": _NAME}


def _turn(form: str) -> re.Pattern[str]:
    return re.compile(re.sub("|".join(_MARKED), lambda mark: _MARKED[mark[0]], form))


_TURNS = tuple((_turn(form), turned) for form, turned in WORDS["turns"])


def _turned(text: str) -> str:
    """Return a statement in the order in which most are made: "Ines is my manager" says that my manager is Ines."""
    for pattern, turned in _TURNS:
        if match := pattern.match(text):
            return match.expand(turned)
    return text


# Statements with a verb of their own: "Lena lives in Berlin"

_BE = r"(?:(?:am|is|are|has|have|was|were|been|got|would|will be|be)\s+)*"
_MARKS = {
    "<a>": r"(?:an?\s+|the\s+)?",
    "<place>": r"(?P<v>[A-Z\u00c0-\uffff][^,;]{1,40})",
    "<value>": r"(?P<v>(?:(?!(?:is|are|was)\b)[\w'-]+ ?\b){1,4}?)",
}


def _form(form: str) -> re.Pattern[str]:
    for mark, pattern in _MARKS.items():
        form = form.replace(mark, pattern)
    return re.compile(rf"^(?P<s>.{{1,60}}?)\s+{_BE}(?:{form})$")


_VERBS = tuple((aspect, "", _form(form)) for aspect, form in WORDS["forms"]) + tuple(
    (aspect, category, _form(form)) for aspect, category, form in WORDS["category_forms"]
)
"""Forms in which an aspect is stated, and of what category its value must be, if of any."""
_LASTING_VERBS = tuple((aspect, "", _form(form)) for aspect, form in WORDS["lasting_forms"]) + tuple(
    (aspect, category, _form(form)) for aspect, category, form in WORDS["lasting_category_forms"]
)
"""Forms that count only if the statement says that it is so now, or always: "he drinks tea" may be about one cup."""
_IMPERATIVES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("name", re.compile(r"^(?:you (?:can|may|should) )?(?:.* and )?(?:call|name) me (?P<v>[A-Z][\w -]*)$", re.I)),
    ("name", re.compile(r"(?:^|, |my \w+ )(?:call|address|refer to) me (?:as )?(?P<v>[A-Z][\w-]*)", re.I)),
    (
        "name",
        re.compile(
            r"^(?:people|every(?:one|body)|(?:all )?my \w+|most people) (?:all )?calls? me (?P<v>[A-Z][\w -]*)$", re.I
        ),
    ),
    ("name", re.compile(r"^(?:my|the) name(?: is|'s) (?P<v>[A-Z][\w -]*)$", re.I)),
    ("alarm (time)", re.compile(r"^wake me(?: up)? at (?P<v>.*\d.*)$", re.I)),
    (
        "language of answers",
        re.compile(
            r"^(?:(?:you|we) (?:can|should|may) |let's |I want you to |I would like you to )?(?:use|speak|switch to|"
            r"change to|stick (?:to|with)) (?P<v>[A-Za-z]+)(?: (?:with|to|for|when|in) .*)?$",
            re.I,
        ),
    ),
    (
        "language of answers",
        re.compile(
            r"^(?:(?:I|we) (?:(?:would )?(?:rather|prefer|like|want)\b(?: to)?(?: have| get)? )?)?"
            r"(?P<v>[A-Za-z]+) (?:answers|replies|responses)$",
            re.I,
        ),
    ),
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
            r"(?:^|\b(?:book|get|give|make|want|prefer|like|need|takes?|have|choose|go for|switched|sit)\b.*?\b)"
            r"(?P<v>aisle|window) seats?\b|\bsit (?:at|on|by|in) the (?P<place>aisle|window)$",
            re.I,
        ),
    ),
)
_PREFERS = (
    re.compile(r"^(?P<s>.{1,60}?) (?:prefers?|would rather (?:have|drink|take|get|eat)|favou?rs?) (?P<v>.+)$", re.I),
    re.compile(r"^(?P<s>.{1,60}?) (?:likes?|loves?) (?P<v>.+?) (?:the )?(?:best|most|better)$", re.I),
)
_DIET = re.compile(
    rf"^(?P<s>.{{1,60}}?) {_BE}(?:gone|went|turned|became|become|eats?|eating|going|follows?)?\s*{_MARKS['<a>']}"
    r"(?P<v>[\w-]+)(?: diet)?$"
)


def _by_verb(text: str, speaker: str, lasting: bool) -> tuple[str, str, str] | None:
    for aspect, pattern in _IMPERATIVES:
        match = pattern.search(text)
        value = match and (match["v"] or match["place"])
        if value and (aspect != "language of answers" or of_category(value) == "language"):
            return speaker, aspect, value
    for aspect, category, pattern in _VERBS + (_LASTING_VERBS if lasting else ()):
        if (
            (match := pattern.match(text))
            and (not category or of_category(match["v"]) == category)
            and (subject := _subject(match["s"], speaker))
        ):
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
    rf"\b(?:use|take|see|seeing|have|choose|chose|picked|to|want|prefer|with) (?P<v>[^,]{{2,40}}?) as "
    rf"(?P<owner>{_OWNER}) "
    r"(?P<what>[\w-]+(?: [\w-]+){0,2})$",
    re.IGNORECASE,
)
_GOT = re.compile(
    r"^(?P<owner>.{1,60}?) (?:have |has )?(?:got|has|have|found|hired) a new (?P<what>[\w-]+(?: [\w-]+)?)"
    r"(?:[,:]| is| named| called)+ (?:it's |it is |named |called )?(?P<v>.+)$"
)
_NAMED = re.compile(rf"(?:at|to|see|seeing) (?P<v>[A-Z][^,]{{2,40}}), (?P<owner>{_OWNER}) (?P<what>[\w-]+)$")
_UNOWNED = re.compile(
    r"^(?:the )?(?P<what>(?:[\w-]+ ){0,2}(?P<head>[\w-]+))(?= is\b| (?:was |has )?(?:changed|set)\b|:)", re.IGNORECASE
)
_PEOPLE = re.compile(r"(?P<v>\d+) (?:people|members|employees|colleagues|persons|engineers)\b")


def _by_noun(text: str, speaker: str) -> tuple[str, str, str] | None:
    if (match := _UNOWNED.match(text)) and match["head"].casefold() in _OF_THE_SPEAKER:
        return _by_noun(f"my {text[match.start('what') :]}", speaker)
    if match := _OWN.match(text):
        return _stated(match["owner"] + "'s", match["what"], match["v"], speaker)
    for pattern in (_MIDDLE, _AS, _NAMED):
        if match := pattern.search(text):
            return _stated(match["owner"], match["what"], match["v"], speaker)
    if match := _GOT.match(text):
        return _stated(match["owner"] + "'s", match["what"], match["v"], speaker)
    if (match := _OF.match(text) or _OF_BARE.match(text)) and (split := _split(match["owner"])):
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

_CONTACT = re.compile(
    r"\b(?:call|phone|ring|reach|reached|text|dial|number|write|mails?|emails?|emailed|contact|use|uses|reads|checks|"
    r"inbox|mobile|cell|is on)\b",
    re.IGNORECASE,
)
_NOT_A_NAME = re.compile(
    r"^(?:call|phone|ring|text|dial|reach|write|mail|email|send|contact|please|use|you|for|to|note|mails)\b", re.I
)


def _by_kind(text: str, speaker: str) -> tuple[str, str, str] | None:
    found = [(kind, value) for kind, value in typed_values(text) if kind in ("phone", "email")]
    if len(found) != 1 or not _CONTACT.search(text):
        return None
    named = {
        _owner(name, speaker) for name in re.findall(rf"\b(?:{_NAME})", _NOT_A_NAME.sub("", text)) if len(name) > 1
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
    if plain.split()[0] in _NOBODY or plain.split()[0] in _SPEAKER or _NO_SUBJECT.intersection(plain.split()):
        return None
    if match := re.match(r"(?:my|our) (.+)", plain):
        return f"{speaker}'s {match[1]}"
    return plain.removeprefix("the ")


def _owner(text: str, speaker: str) -> str | None:
    plain = text.casefold().strip()
    if plain in ("my", "our"):
        return speaker
    return _subject(plain.removesuffix("'s").removesuffix("'"), speaker)
