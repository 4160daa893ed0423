"""The learner `lora`: what an update leaves, how it goes on, and what it refuses."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from agentfw.errors import AgentfwError, SettingsError, StorageError, UsageError
from agentfw.learner import Batch
from agentfw.optimizer import Loss
from agentfw.settings import operational_keys, validate
from agentfw_plugins.learners.settings import LoraSettings

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from agentfw_plugins.learners import checkpoint, model_learner  # noqa: E402
from agentfw_plugins.learners.lora import LoraLearner  # noqa: E402

MakeBatch = Callable[..., Batch]
PROMPT = (10, 11, 12, 13)
GOOD, BAD = (20, 21, 22), (30, 31, 32)
PAIR = ([(PROMPT, GOOD, 1.0)], [(PROMPT, BAD, -1.0)])


@pytest.fixture
def learner_of(small_model: Path) -> Callable[..., LoraLearner]:
    def make(**changes: Any) -> LoraLearner:
        return LoraLearner(LoraSettings(**({"model": str(small_model), "learning_rate": 1e-2} | changes)))

    return make


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_several_answers_are_scored_as_each_alone(
    learner_of: Callable[..., LoraLearner], make_batch: MakeBatch
) -> None:
    """Answers of one prompt share a tree, and the last has a prompt of its own."""
    learner = learner_of()
    learner.update(make_batch(*PAIR))
    answers = [(PROMPT, GOOD), (PROMPT, BAD), ((*PROMPT, *GOOD), (40,)), ((7, 8), (9, 10, 11, 12, 13))]

    several = learner.score(answers).logprobs

    alone = [value for answer in answers for value in learner.score([answer]).logprobs]
    assert list(several) == pytest.approx(alone, abs=1e-5)
    assert len(several) == sum(len(answer) for _, answer in answers)


@pytest.mark.parametrize(
    "changes",
    [{}, {"weights": "all", "learning_rate": 1e-3}, {"optimizer": "adamw_8bit"}, {"precision": "bf16"}],
)
def test_what_was_better_than_expected_becomes_likelier(
    learner_of: Callable[..., LoraLearner], make_batch: MakeBatch, changes: dict[str, Any]
) -> None:
    learner = learner_of(**changes)
    before = [sum(learner.logprobs(PROMPT, answer)) for answer in (GOOD, BAD)]

    for _ in range(3):
        learner.update(make_batch(*PAIR))

    after = [sum(learner.logprobs(PROMPT, answer)) for answer in (GOOD, BAD)]
    assert after[0] > before[0] + 0.1
    assert after[1] < before[1] - 0.1
    base = [sum(learner.logprobs(PROMPT, answer, base=True)) for answer in (GOOD, BAD)]
    assert base == pytest.approx(before, abs=1e-4)


@pytest.mark.parametrize("changes", [{}, {"weights": "all"}, {"checkpointing": True}])
def test_nothing_is_left_on_a_device_that_is_moved_away_from(
    learner_of: Callable[..., LoraLearner], make_batch: MakeBatch, changes: dict[str, Any]
) -> None:
    """As a rest moves everything off a GPU; here to a device without memory, which every machine has."""
    learner = learner_of(**changes)
    learner.update(make_batch(*PAIR, loss=Loss(kl=0.01)))
    descent = learner._opened()

    descent.network.move("meta")

    tensors = [*descent.network._model.parameters(), *descent.network._model.buffers()]
    if changes.get("weights") == "all":  # the frozen copy that kl is measured from
        tensors += descent.network._reference.parameters()
    assert {tensor.device.type for tensor in tensors} == {"meta"}
    assert all(parameter.grad is None for parameter in descent.network.parameters())


def test_an_optimizer_s_state_goes_where_its_parameters_are() -> None:
    """But for AdamW's count of steps, which it keeps on the CPU."""
    parameter = torch.nn.Parameter(torch.zeros(3, device="meta"))
    optimizer = torch.optim.AdamW([parameter])
    optimizer.state[parameter] = {"step": torch.tensor(1.0), "exp_avg": torch.zeros(3), "exp_avg_sq": torch.zeros(3)}

    checkpoint.place_optimizer(optimizer)

    placed = {key: value.device.type for key, value in optimizer.state[parameter].items()}
    assert placed == {"step": "cpu", "exp_avg": "meta", "exp_avg_sq": "meta"}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_rest_gives_the_gpu_s_memory_back(learner_of: Callable[..., LoraLearner], make_batch: MakeBatch) -> None:
    learner = learner_of(offload=True, device="cuda")
    learner.update(make_batch(*PAIR))
    said = list(learner.logprobs(PROMPT, GOOD))

    learner.rest()

    assert torch.cuda.memory_allocated() < 1 << 20
    assert list(learner.logprobs(PROMPT, GOOD)) == pytest.approx(said, abs=1e-3)
    learner.update(make_batch(*PAIR))


def test_an_adapter_is_one_that_peft_loads(
    learner_of: Callable[..., LoraLearner], make_batch: MakeBatch, small_model: Path
) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    learner = learner_of()
    update = learner.update(make_batch(*PAIR))
    served = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(small_model), update.adapter)
    with torch.no_grad():
        logits = served(torch.tensor([[*PROMPT, *GOOD]])).logits[0, len(PROMPT) - 1 : -1]
    found = torch.log_softmax(logits, -1).gather(-1, torch.tensor(GOOD)[:, None])[:, 0]

    assert update.version == "policy@1"
    assert found.tolist() == pytest.approx(list(learner.logprobs(PROMPT, GOOD)), abs=1e-5)


def test_all_weights_are_a_model_folder_of_its_own(
    learner_of: Callable[..., LoraLearner], make_batch: MakeBatch
) -> None:
    learner = learner_of(weights="all")
    update = learner.update(make_batch(*PAIR))

    again = LoraLearner(LoraSettings(model=str(update.adapter)))

    assert (update.adapter / "tokenizer.json").is_file()
    assert list(again.logprobs(PROMPT, GOOD)) == pytest.approx(list(learner.logprobs(PROMPT, GOOD)), abs=1e-6)


def test_a_folder_without_weights_has_them_drawn_from_the_seed(make_model: Callable[..., Path], tmp_path: Path) -> None:
    folder = make_model(tmp_path / "plan", weights=False)

    said = [
        LoraLearner(LoraSettings(model=str(folder), weights="all", seed=seed)).logprobs(PROMPT, GOOD)
        for seed in (1, 1, 2)
    ]

    assert said[0] == said[1] != said[2]
    with pytest.raises(SettingsError, match="no weights"):
        LoraLearner(LoraSettings(model=str(folder))).logprobs(PROMPT, GOOD)


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"weights": "all"}, {"optimizer": "adamw_8bit", "rank": 64}, {"steps": 2}])
def test_to_go_on_after_a_break_is_to_go_on_to_the_last_bit(
    learner_of: Callable[..., LoraLearner], tmp_path: Path, make_batch: MakeBatch, changes: dict[str, Any]
) -> None:
    changes = {"minibatches": 2, "warmup": 3, **changes}
    batch = make_batch(
        *PAIR, [(PROMPT[:2], (5, 6), 0.5), ((*PROMPT, *GOOD, 9), (7,), -0.5)], loss=Loss(kl=0.01), tasks=2
    )
    whole = learner_of(**changes)
    whole.open(tmp_path / "whole")
    for number in (1, 2, 3):
        whole.update(Batch(batch.episodes, batch.advantages, batch.loss, tmp_path / "whole" / f"{number}"))

    broken = tmp_path / "broken"
    state: Mapping[str, Any] = {}
    for number in (1, 2, 3):
        learner = learner_of(**changes)
        learner.open(broken)
        learner.restore(json.loads(json.dumps(state)))
        # What a killed update leaves behind.
        (broken / f"{number}.unfinished").mkdir(parents=True)
        (broken / f"{number}.unfinished" / "torn").write_text("half a li")
        update = learner.update(Batch(batch.episodes, batch.advantages, batch.loss, broken / f"{number}"))
        state = learner.state()
        if number == 1:  # a run's folder may be moved
            shutil.move(broken, tmp_path / "moved")
            broken = tmp_path / "moved"

    assert update.version == "policy@3"
    assert files(broken / "3") == files(tmp_path / "whole" / "3")
    assert sorted(path.name for path in broken.iterdir()) == ["1", "2", "3"]


def test_a_batch_may_be_gone_through_in_minibatches(
    learner_of: Callable[..., LoraLearner], make_batch: MakeBatch
) -> None:
    """Two tasks in two steps, twice: later steps have ratios that aren't one, and clipping begins."""
    learner = learner_of(minibatches=2, steps=2, learning_rate=0.05)

    metrics = learner.update(make_batch(*PAIR, *PAIR, tasks=2)).metrics

    assert metrics["steps"] == 4
    assert metrics["ratio_largest"] > 1.2
    assert metrics["clipped"] > 0
    assert metrics["on_policy"] == 0


@pytest.mark.parametrize("loss", [Loss(), Loss(ratio="sequence", clip_low=3e-4), Loss(clip_high=5.0, ratio_cap=1.01)])
def test_with_one_step_clipping_takes_no_part_and_the_figures_say_so(
    learner_of: Callable[..., LoraLearner], make_batch: MakeBatch, loss: Loss
) -> None:
    """Every ratio is 1, so losses that differ in clipping give the same version."""
    plain, other = learner_of(learning_rate=0.05), learner_of(learning_rate=0.05)
    plain.update(make_batch(*PAIR))

    metrics = other.update(make_batch(*PAIR, loss=loss)).metrics

    assert metrics["on_policy"] == 1
    assert (metrics["ratio"], metrics["ratio_largest"], metrics["clipped"]) == (1, 1, 0)
    assert other.logprobs(PROMPT, GOOD) == pytest.approx(plain.logprobs(PROMPT, GOOD), abs=1e-6)
    likelihood = learner_of().update(make_batch(*PAIR, loss=Loss("likelihood"))).metrics
    assert "on_policy" not in likelihood


def tempered(network: Any, prompt: tuple[int, ...], answer: tuple[int, ...], temperature: float) -> list[float]:
    """Logprobs of an answer at a temperature, from the model's own logits."""
    with torch.no_grad():
        logits = network(torch.tensor([[*prompt, *answer]])).logits[0, len(prompt) - 1 : -1]
    return (logits / temperature).log_softmax(-1)[range(len(answer)), list(answer)].tolist()


def test_sampler_and_learner_are_compared_at_the_temperature_of_the_sampler(
    learner_of: Callable[..., LoraLearner], make_batch: MakeBatch, small_model: Path
) -> None:
    """One turn at 0.4, one at 1.3: with the sampler's own logprobs there is no mismatch, and without them there is."""
    from agentfw_plugins.models import load_base

    network = load_base(small_model, "fp32", "cpu")
    warm = make_batch(*PAIR, loss=Loss(importance_cap=2.0))
    for episode, temperature in zip(warm.episodes, (0.4, 1.3), strict=True):
        (turn,) = episode.turns
        turn.temperature = temperature
        turn.logprobs = tuple(tempered(network, PROMPT, turn.token_ids, temperature))
    raw = make_batch(*PAIR)
    for episode in raw.episodes:
        (turn,) = episode.turns
        turn.temperature = 0.4
        turn.logprobs = tuple(tempered(network, PROMPT, turn.token_ids, 1.0))

    matching, differing = learner_of().update(warm).metrics, learner_of().update(raw).metrics

    assert matching["mismatch_largest"] < 1e-4
    assert matching["importance_capped"] == 0
    assert differing["mismatch"] > 0.1


def test_the_gradient_is_that_of_the_tempered_policy(
    learner_of: Callable[..., LoraLearner], make_batch: MakeBatch, small_model: Path
) -> None:
    """One step of plain gradient descent by hand, on the mean of A log p at temperature 0.4, has the same norm."""
    from agentfw_plugins.models import load_base

    batch = make_batch(*PAIR)
    for episode in batch.episodes:
        episode.turns[0].temperature = 0.4
    network = load_base(small_model, "fp32", "cpu").requires_grad_(True)

    metrics = learner_of(weights="all", learning_rate=1e-3, gradient_clip=1e9).update(batch).metrics

    loss = torch.zeros(())
    for answer, advantage in ((GOOD, 1.0), (BAD, -1.0)):
        logits = network(torch.tensor([[*PROMPT, *answer]])).logits[0, len(PROMPT) - 1 : -1]
        loss = loss - advantage * (logits / 0.4).log_softmax(-1)[range(3), list(answer)].sum() / 6
    loss.backward()
    norm = torch.stack([each.grad.norm() for each in network.parameters() if each.grad is not None]).norm()
    assert metrics["gradient_norm"] == pytest.approx(float(norm), rel=1e-4)


def test_minibatches_of_any_size_count_each_token_as_the_batch_does(
    learner_of: Callable[..., LoraLearner], make_batch: MakeBatch
) -> None:
    """Three tasks in two minibatches, of one and of two tasks: their gradients add up to that of one minibatch, twice.

    The steps are too small to change anything in between.
    """
    tasks = [[(PROMPT, (20, 21, 22), 1.0)], [(PROMPT, (30,), 1.0), (PROMPT, (31, 32), 1.0)], [(PROMPT, (40,), 1.0)]]
    loss = Loss(aggregation="episode_mean")

    whole = learner_of(learning_rate=1e-8).update(make_batch(*tasks, tasks=3, loss=loss)).metrics
    split = learner_of(learning_rate=1e-8, minibatches=2).update(make_batch(*tasks, tasks=3, loss=loss)).metrics

    assert split["steps"] == 2
    assert split["policy_loss"] == pytest.approx(whole["policy_loss"], abs=1e-5)


def test_figures_say_what_was_done(learner_of: Callable[..., LoraLearner], make_batch: MakeBatch) -> None:
    learner = learner_of()
    own = list(learner.logprobs(PROMPT, GOOD))
    batch = make_batch(*PAIR, [(PROMPT, (40, 41), 0.0)], [(PROMPT, (50,), 1.0)], logprobs=None)
    for episode, logprobs in zip(batch.episodes, (own, [v - 0.5 for v in learner.logprobs(PROMPT, BAD)]), strict=False):
        episode.turns[0].logprobs = tuple(logprobs)
    batch.episodes[3].turns[0].logprobs = ()
    some = Batch(batch.episodes, batch.advantages[:3], batch.loss, batch.folder)

    metrics = learner.update(some).metrics

    assert metrics["tokens_trained"] == 6
    assert metrics["tokens_masked"] == 2  # an advantage of zero teaches nothing
    assert metrics["tokens_dropped"] == 1  # no advantage at all
    assert metrics["tokens_computed"] == 4 + 2 + 2
    assert metrics["tokens_plain"] == 2 * 6
    assert metrics["mismatch"] == pytest.approx(0.25, abs=1e-4)
    assert metrics["mismatch_largest"] == pytest.approx(0.5, abs=1e-4)
    assert metrics["ratio"] == 1
    assert 0 < metrics["entropy"] <= math.log(384)
    assert metrics["gradient_norm"] > 0
    assert metrics["tokens_per_second"] > 0
    assert metrics["peak_memory_mb"] > 0


@pytest.mark.parametrize("loss", [Loss(), Loss(kl=0.04)], ids=["nothing acts", "a penalty at its start"])
def test_a_batch_that_changes_no_weight_gives_no_version(
    learner_of: Callable[..., LoraLearner], make_batch: MakeBatch, loss: Loss
) -> None:
    learner, undisturbed = learner_of(), learner_of()
    empty = make_batch([(PROMPT, GOOD, 0.0)], loss=loss)

    assert learner.update(empty) is None
    update = learner.update(make_batch(*PAIR))

    assert not empty.folder.exists()
    assert update.version == "policy@1"
    other = undisturbed.update(make_batch(*PAIR))
    assert files(update.adapter) == files(other.adapter), "neither momentum nor the number of steps has moved"


def test_momentum_takes_no_step_of_its_own(learner_of: Callable[..., LoraLearner], make_batch: MakeBatch) -> None:
    learner = learner_of()
    learner.update(make_batch(*PAIR))
    before = learner.logprobs(PROMPT, GOOD)

    assert learner.update(make_batch([(PROMPT, GOOD, 0.0)])) is None
    assert learner.logprobs(PROMPT, GOOD) == before


def test_the_learning_rate_rises_and_falls(learner_of: Callable[..., LoraLearner], make_batch: MakeBatch) -> None:
    """To 0.01 in two steps, in half a cosine to a tenth of that after six, and there it stays."""
    learner = learner_of(warmup=2, decay=6)

    rates = [learner.update(make_batch(*PAIR)).metrics["learning_rate"] for _ in range(8)]

    fall = 0.0045 * math.sqrt(0.5)
    assert rates == pytest.approx([0.005, 0.01, 0.01, 0.0055 + fall, 0.0055, 0.0055 - fall, 0.001, 0.001])


def refused(learner: LoraLearner, batch: Batch, kind: type[AgentfwError] = UsageError) -> str:
    """The update is refused with a fix, and leaves nothing on the disk and nothing in memory."""
    before = learner.logprobs(PROMPT, GOOD)
    with pytest.raises(kind) as caught:
        learner.update(batch)
    assert caught.value.fix
    assert not batch.folder.exists()
    assert learner.logprobs(PROMPT, GOOD) == before
    return str(caught.value)


def test_what_can_not_be_learned_from_is_refused_by_name(
    learner_of: Callable[..., LoraLearner], make_batch: MakeBatch
) -> None:
    learner = learner_of()

    assert "nothing to learn from" in refused(learner, make_batch())
    assert "no turn has an advantage" in refused(learner, Batch(make_batch(*PAIR).episodes, [], Loss(), Path("none")))
    assert "turns with an advantage has tokens" in refused(learner, make_batch([(PROMPT, (), 1.0)]))
    assert "turn 0 of episode 00000-0 is nan" in refused(learner, make_batch([(PROMPT, GOOD, math.nan)]))
    assert "token 384" in refused(learner, make_batch([(PROMPT, (384,), 1.0)]))
    assert "3 tokens and 2 logprobs" in refused(learner, make_batch([(PROMPT, GOOD, 1.0)], logprobs=[-1.0, -2.0]))
    assert "not a finite number" in refused(learner, make_batch([(PROMPT, GOOD, 1.0)], logprobs=[-1.0, math.nan, 0.0]))
    capped = Loss(importance_cap=2.0)
    assert "no logprobs of the sampler" in refused(learner, make_batch(*PAIR, loss=capped, logprobs=[]))
    assert "dpo" in refused(learner, make_batch(*PAIR, loss=Loss("dpo")))
    twice = make_batch(*PAIR)
    doubled = Batch(twice.episodes, [*twice.advantages, twice.advantages[0]], Loss(), twice.folder)
    assert "two advantages" in refused(learner, doubled)
    cold, narrow = make_batch(*PAIR), make_batch(*PAIR)
    cold.episodes[0].turns[0].temperature = 0.0
    narrow.episodes[1].turns[0].top_p = 0.9
    assert "turn 0 of episode 00000-0 was sampled at temperature 0" in refused(learner, cold)
    assert "turn 0 of episode 00000-1 was sampled with top_p 0.9" in refused(learner, narrow)
    assert "isn't in the batch" in refused(learner, Batch([], twice.advantages, Loss(), twice.folder))


def test_nothing_is_overwritten(learner_of: Callable[..., LoraLearner], make_batch: MakeBatch) -> None:
    learner = learner_of()
    batch = make_batch(*PAIR)
    learner.update(batch)
    before = files(batch.folder)

    with pytest.raises(UsageError, match="already exists and is not overwritten"):
        learner.update(batch)

    assert files(batch.folder) == before


@pytest.mark.parametrize("when", ["computing", "writing"])
def test_an_update_that_fails_half_way_never_was(
    learner_of: Callable[..., LoraLearner], make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    learner = learner_of()
    learner.update(make_batch(*PAIR))
    batch, again = make_batch(*PAIR), make_batch(*PAIR)

    with monkeypatch.context() as broken:
        if when == "computing":
            step = torch.optim.AdamW.step

            def step_and_fail(*given: Any, **named: Any) -> None:
                step(*given, **named)
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB")

            broken.setattr(torch.optim.AdamW, "step", step_and_fail)
            assert "have enough memory" in refused(learner, batch, AgentfwError)
        else:
            broken.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
            assert "No space left" in refused(learner, batch, AgentfwError)

    assert learner.update(again).version == "policy@2"
    assert not batch.folder.with_name(f"{batch.folder.name}.unfinished").exists()


@pytest.mark.slow
@pytest.mark.parametrize("room", [1_000, 30_000])
def test_a_full_disk_at_a_checkpoint_says_so_and_leaves_nothing(
    learner_of: Callable[..., LoraLearner], make_batch: MakeBatch, room: int
) -> None:
    """Files that may not grow beyond so many bytes: the adapter alone, or the optimizer's state, finds no room."""
    resource = pytest.importorskip("resource")
    learner, batch = learner_of(rank=16), make_batch(*PAIR)
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    try:
        with pytest.raises(StorageError, match=r"can't write .*File too large") as caught:
            learner.update(batch)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)

    assert "free disk space" in caught.value.fix
    assert not list(batch.folder.parent.glob(f"{batch.folder.name}*"))
    assert learner.update(batch).version == "policy@1"


def test_full_memory_says_what_to_lower(
    learner_of: Callable[..., LoraLearner], make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(model_learner.Descent, "learn", fail)
    with pytest.raises(AgentfwError) as caught:
        learner_of(tokens=1000).update(make_batch(*PAIR))

    assert caught.value.fix == (
        "set learner.tokens=500 or learner.checkpointing=true, which doesn't change results; "
        "or fork the run with learner.precision=nf4 and policy.precision=nf4"
    )
    assert caught.value.change == "learner.tokens=500"


def test_what_only_takes_memory_or_time_may_change_when_a_training_is_resumed() -> None:
    free = {"packing", "tokens", "offload", "checkpointing", "worker_gpus", "worker_patience"}

    assert set(operational_keys(LoraSettings())) == {*free, "workers"}
    assert set(operational_keys(LoraSettings(share="replicated", workers=2, minibatches=2))) == free


@pytest.mark.slow
def test_the_state_of_another_optimizer_is_refused(
    learner_of: Callable[..., LoraLearner], make_batch: MakeBatch, tmp_path: Path
) -> None:
    learner = learner_of()
    learner.open(tmp_path)
    learner.update(make_batch(*PAIR))

    other = learner_of(optimizer="adamw_8bit")
    other.open(tmp_path)
    with pytest.raises(SettingsError, match="has the state of adamw, which adamw_8bit can't go on with"):
        other.restore(learner.state())


@pytest.mark.slow
def test_an_adapter_of_another_base_is_refused(
    learner_of: Callable[..., LoraLearner], make_batch: MakeBatch, make_model: Callable[..., Path], tmp_path: Path
) -> None:
    adapter = learner_of().update(make_batch(*PAIR)).adapter
    other = make_model(tmp_path / "other", seed=1)
    deeper = make_model(tmp_path / "deeper", num_hidden_layers=3)

    with pytest.raises(SettingsError, match="another base"):
        learner_of(model=str(other), adapter=str(adapter)).open(tmp_path)
    # One made elsewhere says nothing of its base; then the shapes speak.
    (adapter / "agentfw.json").unlink()
    with pytest.raises(SettingsError, match="don't fit"):
        learner_of(model=str(deeper), adapter=str(adapter)).open(tmp_path)
    with pytest.raises(UsageError, match=r"no adapter_model\.safetensors"):
        learner_of(adapter=str(other)).open(tmp_path)


def test_a_training_may_begin_with_an_adapter(learner_of: Callable[..., LoraLearner], make_batch: MakeBatch) -> None:
    first = learner_of()
    adapter = first.update(make_batch(*PAIR)).adapter

    second = learner_of(adapter=str(adapter))

    assert second.logprobs(PROMPT, GOOD) == first.logprobs(PROMPT, GOOD)
    # Where it begins is what it is measured from, also when it has gone on from there.
    began = second.logprobs(PROMPT, GOOD)
    assert second.logprobs(PROMPT, GOOD, base=True) == began
    second.update(make_batch(*PAIR))
    assert second.logprobs(PROMPT, GOOD, base=True) == began
    assert second.logprobs(PROMPT, GOOD) != began


@pytest.mark.slow
def test_a_penalty_pulls_towards_where_training_began(
    learner_of: Callable[..., LoraLearner], make_batch: MakeBatch
) -> None:
    first = learner_of()
    for _ in range(3):
        adapter = first.update(make_batch(*PAIR)).adapter
    batch = [[(PROMPT, GOOD, 0.0)], [(PROMPT, BAD, 0.0)]]
    moved = {}
    for reference in ("start", "base"):
        learner = learner_of(adapter=str(adapter), reference=reference)
        began = learner.logprobs(PROMPT, GOOD)
        learner.update(make_batch(*batch, loss=Loss(kl=1.0)))
        moved[reference] = max(abs(a - b) for a, b in zip(learner.logprobs(PROMPT, GOOD), began, strict=True))

    # Where it began is where the penalty is zero: nothing pulls.
    assert moved["start"] < 1e-6
    assert moved["base"] > 1e-3


def test_layers_that_are_not_there_are_refused_with_those_that_are(learner_of: Callable[..., LoraLearner]) -> None:
    with pytest.raises(SettingsError) as caught:
        learner_of(modules=("c_attn",)).open(Path())

    assert "c_attn" in str(caught.value)
    assert "q_proj" in caught.value.fix


def test_a_head_with_an_adapter_is_refused(learner_of: Callable[..., LoraLearner]) -> None:
    with pytest.raises(SettingsError, match="output head"):
        learner_of(modules=("q_proj", "lm_head")).open(Path())


def test_a_model_with_layers_of_another_kind_is_not_packed_as_a_tree(
    make_model: Callable[..., Path], tmp_path: Path
) -> None:
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

    folder = make_model(tmp_path / "linear", weights=False)
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "head_dim": 8, "vocab_size": 384}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "linear_num_key_heads": 2, "linear_num_value_heads": 2}
    widths = {"linear_key_head_dim": 8, "linear_value_head_dim": 8, "num_experts": 0, "pad_token_id": 0}
    kinds = {"layer_types": ["linear_attention", "full_attention"]}
    Qwen3NextForCausalLM(Qwen3NextConfig(**shape, **heads, **widths, **kinds)).save_pretrained(folder)

    with pytest.raises(SettingsError, match="linear_attention"):
        LoraLearner(LoraSettings(model=str(folder))).open(tmp_path)
    plain = LoraLearner(LoraSettings(model=str(folder), packing="plain"))
    assert len(plain.logprobs(PROMPT, GOOD)) == len(GOOD)


def test_a_model_that_computes_otherwise_is_found_out(make_model: Callable[..., Path], tmp_path: Path) -> None:
    """Its logits are scaled, which isn't to be seen in its output head."""
    from transformers import CohereConfig, CohereForCausalLM

    folder = make_model(tmp_path / "scaled", weights=False)
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "initializer_range": 0.5}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 384, "logit_scale": 0.25}
    CohereForCausalLM(CohereConfig(**shape, **heads, pad_token_id=0)).save_pretrained(folder)

    with pytest.raises(SettingsError, match="gives other results than"):
        LoraLearner(LoraSettings(model=str(folder))).open(tmp_path)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"weights": "all", "precision": "nf4"}, "is trained in fp32"),
        ({"weights": "all", "adapter": "somewhere"}, "leave adapter out"),
        ({"warmup": 5, "decay": 5}, "includes the warm-up"),
        ({"learning_rate": 1.0}, "learning_rate"),
        ({"stepps": 1}, 'did you mean "steps"'),
    ],
)
def test_settings_that_do_not_fit_together(values: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        validate(LoraSettings, values, "learner")
