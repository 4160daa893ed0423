"""RecBole's LightGCN on a given split; preference_movielens.py runs this in an environment that has RecBole.

The one rule: nothing of agentfw is imported here, since that environment has none.

    python benchmarks/recbole_lightgcn.py FOLDER SEED

FOLDER holds split.json, the likes for training and for validation; it gets scores.npy, users by items, and answer.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import torch


def main(folder: Path, seed: int) -> None:
    train, validation = json.loads((folder / "split.json").read_text())
    users = list(dict.fromkeys(user for user, _ in train))
    items = list(dict.fromkeys(item for _, item in train))
    known = set(users), set(items)
    validation = [(user, item) for user, item in validation if user in known[0] and item in known[1]]
    (folder / "likes").mkdir()
    # A test part must be there; it is looked at by nobody.
    for part, likes in {"train": train, "valid": validation, "test": validation}.items():
        lines = ["user_id:token\titem_id:token", *(f"{user}\t{item}" for user, item in likes)]
        (folder / "likes" / f"likes.{part}.inter").write_text("\n".join(lines) + "\n")

    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.model.general_recommender import LightGCN
    from recbole.trainer import Trainer
    from recbole.utils import init_seed

    config = Config(
        model="LightGCN",
        dataset="likes",
        config_dict={
            "data_path": str(folder),
            "checkpoint_dir": str(folder),
            "benchmark_filename": ["train", "valid", "test"],
            "USER_ID_FIELD": "user_id",
            "ITEM_ID_FIELD": "item_id",
            "load_col": {"inter": ["user_id", "item_id"]},
            "use_gpu": False,
            "seed": seed,
            "epochs": 1000,
            "stopping_step": 10,
            "eval_step": 5,
            "train_batch_size": 2048,
            "learning_rate": 2e-3,
            "reg_weight": 1e-4,
            "n_layers": 2,
            "topk": [20],
            "metrics": ["Recall", "NDCG"],
            "valid_metric": "NDCG@20",
            "eval_args": {"split": {"RS": [8, 1, 1]}, "order": "RO", "group_by": "user", "mode": "full"},
            "show_progress": False,
            "save_dataset": False,
        },
    )
    init_seed(seed, True)
    dataset = create_dataset(config)
    train_data, valid_data, _ = data_preparation(config, dataset)
    model = LightGCN(config, train_data.dataset)
    best = {"metric": -1.0, "epochs": 0, "weights": {}}

    def keep(epoch: int, metric: float) -> None:
        best["epochs"] = epoch + 1
        if metric > best["metric"]:
            best["metric"], best["weights"] = metric, {k: v.clone() for k, v in model.state_dict().items()}

    Trainer(config, model).fit(train_data, valid_data, saved=False, show_progress=False, callback_fn=keep)
    model.load_state_dict(best["weights"])
    model.restore_user_e = model.restore_item_e = None
    with torch.no_grad():
        user_rows, item_rows = model.forward()
    numbers = [torch.as_tensor(dataset.token2id("user_id", users)), torch.as_tensor(dataset.token2id("item_id", items))]
    np.save(folder / "scores.npy", (user_rows[numbers[0]] @ item_rows[numbers[1]].T).numpy())
    answer = {"users": users, "items": items, "epochs": best["epochs"]}
    (folder / "answer.json").write_text(json.dumps(answer))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("seed", type=int)
    main(**vars(parser.parse_args()))
