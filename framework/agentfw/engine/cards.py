"""Which GPUs of this machine learn, and which play.

In a training, one card does both in turn. Of more cards, a quarter learns, those with the most memory, and the others
play. `engine.gpus` says otherwise: a number of cards, or a number that plays and one that learns. Where nobody learns,
all play. What `agentfw doctor gpu` has found of this very card takes the place of a default.

>>> cards = [Card(str(number), "H100", 80.0, 79.0) for number in range(4)]
>>> plan("auto", cards, learns=True).words()
'the learner on GPU 0 (H100, 80 GB); playing on GPUs 1, 2 and 3'
>>> plan("1", cards, learns=True).words()
'learning and playing in turn on GPU 0 (H100, 80 GB)'
>>> plan("2+3", cards, learns=True)
Traceback (most recent call last):
...
agentfw.errors.SettingsError: engine.gpus = 2+3 needs 5 GPUs, and 4 of this machine are free
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..errors import SettingsError

_ASKED = "--query-gpu=index,uuid,name,memory.total,memory.free,driver_version"
_FREE = 0.5  # share of a card's memory that must be free: less is another program's
_LEARNING = 4  # one of so many cards learns


class Card(NamedTuple):
    """One GPU. Its name is what CUDA_VISIBLE_DEVICES calls it; 0 GB means that nobody knows."""

    name: str
    model: str = ""
    memory: float = 0.0
    free: float = 0.0
    driver: str = ""

    def words(self) -> str:
        return f"{self.name} ({self.model}, {self.memory:.0f} GB)" if self.memory else self.name


class Plan(NamedTuple):
    """The cards that learn and those that play. The first learner is the run's own process."""

    learning: tuple[Card, ...] = ()
    playing: tuple[Card, ...] = ()
    own: str = ""
    """The device of the learner's own process, as torch names it among all GPUs that this process sees."""
    plays: str = ""
    """The device of a policy in the run's own process."""
    no_trees: str = ""
    """Why the cards that learn can't compute the attention of trees. Empty if they can, or nobody has looked."""

    @property
    def shared(self) -> bool:
        """Whether one card does both, so that whoever plays must make room for the learner."""
        return bool(self.learning) and self.learning == self.playing

    def words(self) -> str:
        if not self.learning:
            return f"playing on {_named(self.playing)}" if self.playing else ""
        plain = f"; learner.packing = plain if it isn't set, because {self.no_trees}" if self.no_trees else ""
        if self.shared:
            return f"learning and playing in turn on {_named(self.learning)}{plain}"
        return f"the learner on {_named(self.learning)}; playing on {_named(self.playing)}{plain}"


def plan(wish: str, cards: Sequence[Card], *, learns: bool, examined: Path | None = None) -> Plan:
    """Who gets which card, but for those that other programs fill. `examined` is the file of `agentfw doctor gpu`."""
    free = [card for card in cards if card.free >= _FREE * card.memory]
    if wish == "auto" and not free:
        return Plan()
    if "+" in wish:
        players, learners = map(int, wish.split("+"))
        wanted = players + learners
    else:
        wanted = len(free) if wish == "auto" else int(wish)
        learners = max(1, wanted // _LEARNING)
        players = wanted - learners
    if wanted > len(free) or not free:
        filled = [card for card in cards if card not in free]
        others = f"; {_named(filled)} is filled by another program" if filled else ""
        fits = f"set engine.gpus={len(free)}" if free else "stop the other program, or leave engine.gpus out"
        text = f"engine.gpus = {wish} needs {wanted or 1} GPUs, and {len(free)} of this machine are free{others}"
        raise SettingsError(text, fix=fits)
    if not learns:
        used = tuple(free[: players if "+" in wish and players else wanted])
        return Plan((), used, plays=f"cuda:{cards.index(used[0])}")
    largest = sorted(free, key=lambda card: -card.memory)
    learning = tuple(largest[:learners])
    rest = [card for card in free if card not in learning]
    playing = tuple(rest[:players]) if players else learning
    own, plays = (f"cuda:{cards.index(some[0])}" for some in (learning, playing))
    return Plan(learning, playing, own, plays, "" if examined is None else _no_trees(examined, learning))


def _no_trees(examined: Path, learning: Sequence[Card]) -> str:
    """Why a learner can't compute trees on these cards, if the doctor's row `flex` failed on one of their kind."""
    with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):  # none, or not one of the doctor's
        rows = {str(row["row"]): row for row in json.loads(examined.read_text("utf-8"))}
        name, failed = str(rows["card"]["card"]).removeprefix("NVIDIA "), rows.get("flex", {}).get("failed", "")
        if failed and any(card.model == name for card in learning):
            return f"`agentfw doctor gpu` found that flex attention fails there ({failed})"
    return ""


def found_cards() -> list[Card]:
    """The GPUs that CUDA_VISIBLE_DEVICES allows, or all of this machine."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [name.strip() for name in (visible or "").split(",")]
    allowed = None if visible is None else [name for name in names if name not in ("", "-1")]
    known: dict[str, Card] = {}
    asked = shutil.which("nvidia-smi")
    if asked is not None and allowed != []:
        told = subprocess.run([asked, _ASKED, "--format=csv,noheader,nounits"], capture_output=True, text=True)
        for line in told.stdout.splitlines() if not told.returncode else ():
            index, uuid, model, total, free, driver = (part.strip() for part in line.split(","))
            # A card that shares the machine's memory has none of its own, and says [N/A].
            whole, left = (float(size) / 1024 if size.isdigit() else 0.0 for size in (total, free))
            for name in (index, uuid):
                known[name] = Card(name, model.removeprefix("NVIDIA "), whole, left, driver)
    if allowed is not None:
        return [known.get(name, Card(name)) for name in allowed]
    if known:
        return [card for name, card in known.items() if name.isdigit()]
    return [Card(str(number)) for number, _ in enumerate(sorted(Path("/dev").glob("nvidia[0-9]*")))]


def _named(cards: Sequence[Card]) -> str:
    if len(cards) == 1:
        return f"GPU {cards[0].words()}"
    names = [card.name for card in cards]
    return f"GPUs {', '.join(names[:-1])} and {names[-1]}"
