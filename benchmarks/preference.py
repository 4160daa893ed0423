"""The preference model: do its branches find the cause of a like, and how does it rank films beside LightGCN?

    python benchmarks/preference.py causes
    python benchmarks/preference.py movielens --seeds 5
    python benchmarks/preference.py movielens --split cold

`causes` generates likes whose causes are known. Each user has a favourite topic and a share of likes that come from
popularity instead. A like of interest is of the topic, no matter who else likes the item. A like of conformity is of a
popular item, no matter its topic. The more the standardised score of the interest branch exceeds that of the conformity
branch, the more a like counts as interest. The model sees only users and items. The figure is the area under the ROC
curve, with a bootstrapped 95% interval over the seeds. The target is at least 0.8 for the branches, and no better than
chance without weighting.

`movielens` ranks the films of MovieLens-100k. Every side sees the same likes, stops early on the same validation likes,
and is evaluated by the same code on the same test likes. Only items that a user liked in training are excluded from the
ranking. A like is a rating of at least 4. Of the likes drawn by intervention, half are the test and a quarter the
validation; there the preference model ranks by interest.

| split | what is held out |
| --- | --- |
| usual | 10% of each user's likes for validation and 10% for the test, at random |
| intervened | 40% of all likes, drawn by one over the item's popularity as in DICE; a quarter returns to training |
| cold | all likes of every fifth user, who is known only by age, gender and occupation |

Without `--data`, the data come from the wheel of recbole 1.2.1, which pip downloads into a cache folder. `--data` is a
folder with `ml-100k.inter` and `ml-100k.user`, or with other likes in RecBole's format and `--name`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agentfw_benchmarks import Options, difference_of, mean_of, print_aligned, shown, tell
from agentfw_rewardmodels import PreferenceModel, PreferenceSettings
from agentfw_rewardmodels.preference.scoring import recall_and_ndcg, top

TOPICS = 10
COUNT = 20
LEAST = 4.0
"""A rating that is a like."""
CACHE = Path.home() / ".cache" / "agentfw-benchmarks"
USUAL = PreferenceSettings(device="cpu", batch=4096, learning_rate=5e-3)
INTERVENED = replace(USUAL, rank_by="interest")


# The causes of likes


class World(NamedTuple):
    likes: list[tuple[str, str]]
    interested: np.ndarray[Any, np.dtype[np.bool_]]
    unpopularity: np.ndarray[Any, np.dtype[np.float64]]
    truth: np.ndarray[Any, np.dtype[np.float64]]


def auc(values: NDArray[Any], kinds: NDArray[np.bool_]) -> float:
    """Return how often a positive scores above a negative. Ties count half."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    above = int(kinds.sum())
    below = len(kinds) - above
    return float((ranks[kinds].sum() - above * (above + 1) / 2) / (above * below))


def world(users: int, items: int, likes: int, seed: int) -> World:
    generator = np.random.default_rng([seed, 11])
    topic = generator.permutation(items) % TOPICS
    fame = 1.0 / (1 + generator.permutation(items))
    fame /= fame.sum()
    favourite, share = generator.integers(0, TOPICS, users), generator.uniform(0.2, 0.8, users)
    rows: list[tuple[int, int, bool, float]] = []
    for user in range(users):
        own = (topic == favourite[user]) / (topic == favourite[user]).sum()
        seen: set[int] = set()
        while len(seen) < likes:
            interested = bool(generator.random() >= share[user])
            item = int(generator.choice(items, p=own if interested else fame))
            if item in seen:
                if interested and len(seen & set(np.flatnonzero(own).tolist())) == (own > 0).sum():
                    break
                continue
            seen.add(item)
            wanted = (1 - share[user]) * own[item]
            rows.append((user, item, interested, wanted / (wanted + share[user] * fame[item])))
    counts = np.bincount([item for _, item, _, _ in rows], minlength=items)
    return World(
        [(f"u{user}", f"i{item}") for user, item, _, _ in rows],
        np.array([interested for _, _, interested, _ in rows]),
        np.array([-float(counts[item]) for _, item, _, _ in rows]),
        np.array([chance for _, _, _, chance in rows]),
    )


def branches(made: World, settings: PreferenceSettings) -> float:
    model = PreferenceModel.fit(made.likes, settings=settings)
    scores = model.score_items([user for user, _ in made.likes], [item for _, item in made.likes])
    return auc(scores.interest_z - scores.conformity_z, made.interested)


def causes(users: int, items: int, likes: int, seeds: int, settings: PreferenceSettings) -> dict[str, Any]:
    figures: dict[str, list[float]] = {}
    for seed in range(seeds):
        made, seeded = world(users, items, likes, seed), replace(settings, seed=seed)
        for row, value in {
            "branches": branches(made, seeded),
            "without weighting": branches(made, replace(seeded, popularity_weighting=False)),
            "unpopularity alone": auc(made.unpopularity, made.interested),  # knows nothing about the user
            "the truth": auc(made.truth, made.interested),  # topics, popularity and shares: the best possible
        }.items():
            figures.setdefault(row, []).append(value)
    rows = [{"row": name, "auc": mean_of(values), "values": values} for name, values in figures.items()]
    gain = difference_of(figures["branches"], figures["without weighting"])
    size = {"users": users, "items": items, "likes": likes, "seeds": seeds}
    return {**size, "rows": rows, "gain": gain}


# Films

Likes = list[tuple[str, str]]


class Split(NamedTuple):
    train: Likes
    validation: Likes
    test: Likes


class Data(NamedTuple):
    likes: Likes
    profiles: dict[str, dict[str, str]]


def folder(given: str = "") -> Path:
    """Where the data are: in the given folder, or in a cache, into which they are downloaded once."""
    if given:
        return Path(given)
    found = CACHE / "recbole" / "dataset_example" / "ml-100k"
    if not found.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", str(CACHE), "recbole==1.2.1"]
        subprocess.run(command, check=True)
        with zipfile.ZipFile(next(CACHE.glob("recbole-1.2.1-*.whl"))) as wheel:
            wheel.extractall(CACHE, [name for name in wheel.namelist() if "/ml-100k/" in name])
    return found


def rows(path: Path) -> list[dict[str, str]]:
    """The rows of a file by the names in its head, of which the types are left out."""
    lines = path.read_text("utf-8").splitlines()
    names = [name.partition(":")[0] for name in lines[0].split("\t")]
    return [dict(zip(names, line.split("\t"), strict=True)) for line in lines[1:]]


def load(where: Path, name: str) -> Data:
    likes = [
        (row["user_id"], row["item_id"])
        for row in rows(where / f"{name}.inter")
        if float(row.get("rating", LEAST)) >= LEAST
    ]
    people = where / f"{name}.user"
    profiles = {
        row["user_id"]: {
            "age": f"{int(float(row['age'])) // 10 * 10} to {int(float(row['age'])) // 10 * 10 + 9} years old",
            "gender": "woman" if row["gender"] == "F" else "man",
            "occupation": row["occupation"],
        }
        for row in (rows(people) if people.exists() else [])
    }
    return Data(list(dict.fromkeys(likes)), profiles)


def usual(data: Data, seed: int) -> Split:
    generator = np.random.default_rng([seed, 21])
    by_user: dict[str, list[str]] = {}
    for user, item in data.likes:
        by_user.setdefault(user, []).append(item)
    split = Split([], [], [])
    for user, items in by_user.items():
        order = [items[n] for n in generator.permutation(len(items))]
        tenth = len(items) // 10
        split.test.extend((user, item) for item in order[:tenth])
        split.validation.extend((user, item) for item in order[tenth : 2 * tenth])
        split.train.extend((user, item) for item in order[2 * tenth :])
    return split


def intervened(data: Data, seed: int) -> Split:
    generator = np.random.default_rng([seed, 22])
    counts = Counter(item for _, item in data.likes)
    chance = np.array([1.0 / counts[item] for _, item in data.likes])
    order = generator.choice(len(chance), len(chance) * 2 // 5, replace=False, p=chance / chance.sum())
    drawn, fifth = [data.likes[n] for n in order], len(chance) // 5
    rest = set(drawn)
    train = [like for like in data.likes if like not in rest] + drawn[fifth + fifth // 2 :]
    return Split(train, drawn[fifth : fifth + fifth // 2], drawn[:fifth])


def judged(scores: Any, users: Sequence[str], items: Sequence[str], split: Split) -> dict[str, float]:
    """Recall and NDCG of a matrix of scores."""
    row, column = {user: n for n, user in enumerate(users)}, {item: n for n, item in enumerate(items)}
    scores = np.array(scores, np.float32)
    for user, item in split.train:
        if user in row and item in column:
            scores[row[user], column[item]] = -np.inf
    relevant: dict[str, set[int]] = {}
    for user, item in split.test:
        if user in row and item in column:
            relevant.setdefault(user, set()).add(column[item])
    ranked = top(scores[[row[user] for user in relevant]], COUNT)
    recall, ndcg = recall_and_ndcg(ranked, list(relevant.values()))
    return {"recall": float(recall.mean()), "ndcg": float(ndcg.mean())}


def ours(split: Split, seed: int, settings: PreferenceSettings) -> dict[str, float]:
    model = PreferenceModel.fit(split.train, validation=split.validation, settings=replace(settings, seed=seed))
    found = model.evaluate(split.test, count=COUNT)
    return {"recall": found.recall, "ndcg": found.ndcg, "epochs": float(len(model.history))}


def popularity(split: Split) -> dict[str, float]:
    users, items = names(split)
    counts = Counter(item for _, item in split.train)
    return judged(np.tile([counts[item] for item in items], (len(users), 1)), users, items, split)


def names(split: Split) -> tuple[list[str], list[str]]:
    return list(dict.fromkeys(user for user, _ in split.train)), list(dict.fromkeys(item for _, item in split.train))


def geometric(split: Split, seed: int) -> dict[str, float]:
    """PyTorch Geometric's LightGCN, trained until the validation likes are found no better."""
    import torch
    from torch_geometric.nn.conv.gcn_conv import gcn_norm
    from torch_geometric.nn.models import LightGCN

    users, items = names(split)
    row, column = {user: n for n, user in enumerate(users)}, {item: n for n, item in enumerate(items)}
    likes = torch.tensor([(row[user], column[item]) for user, item in split.train]).T
    held_out = Split(split.train, [], split.validation)  # `judged` passes over whom it doesn't know
    count = len(users) + len(items)
    both = torch.cat([likes + torch.tensor([[0], [len(users)]]), likes.flip(0) + torch.tensor([[len(users)], [0]])], 1)
    # Its fast way of propagating: the same outputs as with `edge_index`.
    edges, weights = gcn_norm(both, num_nodes=count, add_self_loops=False)
    pairs = torch.sparse_coo_tensor(edges, weights, (count, count), check_invariants=True)
    adjacency = pairs.coalesce().to_sparse_csr()
    generator = torch.Generator().manual_seed(seed)
    model = LightGCN(count, 64, 2)
    with torch.no_grad():
        model.embedding.weight.normal_(0, 0.1, generator=generator)
    model.alpha = torch.full((3,), 1 / 3)
    for conv in model.convs:
        conv.normalize = False
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    liked = set(zip(*likes.tolist(), strict=True))

    def scores() -> Any:
        with torch.no_grad():
            out = model.get_embedding(adjacency)
            return (out[: len(users)] @ out[len(users) :].T).numpy()

    best, result, without_better, epoch = -1.0, scores(), 0, 0
    while without_better < 10 and epoch < 1000:
        epoch += 1
        order = torch.randperm(likes.shape[1], generator=generator)
        other = torch.randint(len(items), (likes.shape[1],), generator=generator)
        drawn_for = likes[0, order].tolist()
        for _ in range(5):
            wrong = [n for n, pair in enumerate(zip(drawn_for, other.tolist(), strict=True)) if pair in liked]
            other[wrong] = torch.randint(len(items), (len(wrong),), generator=generator)
        for part in range(0, len(order), 2048):
            some = order[part : part + 2048]
            out = model.get_embedding(adjacency)
            user, item = out[likes[0, some]], out[likes[1, some] + len(users)]
            unliked = out[other[part : part + 2048] + len(users)]
            nodes = torch.cat([likes[0, some], likes[1, some] + len(users), other[part : part + 2048] + len(users)])
            loss = model.recommendation_loss((user * item).sum(-1), (user * unliked).sum(-1), nodes, lambda_reg=1e-4)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch % 5 == 0:
            metric = judged(scores(), users, items, held_out)["ndcg"]
            without_better += 1
            if metric > best:
                best, result, without_better = metric, scores(), 0
    return {**judged(result, users, items, split), "epochs": float(epoch)}


def cold(data: Data, seed: int, settings: PreferenceSettings) -> dict[str, dict[str, float]]:
    """Held-out users, known by their profiles, beside the most popular items for everybody."""
    users = sorted(data.profiles)
    away = {users[n] for n in np.random.default_rng([seed, 23]).permutation(len(users))[: len(users) // 5]}
    train = [like for like in data.likes if like[0] not in away]
    items = {item for _, item in train}
    test = [like for like in data.likes if like[0] in away and like[1] in items]
    model = PreferenceModel.fit(train, profiles=data.profiles, settings=settings)
    found = model.evaluate(test, count=COUNT)
    order, people, counts = sorted(items), sorted({user for user, _ in test}), Counter(item for _, item in train)
    popular = np.tile([counts[item] for item in order], (len(people), 1))
    return {
        "preference model": {"recall": found.recall, "ndcg": found.ndcg, "epochs": float(len(model.history))},
        "popularity": judged(popular, people, order, Split([], [], test)),
    }


def films(options: argparse.Namespace) -> dict[str, Any]:
    data = load(folder(options.data), options.name)
    results: dict[str, Any] = {}
    for name in [options.split] if options.split else ["usual", "intervened", "cold"]:
        figures: dict[str, list[dict[str, float]]] = {}
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            for side, found in sides(name, data, seed, options):
                figures.setdefault(side, []).append(found)
        results[name] = summary(figures)
    return {"likes": len(data.likes), "seeds": options.seeds, "splits": results}


def sides(name: str, data: Data, seed: int, options: argparse.Namespace) -> list[tuple[str, dict[str, float]]]:
    if name == "cold":
        chosen = replace(USUAL, seed=seed, epochs=options.epochs, contrast_users=options.contrast_users)
        return list(cold(data, seed, chosen).items())
    split, settings = (usual(data, seed), USUAL) if name == "usual" else (intervened(data, seed), INTERVENED)
    settings = replace(settings, epochs=options.epochs, contrast_users=options.contrast_users)
    work: dict[str, Callable[[], dict[str, float]]] = {
        "preference model": lambda: ours(split, seed, settings),
        "popularity": lambda: popularity(split),
        "LightGCN, PyG": lambda: geometric(split, seed),
    }
    found = []
    for side, run in work.items():
        began = time.process_time()
        found.append((side, {**run(), "seconds": time.process_time() - began}))
        print(f"{name}, seed {seed}, {side}: {found[-1][1]}", file=sys.stderr, flush=True)
    return found


def summary(figures: dict[str, list[dict[str, float]]]) -> list[dict[str, Any]]:
    table = []
    for side, values in figures.items():
        row: dict[str, Any] = {"side": side, "values": values}
        for metric in ("recall", "ndcg"):
            row[metric] = mean_of([one[metric] for one in values])
            if side != "preference model":
                mine = [one[metric] for one in figures["preference model"]]
                row[f"{metric}_gain"] = difference_of(mine, [one[metric] for one in values])
        table.append(row)
    return table


def show_films(result: dict[str, Any]) -> None:
    for name, table in result["splits"].items():
        print(f"{name}: {result['likes']:,} likes, {result['seeds']} seeds")
        rows = []
        for row in table:
            gain = [shown(row["ndcg_gain"], "+.4f")] if "ndcg_gain" in row else []
            rows.append([row["side"], shown(row["recall"], ".4f"), shown(row["ndcg"], ".4f"), *gain])
        print_aligned(["", f"recall@{COUNT}", f"ndcg@{COUNT}", "ndcg gained"], rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(
        __doc__,
        users=300,
        items=200,
        likes=(24, "likes per user"),
        data=("", "data directory; default: download the data"),
        name=("ml-100k", "name of the files in that directory"),
        seeds=5,
        first_seed=0,
        epochs=USUAL.epochs,
        contrast_users=(USUAL.contrast_users, "`contrast_users` of the preference model"),
    )
    parser.add_argument("what", choices=("causes", "movielens"))
    parser.add_argument("--split", choices=["usual", "intervened", "cold"], help="run only this split")
    options = parser.parse_args(arguments)
    if options.what == "movielens":
        return tell(films(options), options.json, show_films)
    settings = PreferenceSettings(epochs=options.epochs, device="cpu")
    result = causes(options.users, options.items, options.likes, options.seeds, settings)
    return tell(result, options.json)


if __name__ == "__main__":
    main()
