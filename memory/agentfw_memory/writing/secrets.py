"""Finds secrets in a text, and masks them: keys, passwords, card numbers, and random text.

>>> masked("my password is hunter2, and the card is 4111 1111 1111 1111").text
'my password is [masked: password], and the card is [masked: card]'
>>> has_secret("call 555 0100")
False

Keys have known forms, a password is what somebody calls one, a card number has its check digit, and random text is told
by how often letters and digits take turns. A secret that was masked still counts as one.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterator
from itertools import pairwise
from typing import Literal, NamedTuple, get_args

Kind = Literal["key", "password", "card", "entropy"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_KEY = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
    r"|\b(?:sk|rk|pk|whsec|sess)[-_](?:live[-_]|test[-_]|proj-|ant-|or-)?[\w-]{16,}"  # OpenAI, Anthropic, Stripe
    r"|\b(?:gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}|gl(?:pat|dt|rt|ptt)-[\w-]{15,}|hf_[A-Za-z0-9]{16,})"
    r"|\b(?:npm_[A-Za-z0-9]{20,}|pypi-[\w-]{16,}|dckr_pat_[\w-]{16,}|do[opr]_v1_[a-f0-9]{32,}|hv[sb]\.[\w-]{16,})"
    r"|\b(?:gsk|xai|r8|pplx|lin_api|ntn|shp(?:at|ss|ca|pa)|sq0[a-z]{3}|dp\.(?:pt|st)|atlasv1|figd|nvapi|tvly)"
    r"[-_.][\w-]{16,}"
    r"|\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{12,}\b|\bAIza[\w-]{30,}|\bya29\.[\w-]{16,}|\bGOCSPX-[\w-]{16,}"
    r"|\bxox[abeprs]-[\w-]{10,}|\bxapp-[\w-]{16,}|https://hooks\.slack\.com/services/\S+|\bagentfw-[\w-]{40,}"
    r"|\b(?:SG|key)\.[\w-]{16,}\.[\w-]{16,}|\b(?:SK|AC)[0-9a-f]{32}\b|\b\d{8,10}:[A-Za-z0-9_-]{30,}|\bdapi[a-f0-9]{32}"
    r"|\bkey-[0-9a-f]{32}\b|\bAGE-SECRET-KEY-1[A-Z0-9]{16,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]+)?"  # JSON web tokens
    r"|(?i:\b(?:bearer|basic)\s+)(?P<bearer>[\w.~+/-]{16,}=*)"
    r"|(?i:\b(?:AccountKey|SharedAccessKey|sig)=)(?P<azure>[\w+/%]{16,}=*)"
    r"|(?<=://)[^\s:/@]+:(?P<url>[^\s/]+)(?=@[\w.-])"
)
_CALLED = (
    r"(?<![^\W_])(?:pass(?:word|wort|phrase|code)?s?|passwd|pwd|kennwort|mot de passe|contraseña|senha|palavra-passe"
    r"|парол\w*|wachtwoord|lösenord|hasło|şifre|parola|jelszó|heslo"
    r"|(?:(?:access|refresh|auth|session|bearer|bot|api|security|app|personal) )?(?:token|secret)|client[ _-]secret"
    r"|(?:api|access|secret|private|encryption|licen[cs]e|account|deploy|master|signing)[ _-]?key|credentials?"
    r"|(?:pin|tan|cvv|cvc|otp)(?: ?code)?|(?:door|alarm|unlock|safe|verification|backup|recovery|security|2fa) code"
    r")(?![^\W_])|كلمة (?:السر|المرور)|密码|口令|パスワード|暗証番号|비밀번호|पासवर्ड"
)
"""What people and settings call a secret."""
_SAYS = r"[:=：→]+|-?>|\b(?:is|was|ist|lautet|war|est|es|era|é|to|as|jest|är|è)\b(?:\s*:)?|['’]s\b|是|は|은|는|है|هي|هو"
_VALUE = (
    r"(?:[\"'`“‘«「](?P<{0}_quoted>[^\"'`“”‘’«»「」\n]{{3,60}})[\"'`”’»」]"
    r"|(?P<{0}>[^\s\"'`“”‘’»」,;]{{3,}}?)(?=[\"'`”’»」,;)]|[.!?。]*(?:\s|\Z)|です|입니다|है))"
)
_PASSWORD = re.compile(
    rf"(?:{_CALLED})[\"'`]?(?P<about>[^\n.:=,;]{{0,24}}?)\s*(?:{_SAYS})\s*{_VALUE.format('called')}"
    rf"|(?:{_CALLED})\s+{_VALUE.format('bare')}"
    r"|(?<![^\s\"'`“”,;])(?P<before>[^\s\"'`“”,;]{4,}+)[\"'`”]?\s+(?:(?:is|are|ist|est|es)\s+(?:my|the|our|mein|mon|mi)|as|als)\s+"
    rf"(?:\w+ ){{0,2}}(?:{_CALLED})",
    re.IGNORECASE,
)
_PHRASE = re.compile(
    r"\b(?:passphrase|(?:seed|recovery|mnemonic|backup|secret)[ _-]?(?:phrase|words?))\s*(?:is|:|=|are)\s*:?\s*"
    r"(?P<words>(?:[a-z]+[ ,-]+){3,23}[a-z]+)"
    r"|\b(?:user(?:name)?|login)[ :=]+[^\s,;]+[,; ]+(?:and )?(?:password|passwd|pwd|pw)[ :=]+(?P<login>[^\s,;]{3,})",
    re.IGNORECASE,
)
_CARD = re.compile(r"(?<![\d.-])\d(?:[ -]?\d){12,18}(?![\d-]|\.\d)")
_LONG = re.compile(r"(?<![\w+/.-])[A-Za-z0-9+/_-]{20,}={0,2}(?![\w+/=-])")
_MASK = re.compile(r"\[masked: [a-z]+\]")
_WORDS = re.compile(
    r"(?:required|wrong|correct|incorrect|expired|invalid|empty|missing|needed|not|too|very|here|there|which|a|an|the|my|your|in|on|at|"
    r"that|this|stored|kept|used|only|never|always|being|about|changed|reset|set|safe|secure|weak|strong|protected|"
    r"hashed|encrypted|ignored|optional|one|something|what|out|up|to|be|is|for|and|or|of|it|we|you|i|so|all|no|yes|"
    r"null|none|true|false|undefined|str|string|int|bytes|default|nicht|falsch|leer|pas|un|une|el|la|le|les|das|der|die)"
    r"\Z",
    re.IGNORECASE,
)
"""What is said of a password, and is none."""
_PASSWORDS = re.compile(r"(?i)(?:pass|kenn|mot|contra|senha|парол|wacht|lösen|has|密|口|パ|暗|비|पास|كلمة)")


class Masked(NamedTuple):
    """A text without its secrets, and how many there were of each kind."""

    text: str
    counts: Counter[str]


def masked(text: str, kinds: Collection[str] = KINDS) -> Masked:
    """Return a text with `[masked: KIND]` in the place of each secret."""
    found, last, counts = list[str](), 0, Counter[str]()
    for start, end, kind in sorted(_secrets(text, kinds), key=lambda one: (one[0], -one[1])):
        if start >= last:
            found += [text[last:start], f"[masked: {kind}]"]
            counts[kind] += 1
        last = max(last, end)
    return Masked("".join([*found, text[last:]]) if found else text, counts)


def has_secret(text: str) -> bool:
    """Return whether a text gives a secret away, or did before it was masked."""
    return bool(_MASK.search(text)) or next(_secrets(text, KINDS), None) is not None


def _secrets(text: str, kinds: Collection[str]) -> Iterator[tuple[int, int, str]]:
    if "key" in kinds:
        yield from ((*_span(match), "key") for match in _KEY.finditer(text))
    if "password" in kinds:
        yield from ((*_span(match), "password") for match in _PASSWORD.finditer(text) if _is_password(match))
        yield from ((*_span(match), "password") for match in _PHRASE.finditer(text))
    if "card" in kinds:
        yield from ((*match.span(), "card") for match in _CARD.finditer(text) if _is_card(match[0]))
    if "entropy" in kinds:
        yield from ((*match.span(), "entropy") for match in _LONG.finditer(text) if _is_random(match[0]))


def _span(match: re.Match[str]) -> tuple[int, int]:
    """Where the secret itself is in what was found."""
    name = next((name for name, value in match.groupdict().items() if value and name != "about"), 0)
    return match.span(name)


def _is_password(match: re.Match[str]) -> bool:
    """Whether what is called a password is one, and not what is said of passwords."""
    if match["called_quoted"] or match["bare_quoted"]:
        return not _MASK.search(match[0])
    value = (match["called"] or match["bare"] or match["before"]).strip("*_")
    if not value or _WORDS.match(value) or _MASK.search(match[0]):
        return False
    odd = re.search(r"\d|[^\w\s-]|[a-z][A-Z]", value) and not re.fullmatch(r"\d{1,2}|\W+|\w+\(.*", value)
    if match["bare"]:
        return bool(odd) and not re.fullmatch(r"\d{3}", value)
    written = match["called"] and re.search(r"[:=：]\s*$", match[0][: match.start("called") - match.start()])
    # Of a token or a secret, something is said more often than it is told, unless it looks like one.
    is_named = _PASSWORDS.search(match[0]) if match["before"] else _PASSWORDS.match(match[0])
    return bool(odd or written or (is_named and not (match["about"] or "").strip()))


def _is_card(text: str) -> bool:
    """Check the last digit of a card's number (Luhn)."""
    digits = [int(sign) for sign in text if sign.isdigit()][::-1]
    total = sum(sum(divmod(digit * (1 + place % 2), 10)) for place, digit in enumerate(digits))
    return len(set(digits)) > 1 and total % 10 == 0


def _is_random(word: str) -> bool:
    """Whether a word has letters of both cases and digits, and changes between them as often as chance does."""
    kinds = ["d" if sign.isdigit() else "u" if sign.isupper() else "l" if sign.islower() else "" for sign in word]
    if not {"d", "u", "l"} <= set(kinds):
        return False
    turns = sum(one != other for one, other in pairwise(kinds))
    counts = Counter(word).values()
    entropy = -sum(count / len(word) * math.log2(count / len(word)) for count in counts)
    return turns >= 0.4 * len(word) and entropy >= 3.5
