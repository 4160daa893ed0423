"""What holds for any rewards: the theory's bounds, and what advantages don't depend on."""

from __future__ import annotations

import json
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfw.errors import StorageError
from agentfw.optimizer import Scored

from .conftest import chosen, make, table, values

relaxed = settings(deadline=None, max_examples=20)

COMPARING = [
    "grpo",
    "dr_grpo",
    "dapo",
    "gspo",
    "gdpo",
    "gigpo",
    "parpo",
    "empirical_bayes",
    "reinforce",
    "roundwise",
    "turnwise",
]


@st.composite
def groups_of_any_kind(draw: st.DrawFn) -> list[float]:
    """2 to 16 rewards of any size: equal, equal but for the last digits, nearly equal, or different."""
    size = draw(st.integers(2, 16))
    unit = draw(st.sampled_from([1e-300, 1e-30, 1e-6, 1.0, 1e6, 1e30, 1e99]))
    centre = draw(st.floats(-1, 1)) * unit
    spread = draw(st.sampled_from([0.0, 1e-16, 1e-13, 1e-9, 1e-3, 1.0])) * unit
    return [centre + spread * draw(st.floats(-1, 1)) for _ in range(size)]


@settings(relaxed, max_examples=60)
@given(
    history=st.lists(groups_of_any_kind(), min_size=0, max_size=5),
    drawn=groups_of_any_kind(),
    baseline=st.sampled_from(["min_upper", "max_lower", "anchor", "group"]),
    scale=st.sampled_from(["anchor", "group"]),
    variance=st.sampled_from(["batch", "baseline"]),
)
def test_no_history_gives_an_advantage_beyond_the_bound(
    history: list[list[float]], drawn: list[float], baseline: str, scale: str, variance: str
) -> None:
    """|A| <= w_base z + w_personal max(bound, z), z = (n - 1) / sqrt(n) being the largest z-score in a group of n."""
    parpo = chosen("parpo", {"baseline": baseline, "scale": scale, "variance": variance})
    for batch in history:
        parpo.advantages([make.tracked(batch, batch)])

    found = values(parpo.advantages([make.tracked(drawn, drawn)]))

    largest = (len(drawn) - 1) / math.sqrt(len(drawn))
    assert max(map(abs, found)) <= (0.5 * largest + 0.5 * max(4.0, largest)) * (1 + 1e-6)


@pytest.mark.parametrize("name", COMPARING)
@relaxed
@given(seed=st.integers(0, 10_000))
def test_the_order_of_samples_and_groups_means_nothing(name: str, seed: int) -> None:
    generator = random.Random(seed)
    batches = [[_group(generator, index) for index in range(3)] for _ in range(2)]
    straight, shuffled = chosen(name), chosen(name)
    for batch in batches:
        expected = table(straight.advantages(batch))
        other = [generator.sample(group, len(group)) for group in batch]
        generator.shuffle(other)

        found = table(shuffled.advantages(other))

        assert found.keys() == expected.keys()
        assert all(found[key] == pytest.approx(value, abs=1e-9) for key, value in expected.items())


@pytest.mark.parametrize(("name", "foreign"), [("parpo", {"anchors": {"ada": [1.0]}}), ("empirical_bayes", {})])
def test_what_is_known_of_users_outlives_a_restart_and_ends_when_they_are_forgotten(
    name: str, foreign: dict[str, object]
) -> None:
    batches = [[make.tracked([1.0, 0.0], [number, number + 2.5], user=f"{number % 2}")] for number in range(10)]
    whole, before, after = (chosen(name) for _ in range(3))
    for batch in batches[:7]:
        whole.advantages(batch)
        before.advantages(batch)
    after.restore(json.loads(json.dumps(before.state())))

    for batch in batches[7:]:
        assert values(after.advantages(batch)) == values(whole.advantages(batch))
    assert '"0"' in json.dumps(after.state())
    assert [after.forget("0"), after.forget("0")] == [True, False]
    assert '"0"' not in json.dumps(after.state())
    assert '"1"' in json.dumps(after.state())
    with pytest.raises(StorageError, match=f"of {name}"):
        after.restore(foreign)


def _group(generator: random.Random, index: int) -> list[Scored]:
    """Samples that differ in rewards, on both tracks."""
    size = generator.randint(1, 5)
    draw = [generator.uniform(-1, 1) for _ in range(2 * size)]
    return make.tracked(draw[:size], draw[size:], index=index, user=f"user {index % 2}")
