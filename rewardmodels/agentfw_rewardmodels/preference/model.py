"""PreferenceModel: predicts what a user likes, separately from what everybody likes.

    from agentfw_rewardmodels import PreferenceModel

    model = PreferenceModel.fit("likes.csv", items="places.csv", profiles="people.csv")
    model.score("ana", "Book the museum first, then lunch nearby").reward
    model.save("preferences/")

Models are immutable: `fit`, `update` and `load` each return a new one. Only `fit` needs torch. Everything else runs on
numpy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..errors import BadInputError, FileRefusedError, UnknownUserError
from .encoders import Encoder, EncoderChoice, Float32Array, open_encoder
from .formulas import UserVectors, user_vectors
from .input_tables import Dataset, popularity, read_interactions, read_items, read_pairs, read_profile, read_profiles
from .model_state import REPAIR, ModelState
from .preference_settings import PreferenceSettings
from .scoring import Neighbours, Scorer, Scores, found_likes, new_user_vectors, top
from .training import Progress, fit

By = Literal["fused", "interest", "conformity"]
"""Ranking method: by expected likes, by the user's own interest, or by conformity."""
OWN_ITEMS = 5
SCORED = ("score", "interest", "conformity", "interest_z", "conformity_z", "reward")


class _Value:
    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """JSON values. NaN is None, because JSON has no NaN."""
        values: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        return {name: None if isinstance(value, float) and np.isnan(value) else value for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class NearItem:
    """A known item whose text is similar to an action."""

    item: str
    text: str
    similarity: float
    """Cosine similarity of the two texts."""
    weight: float
    """Share of this item in the action's position. All shares sum to 1."""
    popularity: float
    """0 to 1."""
    interest: float
    """How much the user's own interest favours the item, a cosine."""


@dataclass(frozen=True, slots=True)
class PreferenceScore(_Value):
    """The score of an action for a user."""

    user: str
    text: str
    score: float
    """Both branches together, a cosine (formula 47)."""
    interest: float
    """The user's own interest (46)."""
    conformity: float
    """The pull of what is popular (46)."""
    interest_z: float
    """Standardised over this user's scores of all known items, so that users can be compared."""
    conformity_z: float
    reward: float
    """From 0 to 1, computed from the two standardised scores (56)."""
    interest_share: float
    """Share of interest in the user's behaviour, from 0 to 1. The rest is conformity."""
    nearest: tuple[NearItem, ...]
    """The known items that the score is based on, most similar first."""


@dataclass(frozen=True, slots=True)
class OwnItem:
    """An item that the user liked, and its closeness to the action in the collaborative space."""

    item: str
    text: str
    closeness: float


@dataclass(frozen=True, slots=True)
class Explanation(_Value):
    """A score and the evidence for it."""

    score: PreferenceScore
    history: tuple[OwnItem, ...]
    """The items the user liked that are closest to the action."""

    def table(self) -> str:
        one = self.score
        lines = [
            f"{one.user}: {one.text}",
            f"reward {one.reward:.3f}   interest {one.interest:+.3f} (z {one.interest_z:+.2f})   "
            f"conformity {one.conformity:+.3f} (z {one.conformity_z:+.2f})",
            f"share of interest in their behaviour {one.interest_share:.2f}",
            "",
            *table(
                ("similar known items", "similar", "weight", "popular", "liked"),
                [
                    (near.text or near.item, near.similarity, near.weight, near.popularity, near.interest)
                    for near in one.nearest
                ],
            ),
        ]
        if self.history:
            own = [(own.text or own.item, own.closeness) for own in self.history]
            lines += ["", *table(("close to what they liked", "close"), own)]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Evaluation(_Value):
    """How well a model finds held-out likes."""

    recall: float
    ndcg: float
    users: int
    """Number of users with held-out likes."""
    count: int
    """Length of the ranked list."""


def table(head: Sequence[str], rows: Sequence[Sequence[str | float]], width: int = 44) -> list[str]:
    """Return lines with aligned columns. The first column is text, cut to `width`.

    >>> table(("item", "liked"), [("museum", 0.5)])
    ['item      liked', 'museum    0.500']
    """
    texts = [" ".join(str(row[0]).split()) for row in rows]
    texts = [text if len(text) <= width else text[: width - 1] + "…" for text in texts]
    shown = [[text, *(f"{value:.3f}" for value in row[1:])] for text, row in zip(texts, rows, strict=True)]
    first = max(len(line[0]) for line in [[head[0]], *shown])
    sizes = [max(8, len(name)) for name in head[1:]]
    return [
        line[0].ljust(first) + "".join(cell.rjust(size + 1) for cell, size in zip(line[1:], sizes, strict=True))
        for line in [list(head), *shown]
    ]


class PreferenceModel:
    """A trained model. Create one with `fit` or `load`."""

    def __init__(self, state: ModelState, encoder: Encoder | None, encoder_is: tuple[str, str]) -> None:
        self._state, self._encoder, self._encoder_is = state, encoder, encoder_is
        self._places = {user: place for place, user in enumerate(state.users)}
        users, self._item_rows = state.embeddings()
        likes, profile = state.with_likes(), (state.by_profile != 0).any((1, 2))
        self._user_vectors = user_vectors(users, state.weights, state.settings)
        self._user_vectors = self._user_vectors.replaced(
            ~likes, new_user_vectors(state.by_profile[~likes], state.settings)
        )
        self._known = likes | profile
        average = self._user_vectors.interest[likes].mean(0) if likes.any() else None
        self._scorer = Scorer(self._item_rows, state.texts, state.weights, state.settings, average)
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
        progress: Callable[[Progress], None] | None = None,
    ) -> PreferenceModel:
        """Train a model.

        A table is a path (.csv, .tsv, .jsonl, .parquet), a table of pandas, polars or pyarrow, or rows.

        - `interactions` has the columns `user` and `item`, and optionally `value` (above 0 is a like) and `time`.
        - `items` has the columns `item` and `text`.
        - `profiles` has the column `user`, and one column for each view.
        - `validation` is like `interactions`, and used for early stopping. Default: a random share of them.
        - `encoder` is the text encoder: a name or a callable. Default: the best one installed.
        - `start` is a model whose weights training starts from.
        """
        settings, tell = settings or PreferenceSettings(), progress or (lambda _: None)
        texts = {} if items is None else read_items(items)
        views = {} if profiles is None else read_profiles(profiles)
        opened = open_encoder(encoder) if texts or views else None
        data = Dataset.build(read_interactions(interactions), texts, views, opened)
        state = fit(data, texts, validation, settings, None if start is None else start._state, tell)
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
        """Counts of the training tables, such as likes and duplicates."""
        state = self._state
        return {
            "users": len(state.users),
            "items": len(state.items),
            "likes": state.likes.shape[1],
            "items_without_text": sum(item not in state.titles for item in state.items),
            "users_with_one_like": int((np.bincount(state.likes[0], minlength=len(state.users)) == 1).sum()),
            **{name: state.facts[name] for name in ("dislikes", "duplicates", "contradictions")},
            "users_without_profile": int((state.by_profile == 0).all((1, 2)).sum()),
        }

    @property
    def history(self) -> list[dict[str, float]]:
        """The loss of each epoch, and the validation metric where it was computed."""
        return [dict(one) for one in self._state.history]

    def score(self, user: str, text: str, *, profile: Any = None) -> PreferenceScore:
        """Score an action for a user. A user without interactions needs a `profile`."""
        return self._scored([user], [text], profile)[0]

    def score_many(self, pairs: Iterable[tuple[str, str]]) -> list[PreferenceScore]:
        """Score many pairs of user and text. Each distinct text is encoded once."""
        some = list(pairs)
        return self._scored([user for user, _ in some], [text for _, text in some], None) if some else []

    def score_items(self, users: Sequence[str], items: Sequence[str]) -> Scores:
        """Score known items by name, one for each user, for example interactions that happened."""
        place_of = {item: place for place, item in enumerate(self._state.items)}
        unknown = [item for item in items if item not in place_of]
        if unknown or len(users) != len(items):
            what = f'unknown item "{unknown[0]}"' if unknown else f"{len(users)} users, but {len(items)} items"
            raise BadInputError(what, fix="pass one known item for each user")
        places = self._scorer.items[[place_of[item] for item in items]]
        return self._scorer.scores(self._of(users, None), places, known=True)

    def explain(self, user: str, text: str, *, profile: Any = None) -> Explanation:
        """Score an action and return the evidence: similar known items, and the closest items that the user liked."""
        score = self._scored([user], [text], profile)[0]
        own = self._likes_of(user)
        close = np.asarray(self._scorer.items[own] @ self._scorer.places(self._encode([text]))[0])
        best = np.argsort(-close, kind="stable")[:OWN_ITEMS]
        liked = [(self._state.items[own[n]], float(close[n])) for n in best]
        return Explanation(score, tuple(OwnItem(item, self._state.titles.get(item, ""), one) for item, one in liked))

    def recommend(
        self, user: str, count: int = 20, *, by: By | None = None, seen: bool = False, profile: Any = None
    ) -> list[tuple[str, float]]:
        """Return the items that a user would like most. Items they are known to like are left out unless `seen`."""
        scores = self._ranking(self._of([user], profile), by)[0]
        if not seen:
            scores[self._likes_of(user)] = -np.inf
        places = top(scores[None], count)[0]
        return [(self._state.items[place], float(scores[place])) for place in places if np.isfinite(scores[place])]

    def evaluate(self, interactions: Any, *, count: int = 20, by: By | None = None) -> Evaluation:
        """Measure how well held-out likes are found. Unknown users and items, and known likes, are left out."""
        pairs = read_pairs(interactions, self._state.users, self._state.items, "interactions")
        width = len(self._state.items)
        new = ~np.isin(pairs[0] * width + pairs[1], self._state.likes[0] * width + self._state.likes[1])
        pairs = pairs[:, new & self._known[pairs[0]]]
        if not pairs.size:
            wrong = "no like in the table is new and of a known user and item"
            raise BadInputError(wrong, fix="pass likes that were held out")
        recall, ndcg = found_likes(
            pairs, count, lambda some: self._ranking(self._user_vectors.of(some), by), self._liked_at
        )
        return Evaluation(float(recall.mean()), float(ndcg.mean()), len(recall), count)

    def update(self, interactions: Any = (), *, items: Any = None, profiles: Any = None) -> PreferenceModel:
        """Return a model that also knows these tables, without training. Others change only through the graph."""
        texts = {} if items is None else read_items(items)
        views = {} if profiles is None else read_profiles(profiles)
        encoder = self._open() if texts or views else self._encoder
        state = self._state.taking(read_interactions(interactions), texts, views, encoder)
        return PreferenceModel(state, encoder, self._encoder_is)

    def without(self, user: str) -> PreferenceModel:
        """Return a model without this user: without their likes, their profile and their vectors.

        The words of items that nobody else likes, which may be the user's own, go too. Others change only through the
        graph: what the user liked loses a neighbour.
        """
        if user not in self.users:
            raise UnknownUserError(user)
        return PreferenceModel(self._state.without(user), self._encoder, self._encoder_is)

    def without_texts(self) -> PreferenceModel:
        """Return a model that scores the same, without the items' texts, which may be what was said to users."""
        return PreferenceModel(replace(self._state, titles={}), self._encoder, self._encoder_is)

    def save(self, folder: str | Path) -> None:
        """Write the model to a folder. An existing model there is replaced atomically."""
        self._state.save(Path(folder), self._encoder_is)

    @classmethod
    def load(cls, folder: str | Path, *, encoder: EncoderChoice | None = None) -> PreferenceModel:
        """Read a model. Pass `encoder` only if the model was fitted with a callable."""
        try:
            state, known = ModelState.load(Path(folder))
            model = cls(state, None, known)
        except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
            raise FileRefusedError(f"{folder} is damaged: {error!r}", fix=REPAIR) from error
        if encoder is not None:
            model._encoder = _same(open_encoder(encoder), known)
        return model

    def _scored(self, users: Sequence[str], texts: Sequence[str], profile: Any) -> list[PreferenceScore]:
        if not self._scorer.reads_texts:
            raise BadInputError("the model has no item texts to compare an action with", fix="fit it with items")
        of_users = self._of(users, profile)
        row_of = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        rows = [row_of[text] for text in texts]
        vectors = self._encode(list(row_of))
        near = self._scorer.nearest(vectors)
        scores = self._scorer.scores(of_users, self._scorer.places(vectors, near)[rows])
        return [
            PreferenceScore(
                user,
                text,
                **{name: float(getattr(scores, name)[n]) for name in SCORED},
                interest_share=float(of_users.share[n]),
                nearest=self._near_items(near, rows[n], of_users.interest[n]),
            )
            for n, (user, text) in enumerate(zip(users, texts, strict=True))
        ]

    def _near_items(self, near: Neighbours, row: int, interest: Float32Array) -> tuple[NearItem, ...]:
        places = near.items[row]
        items = [self._state.items[place] for place in places]
        titles = [self._state.titles.get(item, "") for item in items]
        liking = self._scorer.items[places] @ interest
        figures = np.stack([near.similarity[row], near.weight[row], self._popularity[places], liking], 1).tolist()
        return tuple(NearItem(item, title, *row) for item, title, row in zip(items, titles, figures, strict=True))

    def _of(self, users: Sequence[str], profile: Any) -> UserVectors:
        """Return the vectors of these users. The profile is used for users without interactions."""
        if profile is not None and not all(len(self._likes_of(user)) for user in users):
            predicted = self._state.predicted([read_profile(profile)], self._open())
            return new_user_vectors(predicted, self._state.settings).of(np.zeros(len(users), np.int64))
        for user in users:
            if user not in self._places or not self._known[self._places[user]]:
                raise UnknownUserError(user)
        return self._user_vectors.of([self._places[user] for user in users])

    def _likes_of(self, user: str) -> Any:
        return self._liked_at(self._places[user]) if user in self._places else self._liked[:0]

    def _liked_at(self, place: int) -> Any:
        return self._liked[self._starts[place] : self._starts[place + 1]]

    def _ranking(self, users: UserVectors, by: By | None) -> Any:
        by = by or self._state.settings.rank_by
        if by not in ("fused", "interest", "conformity"):
            raise BadInputError(f'unknown ranking method "{by}"', fix="use fused, interest or conformity")
        return users.scores(self._item_rows, self._scorer.items, by)

    def _encode(self, texts: Sequence[str]) -> Float32Array:
        for text in texts:
            if not isinstance(text, str) or not text.strip():
                raise BadInputError(f"the action {text!r} is empty or not a string", fix="describe the action in words")
        return self._open().encode(texts)

    def _open(self) -> Encoder:
        if self._encoder is None:
            if not (name := self._encoder_is[0]):
                raise BadInputError("the model was fitted without texts", fix="fit it with items or profiles")
            if name.startswith("callable:"):
                raise BadInputError(f"the model's texts were encoded by {name}", fix="pass it to load as encoder")
            self._encoder = _same(open_encoder(name), self._encoder_is)
        return self._encoder


def _same(encoder: Encoder, known: tuple[str, str]) -> Encoder:
    if (encoder.name, encoder.version) != known:
        wrong = f"the model's texts were encoded by {known[0]} {known[1]}, not by {encoder.name} {encoder.version}"
        raise FileRefusedError(wrong, fix="pass the encoder that it was fitted with, or fit a new model")
    return encoder
