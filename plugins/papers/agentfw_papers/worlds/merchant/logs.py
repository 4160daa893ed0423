"""The log of what merchants took on before: what a preference model is fitted on.

A like follows the merchant's own tastes, or the bestsellers. How often it is which differs between merchants. Merchants
of the split train have a long log, all others a short one. The tables have the columns that `agentfw reward fit` reads.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from agentfw.runs import write_whole
from agentfw.seeds import Seeds

from .merchant_settings import MerchantSettings
from .merchants import Merchant, Merchants

_SPLITS = ("train", "validation", "test")
_LIKES = {"train": 60}
_FEW_LIKES = 3
_FAMOUS = (0.2, 0.6)
"""Range of a merchant's share of likes that follow the bestsellers."""
_SHARPNESS = 10.0
"""How closely the other likes follow tastes."""
_FAME_POWER = 3


def write_logs(folder: Path, settings: MerchantSettings) -> dict[str, Any]:
    """Write interactions.csv, items.csv, profiles.csv and world.json. The same settings give the same bytes."""
    merchants = Merchants(settings)
    names = [f"{split} {number}" for split in _SPLITS for number in range(settings.merchants(split))]
    known = [merchants.merchant(name) for name in names]
    seeds = Seeds(settings.world).child("merchant logs")
    likes = [
        (merchant.name, product, 1, number)
        for merchant in known
        for number, product in enumerate(_likes(merchant, merchants, seeds.random(merchant.name)))
    ]
    items = [
        (product, merchants.in_words(category, product))
        for category, of_it in merchants.market.categories.items()
        for product in of_it.products
    ]
    profiles = [(one.name, one.profile["about"], one.profile.get("products", "")) for one in known]
    about = {
        "settings": settings.model_dump(mode="json"),
        "merchants": len(known),
        "items": len(items),
        "likes": len(likes),
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / "interactions.csv", _table(("user", "item", "value", "time"), likes))
    write_whole(folder / "items.csv", _table(("item", "text"), items))
    write_whole(folder / "profiles.csv", _table(("user", "about", "products"), profiles))
    write_whole(folder / "world.json", json.dumps(about, indent=2) + "\n")
    return about


def _likes(merchant: Merchant, merchants: Merchants, draw: Random) -> list[str]:
    """What a merchant took on, the oldest first. Nothing is taken on twice."""
    famous = draw.uniform(*_FAMOUS)
    left = {name: list(category.products) for name, category in merchants.market.categories.items()}
    count = _LIKES.get(merchant.name.split()[0], _FEW_LIKES)
    found: list[str] = []
    while len(found) < count and any(left.values()):
        category = draw.choice([name for name, some in left.items() if some])
        products = left[category]
        if draw.random() < famous:
            weights = [merchants.fame[category][one] ** _FAME_POWER + 1e-9 for one in products]
        else:
            met = (merchants.wanted(merchant.tastes, category, one, merchant.weights) for one in products)
            weights = [math.exp(_SHARPNESS * one) for one in met]
        (place,) = draw.choices(range(len(products)), weights)
        found.append(products.pop(place))
    return found


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return out.getvalue()
