"""The text of each token of an answer.

The pieces add up to the text. A character that is split over several tokens belongs to the token that completes it, so
no piece contains a part of a character.

    >>> pieces([1, 2, 0], lambda ids: "".join({0: "", 1: "a", 2: "b"}[one] for one in ids), {0})
    ('a', 'b', '')
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence

__all__ = ["pieces"]

_UNFINISHED = "\ufffd"  # replacement character that an incomplete character decodes to


def pieces(ids: Sequence[int], decode: Callable[[Sequence[int]], str], end_ids: Container[int]) -> tuple[str, ...]:
    found: list[str] = []
    context = done = 0  # tokens are decoded together with the previous ones, because some add a space only then
    for index, token in enumerate(ids, start=1):
        before = decode(ids[context:done])
        text = decode(ids[context:index])
        last = index == len(ids)
        if (token in end_ids and last) or (text.endswith(_UNFINISHED) and not last and index - done < 4):
            found.append("")  # an incomplete character at the end is lost
        else:
            found.append(text[len(before) :])
            context, done = done, index
    return tuple(found)
