"""Finds secrets in a text: keys, passwords and card numbers, by their known forms, and random text by its entropy.

>>> [has_secret(one) for one in ("my card is 4111 1111 1111 1111", "my key: sk-a81Jd02kLs93mdK2", "call 555 0100")]
[True, True, False]
"""

from __future__ import annotations

import math
import re
from collections import Counter

LEAST_ENTROPY = 3.5
"""Bits for each character from which on a long word of letters and digits counts as random."""
_KNOWN = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|"
    r"\bglpat-[\w-]{15,}|\bxox[abprs]-[\w-]{10,}|\bAIza[\w-]{30,}|\b(?:sk|pk|rk)[-_][\w-]{12,}|\bhf_\w{20,}|\bnpm_\w{30,}|"
    r"\beyJ[\w-]{10,}\.[\w-]{10,}|://[^/\s:@]+:[^/\s:@]+@|(?i:\bbearer\s+[\w.~+/-]{16,})"
)
_PASSWORD = re.compile(
    r"(?:pass(?:word|wort|phrase|code)?|passwd|pwd|kennwort|mot de passe|contraseña|senha|palavra-passe|парол\w*|"
    r"كلمة (?:السر|المرور)|密码|口令|パスワード|暗証番号|비밀번호|पासवर्ड|\bpin|\btan|token|api[ _-]?key|secret)"
    r"[^\n.]{0,30}?(?:[:=：]|\b(?:is|ist|est|es|è|é)\b|是|は|은|는|है|هي|هو)\s*\S",
    re.IGNORECASE,
)
_CARD = re.compile(r"(?<![\d.])(?:\d[ -]?){12,18}\d(?![\d.])")
_LONG = re.compile(r"[A-Za-z0-9+/_=-]{20,}")


def has_secret(text: str) -> bool:
    """Return whether a text gives a secret away."""
    if _KNOWN.search(text) or _PASSWORD.search(text):
        return True
    if any(_is_card(re.sub(r"\D", "", found)) for found in _CARD.findall(text)):
        return True
    return any(_is_random(word) for word in _LONG.findall(text))


def _is_card(digits: str) -> bool:
    """Check the last digit of a card's number (Luhn)."""
    doubled = [int(one) * (2 if place % 2 else 1) for place, one in enumerate(reversed(digits))]
    return len(digits) >= 13 and sum(one - 9 if one > 9 else one for one in doubled) % 10 == 0


def _is_random(word: str) -> bool:
    counts = Counter(word).values()
    entropy = -sum(count / len(word) * math.log2(count / len(word)) for count in counts)
    mixed = bool(re.search(r"\d", word)) and bool(re.search(r"[A-Za-z]", word))
    return mixed and entropy >= LEAST_ENTROPY
