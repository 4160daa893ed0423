"""What a learner computes, against the formulas written out in plain torch: one row for each turn, nothing shared.

Both start from the same adapter of the same small model. After an update the loss, the length of the gradient and the
weights of the adapter are the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from agentfw import Episode, Learner, Optimizer, Task, Turn
from agentfw.learner import Batch
from agentfw.optimizer import Advantage, Loss
from agentfw.testing import fresh_host

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

HOST = fresh_host(builtins=True, strict=False)
PROMPT, OTHER = (10, 11, 12, 13), (5, 6, 7)


def loss_of(optimizer: str, **settings: float) -> Loss:
    """The loss that comes with an optimizer."""
    made = HOST.create("optimizer", optimizer, settings)
    assert isinstance(made, Optimizer)
    return made.loss()


@dataclass
class Said:
    """One turn: what was sampled after which prompt, how good it was, and how far off the sampler's logprobs are."""

    episode: int
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    advantage: float
    apart: float = 0.0
    temperature: float = 1.0


PAIRS = [
    Said(0, PROMPT, (20, 21, 22), 1.0),
    Said(1, PROMPT, (20, 31, 32, 33), -1.0),
    Said(2, OTHER, (40, 41), -1.0),
    Said(3, OTHER, (50, 51, 52), 1.0),
]
"""Two answers each to two prompts: the better and the worse."""
SAID = [
    Said(0, PROMPT, (20, 21, 22), 1.5, apart=0.1),
    Said(0, (*PROMPT, 20, 21, 22, 14), (23,), -0.5, apart=0.6),
    Said(1, PROMPT, (20, 31, 32, 33), -1.0, apart=0.05, temperature=0.7),
    Said(2, OTHER, (40, 41), 0.75, apart=-0.2),
    Said(3, OTHER, (50, 51, 52), 0.0),
]


class Plain:
    """The training in plain torch."""

    def __init__(self, model: Path, adapter: Path, loss: Loss, said: list[Said], reference: str) -> None:
        from peft import PeftModel
        from transformers import AutoModelForCausalLM

        base = AutoModelForCausalLM.from_pretrained(model, local_files_only=True, dtype=torch.float32)
        self.model = PeftModel.from_pretrained(base, adapter, is_trainable=True)
        self.model.eval()
        self.loss, self.said = loss, said
        named = ("imitation", "kto", "dpo", "cispo", "sapo", "distillation")
        self.kind = next((name for name in named if loss.name == loss_of(name).name), "clipped")
        self.before = [self.logprobs(one).detach() for one in said]
        self.teacher = [before + torch.linspace(-1.0, 1.5, len(before)) for before in self.before]
        with torch.no_grad():
            if reference == "start":
                self.base, self.mixed_base = self._all(), self._mixed()
            else:
                with self.model.disable_adapter():
                    self.base, self.mixed_base = self._all(), self._mixed()

    def logprobs(self, one: Said, tokens: tuple[int, ...] | None = None) -> Any:
        """The logprob of each sampled token; `clipped` is about the distribution that was sampled from."""
        tokens = tokens or one.tokens
        logits = self.model(torch.tensor([[*one.prompt, *tokens]])).logits[0, len(one.prompt) - 1 : -1]
        temperature = one.temperature if self.loss.sampled else 1.0
        return torch.log_softmax(logits / temperature, -1).gather(-1, torch.tensor(tokens)[:, None])[:, 0]

    def _all(self) -> list[Any]:
        return [self.logprobs(one) for one in self.said]

    def _mixed(self) -> list[Any]:
        """Each prompt with the answer of the next turn, where that has another prompt."""
        pairs = zip(self.said, [*self.said[1:], self.said[0]], strict=True)
        return [self.logprobs(one, other.tokens) for one, other in pairs if one.prompt != other.prompt]

    def weight(self, one: Said) -> float:
        """Of each token of a turn."""
        episodes = {each.episode for each in self.said}
        match self.loss.aggregation:
            case "token_mean":
                return 1 / sum(len(each.tokens) for each in self.said)
            case "sequence_mean":
                return 1 / len(self.said) / len(one.tokens)
            case "episode_mean":
                own = sum(len(each.tokens) for each in self.said if each.episode == one.episode)
                return 1 / len(episodes) / own
        assert self.loss.length
        return 1 / len(episodes) / self.loss.length

    def value(self) -> Any:
        total = torch.zeros(())
        now = self._all()
        if self.kind == "dpo":
            sums = [(a - b).sum() for a, b in zip(now, self.base, strict=True)]
            sides = {(one.prompt, one.advantage): value for one, value in zip(self.said, sums, strict=True)}
            gaps = torch.stack([sides[prompt, 1.0] - sides[prompt, -1.0] for prompt in (PROMPT, OTHER)])
            return -torch.nn.functional.logsigmoid(self.loss.settings["beta"] * gaps).mean()
        if self.kind == "kto":
            with torch.no_grad():
                mixed = [(a - b).sum() for a, b in zip(self._mixed(), self.mixed_base, strict=True)]
            baseline = max(0.0, float(sum(mixed)) / len(mixed))
        for one, present, before, base in zip(self.said, now, self.before, self.base, strict=True):
            weight, good = self.weight(one), one.advantage
            if self.kind == "imitation":
                total = total - weight * good * present.sum()
            elif self.kind == "kto":
                if good:
                    away = (present - base).sum() - baseline
                    kept = torch.sigmoid(self.loss.settings["beta"] * math.copysign(1, good) * away)
                    total = total + weight * len(one.tokens) * abs(good) * (1 - kept)
            else:
                total = total - weight * self.gain(one, present, before).sum()
            if self.loss.kl:
                further = base - present
                total = total + self.loss.kl * weight * (further.exp() - further - 1).sum()
        return total

    def gain(self, one: Said, now: Any, before: Any) -> Any:
        match self.loss.ratio:
            case "token":
                ratio = (now - before).exp()
            case "sequence":
                ratio = (now - before).mean().exp().expand(len(now))
            case _:
                # The value is the episode's, and the gradient the token's: GSPO-token, over several turns.
                pairs = zip(self.said, self._all(), self.before, strict=True)
                apart = [present - then for each, present, then in pairs if each.episode == one.episode]
                ratio = torch.cat(apart).mean().exp().detach() * (now - now.detach()).exp()
        if self.loss.ratio_cap is not None:
            ratio = ratio.clamp(max=self.loss.ratio_cap)
        gain = self.clipped(one, now, before, ratio)
        if self.loss.importance_cap is None:
            return gain
        apart = torch.full((len(now),), -one.apart)
        level = apart if self.loss.importance_level == "token" else apart.sum().expand(len(now))
        weight = level.exp().clamp(max=self.loss.importance_cap)
        if self.loss.importance_mask is not None and abs(one.apart) > math.log(self.loss.importance_mask):
            weight = weight * 0
        return gain * weight

    def clipped(self, one: Said, now: Any, before: Any, ratio: Any) -> Any:
        """PPO, dual clip where the ratio is capped (Ye et al. 2020), and those that clip otherwise."""
        if self.kind == "cispo":
            return ratio.detach().clamp(max=1 + self.loss.clip_high) * one.advantage * now
        if self.kind == "sapo":
            steepness = self.loss.settings["positive" if one.advantage > 0 else "negative"]
            return 4 / steepness * torch.sigmoid(steepness * (ratio - 1)) * one.advantage
        signal = torch.full_like(before, one.advantage)
        if self.kind == "distillation":  # each token by log p_teacher - log p: the reverse KL divergence, bounded
            bound = self.loss.settings["bound"]
            teacher = next(says for says, each in zip(self.teacher, self.said, strict=True) if each is one)
            signal = signal * (teacher - before).clip(-bound, bound)
        limited = ratio.clamp(1 - self.loss.clip_low, 1 + self.loss.clip_high)
        return torch.minimum(ratio * signal, limited * signal)

    def train(self, steps: int, rate: float) -> tuple[float, float]:
        """Take these steps. Returns the mean loss and the mean length of the gradient."""
        parameters = [one for one in self.model.parameters() if one.requires_grad]
        optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.0)
        losses, lengths = [], []
        for _ in range(steps):
            optimizer.zero_grad()
            value = self.value()
            value.backward()
            lengths.append(float(torch.nn.utils.clip_grad_norm_(parameters, 1.0)))
            losses.append(float(value.detach()))
            if lengths[-1]:  # where every token is clipped, momentum doesn't move the weights either
                optimizer.step()
        return sum(losses) / steps, sum(lengths) / steps

    def weights(self) -> dict[str, Any]:
        from peft import get_peft_model_state_dict

        return {name: value.detach().clone() for name, value in get_peft_model_state_dict(self.model).items()}


def batch_of(plain: Plain, folder: Path) -> Batch:
    """The same turns as a training has them, with the sampler's logprobs as far apart as they say."""
    episodes: dict[int, Episode] = {}
    advantages = []
    for one, before in zip(plain.said, plain.before, strict=True):
        episode = episodes.setdefault(one.episode, Episode(Task(one.episode, 7)))
        index = len(episode.turns)
        logprobs = tuple(value + one.apart for value in before.tolist())
        tokens: dict[str, Any] = {"prompt_ids": one.prompt, "token_ids": one.tokens, "logprobs": logprobs}
        episode.turns.append(Turn(index, index, index + 1, text="said", temperature=one.temperature, **tokens))
        advantages.append(Advantage(episode.id, index, one.advantage))
    teacher = [each.tolist() for each in plain.teacher] if plain.loss.teacher else ()
    return Batch(list(episodes.values()), advantages, plain.loss, folder, teacher)


def far(ones: dict[str, Any], others: dict[str, Any]) -> float:
    return math.sqrt(sum(float((ones[name] - others[name]).square().sum()) for name in ones))


CASES: dict[str, tuple[Loss, int, str]] = {
    "clipped above and below differently": (Loss(clip_low=0.02, clip_high=0.3), 4, "start"),
    "one ratio a turn": (
        Loss(ratio="sequence", clip_high=0.04, clip_low=0.03, aggregation="sequence_mean"),
        4,
        "start",
    ),
    "one ratio an episode": (
        Loss(ratio="episode", clip_high=0.04, clip_low=0.03, aggregation="episode_mean"),
        4,
        "start",
    ),
    "capped ratio": (Loss(clip_high=1.0, ratio_cap=1.05), 4, "start"),
    "a weight that is truncated": (loss_of("cispo", clip_high=0.05), 4, "start"),
    "a soft gate": (loss_of("sapo"), 4, "start"),
    "a teacher": (loss_of("distillation", bound=0.9), 3, "start"),
    "kl from the start, by a constant length": (Loss(kl=0.5, aggregation="token_sum", length=7), 4, "start"),
    "kl from the base": (Loss(kl=0.5, aggregation="episode_mean"), 2, "base"),
    "importance of tokens": (Loss(importance_cap=1.05, importance_mask=1.5), 2, "start"),
    "importance of turns": (Loss(importance_cap=1.3, importance_level="sequence"), 1, "start"),
    "likelihood": (loss_of("imitation"), 2, "start"),
    "kto": (loss_of("kto", beta=0.7), 4, "base"),
    "dpo": (loss_of("dpo", beta=0.7), 4, "base"),
}


@pytest.mark.parametrize(("loss", "steps", "reference"), CASES.values(), ids=CASES)
def test_an_update_is_what_the_formula_says(
    learner_of: Callable[..., Learner],
    small_model: Path,
    make_adapter: Callable[..., Path],
    tmp_path: Path,
    loss: Loss,
    steps: int,
    reference: str,
) -> None:
    from safetensors.torch import load_file

    adapter = make_adapter(small_model, tmp_path / "adapter")
    said = PAIRS if loss.name == loss_of("dpo").name else SAID
    if loss.teacher:  # it says how likely tokens are at temperature 1
        said = [replace(one, temperature=1.0) for one in said]
    plain = Plain(small_model, adapter, loss, said, reference)
    began = plain.weights()
    # The turns of an episode are in several pieces, which are computed one after the other.
    settings: dict[str, Any] = {"rank": 4, "alpha": 8.0, "learning_rate": 1e-2, "steps": steps, "tokens": 8}
    learner = learner_of(adapter=str(adapter), reference=reference, **settings)

    update = learner.update(batch_of(plain, tmp_path / "update"))
    assert update is not None
    value, length = plain.train(steps, rate=1e-2)

    assert update.metrics["loss"] == pytest.approx(value, rel=1e-3, abs=1e-5)
    assert update.metrics["gradient_norm"] == pytest.approx(length, rel=1e-3)
    learned, expected = load_file(update.adapter / "adapter_model.safetensors"), plain.weights()
    assert learned.keys() == expected.keys()
    assert far(learned, expected) < 0.03 * far(expected, began)
    if plain.kind == "dpo":
        assert update.metrics["loss"] == pytest.approx(value, abs=2e-6)
    if steps > 1 and plain.kind == "clipped" and loss.importance_cap is None and not loss.kl and not loss.ratio_cap:
        assert update.metrics["clipped"] > 0, "the case is one in which clipping takes part"


def test_kto_is_measured_from_what_mismatched_answers_gain(
    learner_of: Callable[..., Learner], small_model: Path, make_adapter: Callable[..., Path], tmp_path: Path
) -> None:
    """With good and bad exchanged mismatched answers become likelier, so that the baseline is above 0."""
    adapter = make_adapter(small_model, tmp_path / "adapter")
    said = [replace(one, advantage=-one.advantage) for one in SAID]
    plain = Plain(small_model, adapter, loss_of("kto", beta=0.7), said, "start")
    learner = learner_of(adapter=str(adapter), rank=4, alpha=8.0, learning_rate=1e-2, steps=3)

    update = learner.update(batch_of(plain, tmp_path / "update"))
    assert update is not None
    value, length = plain.train(3, rate=1e-2)

    assert update.metrics["baseline"] > 0.1
    assert update.metrics["loss"] == pytest.approx(value, rel=1e-3)
    assert update.metrics["gradient_norm"] == pytest.approx(length, rel=1e-3)
