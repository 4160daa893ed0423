"""The text of each token of an answer.

The one rule: put together, the pieces are the text. A character that is spread over several tokens comes with the one
that completes it, so no piece ever holds half of one.

    >>> pieces([1, 2, 0], lambda ids: "".join({0: "", 1: "a", 2: "b"}[one] for one in ids), {0})
    ('a', 'b', '')
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

__all__ = ["pieces"]

_UNFINISHED = "\ufffd"  # what part of a character decodes to


def pieces(ids: Sequence[int], decode: Callable[[Sequence[int]], str], end_ids: Container[int]) -> tuple[str, ...]:
    found: list[str] = []
    context = done = 0  # tokens are decoded together with those just before: some say their space so
    for index, token in enumerate(ids, start=1):
        before = decode(ids[context:done])
        text = decode(ids[context:index])
        last = index == len(ids)
        if (token in end_ids and last) or (text.endswith(_UNFINISHED) and not last and index - done < 4):
            found.append("")  # what was left unfinished is lost with the end
        else:
            found.append(text[len(before) :])
            context, done = done, index
    return tuple(found)
