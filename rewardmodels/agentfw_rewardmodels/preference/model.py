"""PreferenceModel: what a user likes, apart from what everybody does, learned from interactions, texts and profiles.

The one rule: a model never changes. `fit`, `update` and `load` each make one; a call that fails leaves the model in
memory and the one on disk as they were.

    from agentfw_rewardmodels import PreferenceModel

    model = PreferenceModel.fit("likes.csv", items="places.csv", profiles="people.csv")
    model.score("ana", "Book the museum first, then lunch nearby").reward
    model.save("preferences/")

Only `fit` needs torch; everything else is numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np

from agentfw_rewardmodels.errors import BadInputError, FileRefusedError, UnknownUserError
from agentfw_rewardmodels.preference.dataset import popularity, read_pairs
from agentfw_rewardmodels.preference.encoders import Encoder, EncoderChoice, Float32Array, open_encoder
from agentfw_rewardmodels.preference.formulas import normalised
from agentfw_rewardmodels.preference.input_tables import read_interactions, read_items, read_profile, read_profiles
from agentfw_rewardmodels.preference.metrics import by_user, recall_and_ndcg, top
from agentfw_rewardmodels.preference.model_files import read_model, write_model
from agentfw_rewardmodels.preference.model_state import State
from agentfw_rewardmodels.preference.preference_settings import PreferenceSettings
from agentfw_rewardmodels.preference.reports import ModelReport, UserReport
from agentfw_rewardmodels.preference.results import Evaluation, Explanation, NearItem, OwnItem, PreferenceScore, Scores
from agentfw_rewardmodels.preference.scoring import Neighbours, Scorer, Stances, newcomers, stances
from agentfw_rewardmodels.preference.training import Progress

__all__ = ["By", "PreferenceModel"]

By = Literal["fused", "interest", "conformity"]
"""What items are ranked by: what will be liked, what is liked for its own sake, or what everybody likes."""
USERS_AT_ONCE = 512
OWN_ITEMS = 5
SCORED = ("score", "interest", "conformity", "interest_z", "conformity_z", "reward")
_ARRAYS = ("likes", "own_users", "own_items", "by_profile", "texts")


class PreferenceModel:
    """Made by `fit` or `load`."""

    def __init__(self, state: State, encoder: Encoder | None, encoder_is: tuple[str, str]) -> None:
        self._state, self._encoder, self._encoder_is = state, encoder, encoder_is
        self._places = {user: place for place, user in enumerate(state.users)}
        users, self._item_rows = state.embeddings()
        likes, profile = state.with_likes(), (state.by_profile != 0).any((1, 2))
        self._stances = stances(users, state.weights, state.settings)
        self._stances = self._stances.replaced(~likes, newcomers(state.by_profile[~likes], state.settings))
        self._known = likes | profile
        self._scorer = Scorer(self._item_rows, state.texts, state.weights, state.settings)
        self._popularity = popularity(state.likes, len(state.items), state.settings.popularity)
        order = np.argsort(state.likes[0], kind="stable")
        self._starts = np.searchsorted(state.likes[0][order], np.arange(len(state.users) + 1))
        self._liked = state.likes[1][order]

    @classmethod
    def fit(
        cls,
        interactions: Any,
        *,
        items: Any = None,
        profiles: Any = None,
        validation: Any = None,
        settings: PreferenceSettings | None = None,
        encoder: EncoderChoice = "",
        start: PreferenceModel | None = None,
        checkpoints: str | Path | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> PreferenceModel:
        """Train a model.

        Tables are paths (.csv, .tsv, .jsonl, .parquet), tables of pandas, polars or pyarrow, or rows: interactions of
        `user`, `item` and perhaps `value` (above 0 is a like) and `time`; items of `item` and `text`; profiles of
        `user` and any views. `validation` is like `interactions`; without it a share of those is held out. `start` is
        a model to begin from. With a folder for `checkpoints` a training that was killed goes on when it is called
        again.
        """
        from agentfw_rewardmodels.preference.fitting import fit

        state, opened = fit(
            interactions,
            items=items,
            profiles=profiles,
            validation=validation,
            settings=settings or PreferenceSettings(),
            encoder=encoder,
            start=None if start is None else start._state,
            checkpoints=checkpoints,
            progress=progress or (lambda _: None),
        )
        return cls(state, opened, ("", "") if opened is None else (opened.name, opened.version))

    @property
    def users(self) -> tuple[str, ...]:
        return self._state.users

    @property
    def items(self) -> tuple[str, ...]:
        return self._state.items

    @property
    def settings(self) -> PreferenceSettings:
        return self._state.settings

    @property
    def facts(self) -> dict[str, int]:
        """What the tables held, and what was settled while reading them."""
        return dict(self._state.facts)

    @property
    def history(self) -> list[dict[str, float]]:
        """Each epoch's loss, and the metric where the validation split was looked at."""
        return [dict(one) for one in self._state.history]

    def score(self, user: str, text: str, *, profile: Any = None) -> PreferenceScore:
        """What this user thinks of this action. `profile` is for a user without interactions."""
        return self._scored([user], [text], profile)[0]

    def score_many(self, pairs: Iterable[tuple[str, str]]) -> list[PreferenceScore]:
        """Many at once; each text is encoded once."""
        users, texts = [], []
        for user, text in pairs:
            users.append(user)
            texts.append(text)
        return self._scored(users, texts, None) if users else []

    def score_vectors(self, users: Sequence[str], vectors: Any) -> Scores:
        """The same for actions whose texts were encoded elsewhere, one row a user."""
        rows = np.asarray(vectors, np.float32)
        wanted = (len(users), self._state.texts.shape[1])
        if rows.shape != wanted or not np.isfinite(rows).all():
            raise BadInputError(
                f"the vectors are an array of {rows.shape}", fix=f"give finite numbers, an array of {wanted}"
            )
        self._need_texts()
        places = self._scorer.places(np.asarray(normalised(rows), np.float32))
        return self._scorer.scores(self._of(users, None), places)

    def score_items(self, users: Sequence[str], items: Sequence[str]) -> Scores:
        """The same for known items by name, one a user; what a model says of interactions that happened."""
        place_of = {item: place for place, item in enumerate(self._state.items)}
        unknown = [item for item in items if item not in place_of]
        if unknown or len(users) != len(items):
            what = f'the item "{unknown[0]}" is unknown' if unknown else f"{len(users)} users, {len(items)} items"
            raise BadInputError(what, fix="give one known item for each user")
        return self._scorer.item_scores(self._of(users, None), [place_of[item] for item in items])

    def explain(self, user: str, text: str, *, profile: Any = None) -> Explanation:
        """A score with what it rests on: known items like the action, and what the user liked close to it."""
        score = self._scored([user], [text], profile)[0]
        own = self._likes_of(user)
        place = self._scorer.places(self._encode([text]))[0]
        close = np.asarray(self._scorer.items[own] @ place)
        best = np.argsort(-close, kind="stable")[:OWN_ITEMS]
        items, titles = self._state.items, self._state.titles
        history = tuple(OwnItem(items[own[n]], titles.get(items[own[n]], ""), float(close[n])) for n in best)
        return Explanation(score, history)

    def recommend(
        self, user: str, count: int = 20, *, by: By | None = None, seen: bool = False, profile: Any = None
    ) -> list[tuple[str, float]]:
        """The items that this user would like most, without those that they are known to like unless `seen`."""
        scores = self._ranking(self._of([user], profile), by)[0]
        if not seen:
            scores[self._likes_of(user)] = -np.inf
        places = top(scores[None], count)[0]
        return [(self._state.items[place], float(scores[place])) for place in places if np.isfinite(scores[place])]

    def evaluate(self, interactions: Any, *, count: int = 20, by: By | None = None) -> Evaluation:
        """How well likes that were held out are found. Unknown users and items, and likes it knows, are left out."""
        pairs = read_pairs(interactions, self._state.users, self._state.items, "interactions")
        width = len(self._state.items)
        new = ~np.isin(pairs[0] * width + pairs[1], self._state.likes[0] * width + self._state.likes[1])
        pairs = pairs[:, new & self._known[pairs[0]]]
        if not pairs.size:
            raise BadInputError(
                "no like in the table is new and of a known user and item", fix="give likes that were held out"
            )
        users, relevant = by_user(pairs)
        parts = []
        for begin in range(0, len(users), USERS_AT_ONCE):
            some = users[begin : begin + USERS_AT_ONCE]
            scores = self._ranking(self._stances.of(some), by)
            for row, user in zip(scores, some, strict=True):
                row[self._liked[self._starts[user] : self._starts[user + 1]]] = -np.inf
            parts.append(recall_and_ndcg(top(scores, count), relevant[begin : begin + USERS_AT_ONCE]))
        recall, ndcg = (np.concatenate(values) for values in zip(*parts, strict=True))
        return Evaluation(float(recall.mean()), float(ndcg.mean()), len(users), count)

    def update(self, interactions: Any = (), *, items: Any = None, profiles: Any = None) -> PreferenceModel:
        """A new model that knows these too, without training. What it knows of others moves only as the graph does."""
        texts = {} if items is None else read_items(items)
        views = {} if profiles is None else read_profiles(profiles)
        encoder = self._open() if texts or views else self._encoder
        state = self._state.taking(read_interactions(interactions), texts, views, encoder)
        return PreferenceModel(state, encoder, self._encoder_is)

    @overload
    def report(self) -> ModelReport: ...

    @overload
    def report(self, user: str) -> UserReport: ...

    def report(self, user: str | None = None) -> UserReport | ModelReport:
        """What the model learned of a user, or of everybody."""
        if user is None:
            return ModelReport.of(self._state, self._stances.share[self._known])
        stance = self._of([user], None)
        own = self._likes_of(user)
        units = self._scorer.items
        return UserReport.of(
            user, self._state, stance, (units @ stance.interest[0], units @ stance.conformity[0]), own, self._popularity
        )

    def save(self, folder: str | Path) -> None:
        """Write the model; a model that was there before is replaced in one go."""
        state = self._state
        arrays = {name: getattr(state, name) for name in _ARRAYS} | {
            f"weights.{k}": v for k, v in state.weights.items()
        }
        description = {
            "settings": state.settings.as_dict(),
            "encoder": dict(zip(("name", "version"), self._encoder_is, strict=True)),
            "users": state.users,
            "items": state.items,
            "titles": state.titles,
            "view_names": state.view_names,
            "facts": state.facts,
            "history": state.history,
        }
        write_model(Path(folder), arrays, description)

    @classmethod
    def load(cls, folder: str | Path, *, encoder: EncoderChoice | None = None) -> PreferenceModel:
        """Read a model. An encoder is needed again only where it was a callable or a mapping."""
        arrays, description = read_model(Path(folder))
        weights = {name.removeprefix("weights."): rows for name, rows in arrays.items() if name.startswith("weights.")}
        try:
            known = description["encoder"]["name"], description["encoder"]["version"]
            state = State(
                settings=PreferenceSettings.from_mapping(description["settings"]),
                users=tuple(description["users"]),
                items=tuple(description["items"]),
                titles=description["titles"],
                view_names=tuple(description["view_names"]),
                weights=weights,
                facts=description["facts"],
                history=tuple(description["history"]),
                **{name: arrays[name] for name in _ARRAYS},
            )
            model = cls(state, None, known)
        except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
            raise FileRefusedError(
                f"{folder} is damaged: {error!r}", fix="save the model again, or fit it anew"
            ) from error
        if encoder is not None:
            model._encoder = _same(open_encoder(encoder), known)
        return model

    def _scored(self, users: Sequence[str], texts: Sequence[str], profile: Any) -> list[PreferenceScore]:
        self._need_texts()
        stance = self._of(users, profile)
        distinct = list(dict.fromkeys(texts))
        row_of = {text: row for row, text in enumerate(distinct)}
        rows = [row_of[text] for text in texts]
        vectors = self._encode(distinct)
        near = self._scorer.nearest(vectors)
        scores = self._scorer.scores(stance, self._scorer.places(vectors, near)[rows])
        return [
            PreferenceScore(
                user,
                text,
                **{name: float(getattr(scores, name)[n]) for name in SCORED},
                interest_share=float(stance.share[n]),
                nearest=self._near_items(near, rows[n], stance.interest[n]),
            )
            for n, (user, text) in enumerate(zip(users, texts, strict=True))
        ]

    def _near_items(self, near: Neighbours, row: int, interest: Float32Array) -> tuple[NearItem, ...]:
        places = near.items[row]
        liking = self._scorer.items[places] @ interest
        return tuple(
            NearItem(
                item,
                self._state.titles.get(item, ""),
                float(near.similarity[row, n]),
                float(near.weight[row, n]),
                float(self._popularity[place]),
                float(liking[n]),
            )
            for n, (place, item) in enumerate((place, self._state.items[place]) for place in places)
        )

    def _of(self, users: Sequence[str], profile: Any) -> Stances:
        """What is known of these users; a profile speaks for those without interactions."""
        if profile is not None and not all(len(self._likes_of(user)) for user in users):
            views = read_profile(profile)
            one = newcomers(self._state.expected_by(views, self._open()), self._state.settings)
            return one.of(np.zeros(len(users), np.int64))
        for user in users:
            if user not in self._places or not self._known[self._places[user]]:
                raise UnknownUserError(user)
        return self._stances.of([self._places[user] for user in users])

    def _likes_of(self, user: str) -> Any:
        place = self._places.get(user)
        return self._liked[:0] if place is None else self._liked[self._starts[place] : self._starts[place + 1]]

    def _ranking(self, users: Stances, by: By | None) -> Any:
        by = by or self._state.settings.rank_by
        if by not in ("fused", "interest", "conformity"):
            raise BadInputError(f'nothing is ranked by "{by}"', fix="give fused, interest or conformity")
        return users.fused @ self._item_rows.T if by == "fused" else getattr(users, by) @ self._scorer.items.T

    def _need_texts(self) -> None:
        if not self._scorer.reads_texts:
            raise BadInputError("this model knows no item texts to compare an action with", fix="fit it with items")

    def _encode(self, texts: Sequence[str]) -> Float32Array:
        for text in texts:
            if not isinstance(text, str) or not text.strip():
                raise BadInputError(f"the action {text!r} is no text", fix="say what the action is")
        return self._open().encode(texts)

    def _open(self) -> Encoder:
        if self._encoder is None:
            name = self._encoder_is[0]
            if not name:
                raise BadInputError("this model was fitted without texts", fix="fit it with items or profiles")
            if name == "mapping" or name.startswith("callable:"):
                raise BadInputError(f"the model's texts were encoded by {name}", fix="give it to load as encoder")
            self._encoder = _same(open_encoder(name), self._encoder_is)
        return self._encoder


def _same(encoder: Encoder, known: tuple[str, str]) -> Encoder:
    if (encoder.name, encoder.version) != known:
        raise FileRefusedError(
            f"the model's texts were encoded by {known[0]} {known[1]}, not by {encoder.name} {encoder.version}",
            fix="give the encoder that it was fitted with, or fit it anew",
        )
    return encoder
