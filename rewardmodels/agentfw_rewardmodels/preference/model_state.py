"""The parameters and data of a preference model: adding to them without training, and their files.

A state is immutable. Training produces the embeddings before the propagation (`own`) and the networks. Everything else
follows from them. A new interaction is a new edge, and the propagation carries it to the user, the item and their
neighbours. So a user's first like counts without any training step.

    model.json                format and version, settings, encoder, names of users and items, facts, history
    arrays-HASH.safetensors   the arrays; HASH is a hash of their content, and model.json names the file

The arrays are written first, and model.json is renamed into place last, so a reader sees the complete old model or the
complete new one. Everything is checked before it is used.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

from ..errors import BadInputError, FileRefusedError, StorageError
from .cold_start import merged, predict_from_profiles
from .encoders import Encoder, Float32Array
from .formulas import Adjacency, propagated
from .input_tables import Interactions, Pairs, Profiles, encoded_items, encoded_views, places_of
from .preference_settings import PreferenceSettings
from .scoring import Scorer

FORMAT, VERSION = "agentfw preference model", 2
DESCRIPTION = "model.json"
REPAIR = "save the model again, or fit a new one"
_ARRAYS = ("likes", "own_users", "own_items", "by_profile", "texts")
_DESCRIBED = ("users", "items", "titles", "view_names", "facts", "history")
"""What is saved of a state as it is: as arrays, and as JSON."""


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yield a new file that replaces `path` at the end of the block, after it was flushed to disk."""
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(new, os.O_CREAT | os.O_RDONLY, 0o600))  # it holds what people said
        yield new
        with new.open("rb+") as written:
            os.fsync(written.fileno())
        new.replace(path)
    except OSError as error:
        wrong = f"{path} can't be written: {error}"
        raise StorageError(wrong, fix="free some space, or choose another folder") from error
    finally:
        new.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class ModelState:
    """What is saved of a model. Rows are in the order of `users` and `items`."""

    settings: PreferenceSettings
    users: tuple[str, ...]
    items: tuple[str, ...]
    titles: Mapping[str, str]  # the text of each item that has one
    view_names: tuple[str, ...]
    likes: Pairs
    own_users: Float32Array
    own_items: Float32Array
    by_profile: Float32Array
    """Predictions from profiles, of shape (users, 3, dimensions): embedding, interest and conformity. Zeros for users
    without a profile."""
    texts: Float32Array
    weights: Mapping[str, Float32Array]  # the networks: all weights except the embeddings of users and items
    facts: Mapping[str, int]  # counts of what was read and isn't a like
    history: tuple[Mapping[str, float], ...]

    def save(self, folder: Path, encoder: tuple[str, str]) -> None:
        """Write the state, with the name and version of the encoder of its texts."""
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {f"weights.{name}": rows for name, rows in self.weights.items()}
        arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        digest = hashlib.blake2b(digest_size=8)
        for name in sorted(arrays):
            digest.update(name.encode() + arrays[name].tobytes())
        file = f"arrays-{digest.hexdigest()}.safetensors"
        with _replacing(folder / file) as new:
            save_file(arrays, new)
        description = {"format": FORMAT, "version": VERSION, "arrays": file, "settings": self.settings.as_dict()}
        description["encoder"] = dict(zip(("name", "version"), encoder, strict=True))
        with _replacing(folder / DESCRIPTION) as new:
            new.write_text(json.dumps(description | {name: getattr(self, name) for name in _DESCRIBED}), "ascii")
        for old in folder.glob("arrays-*.safetensors"):
            if old.name != file:
                old.unlink(missing_ok=True)

    @classmethod
    def load(cls, folder: Path) -> tuple[ModelState, tuple[str, str]]:
        """Return what was saved, checked for format, version and NaN. Other damage raises whatever it leads to."""
        path = folder / DESCRIPTION
        nothing = "pass the folder that the model was saved to"
        try:
            description: dict[str, Any] = json.loads(path.read_bytes())
        except FileNotFoundError:
            raise FileRefusedError(f"{folder} contains no preference model", fix=nothing) from None
        except (OSError, ValueError) as error:
            raise FileRefusedError(f"{path} can't be read: {error}", fix=REPAIR) from error
        if not isinstance(description, dict) or description.get("format") != FORMAT:
            raise FileRefusedError(f"{path} is not a preference model", fix=nothing)
        if description.get("version") != VERSION:
            wrong = f"{path} has format {description.get('version')}; this version of agentfw reads {VERSION}"
            raise FileRefusedError(wrong, fix="use the version of agentfw that wrote it, or fit a new model")
        arrays_path = folder / str(description.get("arrays"))
        try:
            with safe_open(arrays_path, framework="numpy") as file:
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except Exception as error:  # its error class derives from Exception only
            raise FileRefusedError(f"{arrays_path} can't be read: {error}", fix=REPAIR) from error
        for name, array in arrays.items():
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                raise FileRefusedError(f"{folder} contains NaN or infinity in {name}", fix=REPAIR)
        parts: dict[str, Any] = {name: arrays[name] for name in _ARRAYS}
        for name in _DESCRIBED:
            parts[name] = tuple(description[name]) if isinstance(description[name], list) else description[name]
        weights = {name.removeprefix("weights."): rows for name, rows in arrays.items() if name.startswith("weights.")}
        settings = PreferenceSettings.from_mapping(description["settings"])
        encoder = description["encoder"]["name"], description["encoder"]["version"]
        return cls(settings=settings, weights=weights, **parts), encoder

    def embeddings(self) -> tuple[Float32Array, Float32Array]:
        """Return the embeddings of users and items after the propagation.

        Users and items without interactions have untrained rows. For such users, `by_profile` is used. Such items with
        a text get the mean of items with similar texts.
        """
        users, items = len(self.users), len(self.items)
        before = np.concatenate([self.own_users + self.by_profile[:, 0], self.own_items])
        after = propagated(before, Adjacency.of(self.likes, users, items), self.settings.layers)
        user_rows, item_rows = after[:users], after[users:]
        return user_rows, self._with_neighbours(item_rows, np.bincount(self.likes[1], minlength=len(self.items)) == 0)

    def with_likes(self) -> Any:
        """Return which users have likes."""
        return np.bincount(self.likes[0], minlength=len(self.users)) > 0

    def _with_neighbours(self, rows: Float32Array, cold: Any) -> Float32Array:
        """Replace the rows of cold items that have a text by the mean of their nearest items."""
        if not self.texts.size:
            return rows
        texted = (self.texts != 0).any(-1)
        lost, known = np.flatnonzero(cold & texted), np.flatnonzero(~cold & texted)
        if not len(lost) or not len(known):
            return rows
        near = Scorer(rows[known], self.texts[known], self.weights, self.settings).nearest(self.texts[lost])
        result = rows.copy()
        result[lost] = np.einsum("nk,nkd->nd", near.weight, rows[known][near.items])
        return result

    def predicted(self, profiles: Sequence[Mapping[str, str]], encoder: Encoder) -> Float32Array:
        """Return the predictions from profiles, of shape (profiles, 3, dimensions)."""
        for views in profiles:
            if not self.view_names:
                raise BadInputError("the model was fitted without profiles", fix="fit it with profiles")
            unknown = [name for name in views if name not in self.view_names]
            if unknown or not views:
                what = f'unknown view "{unknown[0]}"' if unknown else "the profile is empty"
                raise BadInputError(what, fix=f"use some of the views {', '.join(self.view_names)}")
        rows = merged(encoded_views(profiles, self.view_names, encoder), self.weights)
        return predict_from_profiles(rows, self.weights).reshape(-1, 3, self.settings.dimensions)

    def taking(
        self, interactions: Interactions, texts: Mapping[str, str], profiles: Profiles, encoder: Encoder | None
    ) -> ModelState:
        """Return a state with these tables added. A dislike removes an earlier like."""
        users = tuple(dict.fromkeys([*self.users, *(user for user, _ in interactions.likes), *profiles]))
        items = tuple(dict.fromkeys([*self.items, *(item for _, item in interactions.likes), *texts]))
        given, gone = places_of(interactions.likes, users, items), places_of(interactions.dislikes, users, items)
        old_keys, new_keys, gone_keys = (pairs[0] * len(items) + pairs[1] for pairs in (self.likes, given, gone))
        stays, fresh = ~np.isin(old_keys, gone_keys), ~np.isin(new_keys, old_keys)
        likes = np.concatenate([self.likes[:, stays], given[:, fresh]], axis=1)
        if not likes.size:
            raise BadInputError("no like would be left", fix="leave out some of the dislikes")
        by_profile = _padded(self.by_profile, len(users))
        if profiles and encoder is not None:
            place_of = {user: place for place, user in enumerate(users)}
            by_profile[[place_of[user] for user in profiles]] = self.predicted(list(profiles.values()), encoder)
        facts = {name: count + interactions.facts[name] for name, count in self.facts.items()}
        facts["duplicates"] += int((~fresh).sum())
        known_texts = _padded(self.texts, len(items))
        if texts and self.texts.size:
            texted = np.array([item in texts for item in items])
            known_texts[texted] = encoded_items(items, texts, encoder)[texted]
        new = replace(
            self,
            users=users,
            items=items,
            titles={**self.titles, **texts},
            likes=likes,
            own_users=_padded(self.own_users, len(users)),
            own_items=_padded(self.own_items, len(items)),
            by_profile=by_profile,
            texts=known_texts,
            facts=facts,
        )
        untrained = np.arange(len(items)) >= len(self.items)
        return replace(new, own_items=new._with_neighbours(new.own_items, untrained))

    def without(self, user: str) -> ModelState:
        """Return a state without the row of a user, their likes, and the words of items that nobody else likes."""
        place = self.users.index(user)
        likes = self.likes[:, self.likes[0] != place]
        if not likes.size:
            raise BadInputError("no like would be left", fix="delete the model instead")
        own = {self.items[item] for item in np.setdiff1d(self.likes[1], likes[1]).tolist()}
        likes = np.stack([likes[0] - (likes[0] > place), likes[1]])
        users = self.users[:place] + self.users[place + 1 :]
        return replace(
            self,
            users=users,
            titles={item: text for item, text in self.titles.items() if item not in own},
            likes=likes,
            own_users=np.delete(self.own_users, place, axis=0),
            by_profile=np.delete(self.by_profile, place, axis=0),
        )


def _padded(rows: Float32Array, count: int) -> Float32Array:
    result = np.zeros((count, *rows.shape[1:]), np.float32)
    result[: len(rows)] = rows
    return result
