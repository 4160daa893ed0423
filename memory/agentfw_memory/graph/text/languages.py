"""Finds out the language of words, well enough to stem them: by their script, or by the commonest words of a text.

    >>> language_of(["wo", "ist", "die", "katze"]), script_of("кошка"), language_of(["cat"])
    ('german', 'russian', 'english')

A language is named as Snowball names its stemmer; Vietnamese needs none. English is assumed if no other language
explains more of the words, so that a short question and a long text are stemmed alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib.resources import files
from itertools import chain

PAIRED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
"""Thai, Lao, Burmese, Khmer, Japanese, Chinese and Korean, as ranges of a regular expression's class."""

_SCRIPTS = (
    (0x0370, 0x03FF, "greek"),
    (0x0400, 0x052F, "russian"),
    (0x0530, 0x058F, "armenian"),
    (0x0600, 0x06FF, "arabic"),
    (0x0900, 0x097F, "hindi"),
    (0x0B80, 0x0BFF, "tamil"),
)

_LETTERS = {
    **dict.fromkeys("äß", ("german",)),
    **dict.fromkeys("êëœ", ("french",)),
    **dict.fromkeys("ñ", ("spanish",)),
    **dict.fromkeys("ãõ", ("portuguese",)),
    **dict.fromkeys("å", ("swedish", "danish")),
    **dict.fromkeys("æø", ("danish",)),
    **dict.fromkeys("ăâîșțţ", ("romanian",)),
    **dict.fromkeys("ğışİ", ("turkish",)),
    **dict.fromkeys("đơư", ("vietnamese",)),
    **dict.fromkeys(map(chr, range(0x1EA0, 0x1EFA)), ("vietnamese",)),
}
"""Letters that few languages have. One in a text counts as much as a common word."""

_LINES = files("agentfw_memory.graph.text").joinpath("stop_words.txt").read_text("utf-8").splitlines()
_WORDS = {name: frozenset(words.split()) for name, _, words in (line.partition(": ") for line in _LINES)}
_OTHER_SCRIPTS = frozenset(word for _, _, name in _SCRIPTS for word in _WORDS.get(name, ()))

STOP_WORDS: Mapping[str, frozenset[str]] = {name: words | _OTHER_SCRIPTS for name, words in _WORDS.items()}
"""By language: the words that are in every other sentence and tell no two texts apart."""

_LANGUAGES: dict[str, tuple[str, ...]] = {}
for _name, _words in _WORDS.items():
    for _word in _words - _OTHER_SCRIPTS:
        _LANGUAGES[_word] = (*_LANGUAGES.get(_word, ()), _name)


def language_of(words: Sequence[str]) -> str:
    """Return the language written in Latin letters that explains most of the words."""
    foreign = "".join(word for word in words if not word.isascii())
    known = [_LANGUAGES[word] for word in words if word in _LANGUAGES]
    found = Counter(chain.from_iterable(known + [_LETTERS[letter] for letter in foreign if letter in _LETTERS]))
    best = max(found.values(), default=0)
    # "Las Vegas" alone is no Spanish, but "¿Las cañas?" is.
    enough = 1 if foreign else 2
    return "english" if best < enough or found["english"] == best else found.most_common(1)[0][0]


@lru_cache(maxsize=200_000)
def script_of(word: str) -> str:
    """Return the language of a word in a script for which there is only one stemmer, or an empty text."""
    first = ord(word[0])
    return next((name for start, end, name in _SCRIPTS if start <= first <= end), "")
