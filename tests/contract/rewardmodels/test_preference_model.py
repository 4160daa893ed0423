"""The preference model as its users meet it: it learns who likes what, keeps it, takes in more, refuses nonsense."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agentfw_rewardmodels import (
    BadInputError,
    FileRefusedError,
    PreferenceModel,
    PreferenceSettings,
    Progress,
    StorageError,
    UnknownUserError,
)

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

SETTINGS = PreferenceSettings(dimensions=16, epochs=25, batch=256, profile_epochs=5, look_every=5, device="cpu")
QUICK = replace(SETTINGS, epochs=2)
# Four kinds of things to do, and people who each love one kind.
KINDS = ("museum art gallery", "beach sea swimming", "jazz concert music", "hiking mountain trail")
ITEMS = {f"i{n}": f"{KINDS[n % 4]} number {n}" for n in range(60)}
HOBBIES = ("museum and art", "beach and sea", "jazz and concert", "hiking and mountain")
PROFILES = {f"u{n}": {"hobby": f"loves the {HOBBIES[n % 4]}", "age": f"{20 + n} years old"} for n in range(48)}
PROFILES["newcomer"] = {"hobby": "loves jazz, goes to a concert"}
MUSEUM, JAZZ = "visit the art museum", "go to a jazz concert"


def likes(seed: int = 0) -> list[tuple[str, str]]:
    """Eight things each of the kind that they love, and one that everybody likes."""
    generator = np.random.default_rng(seed)
    rows = []
    for user in range(48):
        rows += [(f"u{user}", f"i{4 * n + user % 4}") for n in generator.choice(15, 8, replace=False).tolist()]
        rows.append((f"u{user}", "i0"))
    return list(dict.fromkeys(rows))


@pytest.fixture(scope="module")
def model() -> PreferenceModel:
    return PreferenceModel.fit(likes(), items=ITEMS, profiles=PROFILES, settings=SETTINGS, encoder="hash")


def same(one: PreferenceModel, other: PreferenceModel) -> bool:
    return all(one.score(user, JAZZ) == other.score(user, JAZZ) for user in one.users)


def test_somebody_known_by_a_profile_alone_has_a_score_at_once(model: PreferenceModel) -> None:
    assert model.score("newcomer", JAZZ).reward > model.score("newcomer", MUSEUM).reward
    assert model.score("newcomer", JAZZ).interest_share == 0.5
    stranger = {"hobby": "loves the museum and art"}
    assert model.score("x", MUSEUM, profile=stranger).reward > model.score("x", JAZZ, profile=stranger).reward
    assert model.score("u2", JAZZ, profile=stranger) == model.score("u2", JAZZ), "what they like says more"


def test_a_newcomer_has_interest_and_conformity_of_those_with_such_a_profile() -> None:
    """Everybody likes five things of their kind, and one of each kind that everybody goes to."""
    generator, hobbies = np.random.default_rng(3), ("museums and art", "jazz and concerts", "hiking and mountains")
    items, hits = [f"i{place}" for place in range(36)], ["i0", "i1", "i2"]
    rows = []
    for user in range(36):
        own = generator.choice([item for item in items[user % 3 :: 3] if item not in hits], 5, replace=False)
        rows += [(f"u{user}", item) for item in [*own.tolist(), *hits]]
    profiles = {f"u{user}": {"hobby": hobbies[user % 3]} for user in range(36)}
    newcomers = {f"new {kind}": {"hobby": hobby} for kind, hobby in enumerate(hobbies)}
    settings = PreferenceSettings(dimensions=16, epochs=40, validation=0.0, learning_rate=0.01, device="cpu")
    model = PreferenceModel.fit(rows, profiles={**profiles, **newcomers}, settings=settings, encoder="hash:32")

    for kind, newcomer in enumerate(newcomers):
        alike = [model.score_items([f"u{user}"] * 36, items) for user in range(kind, 36, 3)]
        own_scores = model.score_items([newcomer] * 36, items)
        means = {name: np.mean([getattr(one, name) for one in alike], axis=0) for name in ("interest", "conformity")}
        for name in means:
            found = {other: np.corrcoef(getattr(own_scores, name), mean)[0, 1] for other, mean in means.items()}
            assert found[name] > 0.99
            assert found[name] == max(found.values())


def test_profiles_change_nothing_for_whom_likes_are_known() -> None:
    of_known = {user: views for user, views in PROFILES.items() if user != "newcomer"}
    without, given = (
        PreferenceModel.fit(likes(), items=ITEMS, profiles=profiles, settings=SETTINGS, encoder="hash")
        for profiles in (None, of_known)
    )

    for user in without.users:
        assert given.score(user, JAZZ).reward == pytest.approx(without.score(user, JAZZ).reward, abs=1e-4)


def test_a_profile_counts_until_there_are_likes(model: PreferenceModel) -> None:
    """Somebody who comes as a friend of jazz and likes museums alone is known by the museums, more with each."""
    museums = [("newcomer", f"i{4 * n}") for n in range(1, 6)]
    rewards = [model.update(museums[:count]).score("newcomer", MUSEUM).reward for count in (1, 5)]

    assert model.score("newcomer", MUSEUM).reward < rewards[0] <= rewards[1]


def test_a_score_says_what_it_rests_on(model: PreferenceModel) -> None:
    score = model.score("u2", JAZZ)
    assert "jazz" in score.nearest[0].text
    assert sum(near.weight for near in score.nearest) == pytest.approx(1.0, abs=1e-5)
    similarity = [near.similarity for near in score.nearest]
    assert similarity == sorted(similarity, reverse=True)

    explained = model.explain("u2", JAZZ)
    assert explained.score == score
    assert any("jazz" in own.text for own in explained.history)
    assert JAZZ in explained.table()
    assert json.loads(json.dumps(explained.as_dict()))["score"]["user"] == "u2"


def test_many_scores_are_the_same_as_one_by_one_and_as_from_vectors(model: PreferenceModel) -> None:
    pairs = [(user, text) for user in ("u0", "u1", "newcomer") for text in (MUSEUM, JAZZ)]
    many = model.score_many(pairs)

    for one, (user, text) in zip(many, pairs, strict=True):
        alone = model.score(user, text)
        assert [one.score, one.reward] == pytest.approx([alone.score, alone.reward], abs=1e-5)
    assert model.score_many([]) == []


def test_recommendations_are_of_ones_kind_and_not_what_one_knows(model: PreferenceModel) -> None:
    known = {item for user, item in likes() if user == "u2"}
    found = model.recommend("u2", 5)

    assert len(found) == 5
    assert not known & {item for item, _ in found}
    assert sum("jazz" in ITEMS[item] for item, _ in found) >= 4
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert {item for item, _ in model.recommend("u2", 60, seen=True)} == set(ITEMS)


def test_held_out_likes_are_found(model: PreferenceModel) -> None:
    found = model.evaluate([(f"u{user}", f"i{4 * n + user % 4}") for user in range(48) for n in range(15)])

    assert found.users == 48
    assert found.recall > 0.9  # a list of 20 has room for the seven of one's kind that are left


def test_one_seed_is_one_model_and_leaves_torchs_own_state_alone() -> None:
    torch.manual_seed(5)
    before = torch.get_rng_state()
    small = replace(SETTINGS, epochs=3)
    models = [PreferenceModel.fit(likes(), items=ITEMS, settings=small, encoder="hash") for _ in range(2)]
    other = PreferenceModel.fit(likes(), items=ITEMS, settings=replace(small, seed=8), encoder="hash")

    assert same(*models)
    assert not same(models[0], other)
    assert torch.equal(before, torch.get_rng_state())


def test_what_is_saved_is_what_is_loaded(model: PreferenceModel, tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    loaded = PreferenceModel.load(tmp_path / "model")

    assert same(model, loaded)
    assert (loaded.facts, loaded.history, loaded.settings) == (model.facts, model.history, model.settings)
    model.save(tmp_path / "model")
    assert len(list((tmp_path / "model").iterdir())) == 2


def test_scoring_needs_no_torch(model: PreferenceModel, tmp_path: Path) -> None:
    model.save(tmp_path)
    code = (
        "import sys; from agentfw_rewardmodels import PreferenceModel\n"
        f"model = PreferenceModel.load({str(tmp_path)!r}).update([('new', 'i2')])\n"
        f"print(model.score('new', {JAZZ!r}).reward, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split()[1] == "False"


def test_new_likes_count_without_training_and_the_old_model_stays(model: PreferenceModel) -> None:
    before = model.score("u0", JAZZ)
    updated = model.update([("new", "i2"), ("new", "i6"), ("u0", "i2")], items={"i90": "jazz in the park"})

    assert updated.score("new", JAZZ).reward > updated.score("new", MUSEUM).reward
    assert "new" not in model.users
    assert updated.facts["likes"] == model.facts["likes"] + 3
    assert model.score("u0", JAZZ) == before
    assert "i90" in [item for item, _ in updated.recommend("u2", 20)]
    again = updated.update([("u0", "i2")], items={"i3": "opera"})
    assert [again.facts[name] - updated.facts[name] for name in ("likes", "duplicates")] == [0, 1]
    assert again.score_items(["u0"], ["i2"]) == updated.score_items(["u0"], ["i2"])
    near = again.score("u2", "opera").nearest[0]
    assert (near.item, near.text) == ("i3", "opera"), "an item that is described anew"
    with pytest.raises(UnknownUserError):
        model.score("new", JAZZ)


def test_an_update_takes_profiles_and_takes_likes_back(model: PreferenceModel) -> None:
    updated = model.update([("u0", "i0", 0)], profiles={"zed": {"hobby": "loves jazz and concerts"}})

    assert updated.facts["likes"] == model.facts["likes"] - 1
    assert updated.score("zed", JAZZ).reward > updated.score("zed", MUSEUM).reward
    with pytest.raises(BadInputError, match='unknown view "shoe size"'):
        model.update(profiles={"zed": {"shoe size": "43"}})


def test_who_goes_takes_along_the_words_of_what_nobody_else_likes(model: PreferenceModel, tmp_path: Path) -> None:
    with_more = model.update([("new", "said"), ("new", "i0")], items={"said": "the jazz of my inimitable aunt"})

    with_more.without("new").save(tmp_path)

    kept = (tmp_path / "model.json").read_text()
    assert ("inimitable" in kept, ITEMS["i0"] in kept) == (False, True)


def test_a_refit_that_starts_warm_is_better_at_once(model: PreferenceModel) -> None:
    brief = replace(SETTINGS, epochs=1, look_every=1)
    more = [*likes(), ("new", "i2"), ("new", "i6")]
    given: dict[str, Any] = {"items": ITEMS, "profiles": PROFILES, "settings": brief, "encoder": "hash"}
    cold, warm = (PreferenceModel.fit(more, start=start, **given) for start in (None, model))

    assert warm.history[0]["loss"] < cold.history[0]["loss"]
    assert warm.history[0]["metric"] > cold.history[0]["metric"]


def test_training_ends_when_the_held_out_likes_are_found_no_better() -> None:
    seen: list[Progress] = []
    settings = replace(SETTINGS, epochs=200, patience=2, look_every=1)
    model = PreferenceModel.fit(likes(), settings=settings, progress=seen.append)

    metrics = [one["metric"] for one in model.history]
    assert len(metrics) < 200
    assert metrics.index(max(metrics)) == len(metrics) - 3
    assert [one.epoch for one in seen] == list(range(1, len(metrics) + 1))
    at_the_best = PreferenceModel.fit(likes(), settings=replace(settings, epochs=len(metrics) - 2))
    assert model.recommend("u2", 20) == at_the_best.recommend("u2", 20), "the weights of the best epoch are kept"


@pytest.mark.parametrize("branches", ["interest", "conformity"])
def test_a_branch_can_be_left_out(branches: Any) -> None:
    settings = replace(SETTINGS, branches=branches, epochs=5)
    score = PreferenceModel.fit(likes(), items=ITEMS, settings=settings, encoder="hash").score("u2", JAZZ)

    assert score.interest_share == (branches == "interest")
    assert (score.interest == 0) == (branches == "conformity")
    assert (score.conformity == 0) == (branches == "interest")


def test_what_was_settled_while_reading_is_said() -> None:
    rows = [("ana", "zoo"), ("ana", "zoo"), ("ana", "sea"), ("ana", "sea", 0), ("bob", "sea"), ("bob", "inn")]
    model = PreferenceModel.fit(rows, items={"zoo": "animals", "sea": "swimming"}, settings=SETTINGS, encoder="hash")

    wanted = {"duplicates": 1, "contradictions": 1, "items_without_text": 1, "users_with_one_like": 1, "likes": 3}
    assert {name: model.facts[name] for name in wanted} == wanted
    assert model.score("ana", "animals").nearest
    assert [item for item, _ in model.recommend("ana", 5)]


fit = PreferenceModel.fit


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda model: model.score("nobody", JAZZ), 'unknown user "nobody"'),
        (lambda model: model.score("u1", " "), "is empty or not a string"),
        (lambda model: model.score("nobody", JAZZ, profile={"shoe size": "43"}), 'unknown view "shoe size"'),
        (lambda model: model.score_items(["u1"], ["i999"]), 'unknown item "i999"'),
        (lambda model: model.recommend("u1", by="luck"), 'unknown ranking method "luck"'),
        (lambda model: model.evaluate(likes()), "no like in the table is new"),
        (lambda model: fit([("ana", "zoo", 0)]), "contain no like"),
        (lambda model: fit([("ana", "zoo"), ("bob", "")]), "row 2 of the interactions has no valid item"),
        (lambda model: fit([("ana", "zoo", "often")]), "row 1 of the interactions has an invalid value"),
        (lambda model: fit([("ana",)]), "row 1 of the interactions is"),
        (lambda model: fit("likes.xls"), "unknown file type"),
        (lambda model: fit("nowhere.csv"), "can't be read"),
        (lambda model: fit(likes(), items=[("i0", "zoo"), ("i0", "sea")]), '"i0" has two texts'),
        (lambda model: fit(likes(), settings=QUICK).score("u1", JAZZ), "has no item texts"),
        (lambda model: fit([("ana", "zoo")]), "only one item"),
        (lambda model: fit(likes(), validation=[("x", "y")]), "no like in the validation table"),
        (lambda model: fit(likes(), items=ITEMS, encoder="w2v"), 'unknown encoder "w2v"'),
        (lambda model: fit(likes(), items=ITEMS, encoder=lambda texts: [[np.nan]] * len(texts)), "NaN"),
        (lambda model: PreferenceSettings(epochs=0), "invalid epochs: 0"),
        (lambda model: PreferenceSettings.from_mapping({"dimension": 3}), 'unknown setting "dimension"'),
        (lambda model: PreferenceSettings(branches="interest", rank_by="conformity"), "invalid rank_by"),
    ],
)
def test_bad_input_is_told_with_fix(model: PreferenceModel, call: Callable[[PreferenceModel], Any], says: str) -> None:
    with pytest.raises(BadInputError) as caught:
        call(model)

    assert says in caught.value.message
    assert caught.value.fix


@pytest.fixture
def saved(model: PreferenceModel, tmp_path: Path) -> Path:
    model.save(tmp_path / "model")
    return tmp_path / "model"


def _poison(folder: Path) -> None:
    from safetensors.numpy import load_file, save_file

    path = next(folder.glob("*.safetensors"))
    arrays = load_file(path)
    arrays["own_users"][3, 2] = np.nan
    save_file(arrays, path)


def _cut(folder: Path) -> None:
    path = next(folder.glob("*.safetensors"))
    path.write_bytes(path.read_bytes()[:1000])


def _rewrite(folder: Path, **changes: Any) -> None:
    path = folder / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


@pytest.mark.parametrize(
    ("harm", "says"),
    [
        (_poison, "contains NaN or infinity in own_users"),
        (_cut, "can't be read"),
        (lambda folder: _rewrite(folder, version=99), "has format 99"),
        (lambda folder: _rewrite(folder, users=["only one"]), "is damaged"),
        (shutil.rmtree, "contains no preference model"),
    ],
)
def test_a_damaged_or_foreign_model_is_refused(saved: Path, harm: Callable[[Path], Any], says: str) -> None:
    harm(saved)

    with pytest.raises(FileRefusedError) as caught:
        PreferenceModel.load(saved)

    assert says in caught.value.message
    assert caught.value.fix


def test_a_failed_save_keeps_the_old_one(saved: Path, model: PreferenceModel, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {path.name: path.read_bytes() for path in saved.iterdir()}
    other = model.update([("new", "i2")])

    def full(*arguments: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        other.save(saved)

    assert {path.name: path.read_bytes() for path in saved.iterdir()} == before


def test_an_encoder_of_ones_own_is_asked_for_again_and_checked(tmp_path: Path) -> None:
    def letters(texts: Any) -> Any:
        return [[text.count(letter) + 0.1 for letter in "abcdefghij"] for text in texts]

    def others(texts: Any) -> Any:
        return letters(texts)

    model = PreferenceModel.fit(likes(), items=ITEMS, settings=QUICK, encoder=letters)
    model.save(tmp_path)

    assert same(model, PreferenceModel.load(tmp_path, encoder=letters))
    with pytest.raises(BadInputError, match="encoded by callable"):
        PreferenceModel.load(tmp_path).score("u1", JAZZ)
    with pytest.raises(FileRefusedError, match="not by callable"):
        PreferenceModel.load(tmp_path, encoder=others)
