"""False alarms of the proof of served versions, and the faults that it finds, with tiny models in few bits.

Each case is a model of its own, with drawn weights and 2 to 24 layers. A learner makes three updates of an adapter, at
a learning rate between 1e-5 and 1e-2, from answers that the policy `transformers` sampled. Every version is published
and proven as in a training: a right version that is refused is a false alarm. Then each fault is planted for the last
one: the policy serves another adapter, or another base. A fault is found if there is an error, whatever it says.

    python benchmarks/probe_alarms.py                       # 200 trainings in bf16, about half an hour
    python benchmarks/probe_alarms.py --cases 40 --policy fp32 --learner bf16

A fault in an update that is smaller than the rounding can't be found. So the share that is found is also given for the
updates that are not: those whose right version was proven.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentfw import Episode, Task, Turn
from agentfw.episode import Message
from agentfw.errors import AgentfwError
from agentfw.learner import Batch, Learner, Scores, Update
from agentfw.optimizer import Advantage, Loss
from agentfw.policy import Policy, Request, Sampling
from agentfw.runs.learning.probe import SLIGHT
from agentfw.runs.learning.proof import Proof
from agentfw_benchmarks import Options, make_model, print_aligned, tell

UPDATES = 3
LAYERS = (2, 3, 4, 6, 8, 12, 16, 24)
SPREADS = (0.02, 0.06, 0.1, 0.15)
"""Standard deviations of the drawn weights: from a model that hardly prefers any token to a confident one."""
LONGEST = (4, 8, 16, 32, 64)
ANSWERS = (1, 2, 4, 8)
"""Of the first evaluation, from which the proof takes its tokens."""
WORDS = ("the", "guest", "would", "like", "green", "tea", "so", "I", "serve", "black", "coffee", "thank", "you")


@dataclass
class Episodes:
    """A first evaluation, as the proof reads it."""

    found: Sequence[Episode]

    def episodes(self) -> Sequence[Episode]:
        return self.found


def measure(case: int, learner: str, policy: str, home: Path) -> dict[str, Any]:
    """One training, and each fault of its last version."""
    from agentfw_plugins.learners.model_learner import LoraLearner
    from agentfw_plugins.learners.settings import LoraSettings

    draw = random.Random(case)
    layers, spread, longest = draw.choice(LAYERS), draw.choice(SPREADS), draw.choice(LONGEST)
    rate, answers = 10 ** draw.uniform(-5, -2), draw.choice(ANSWERS)
    shape = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": layers, "initializer_range": spread}
    model = make_model(home / "model", seed=case, **shape)
    settings = {"model": str(model), "precision": learner, "learning_rate": rate, "seed": case, "device": "cpu"}
    trained = LoraLearner(LoraSettings.model_validate(settings))
    trained.open(home / "learner")
    training = Training(case, shape, trained, policy, longest, answers, draw, home)
    try:
        alarm, found, proven = asyncio.run(training.run())
    finally:
        trained.close()
    about = {"case": case, "layers": layers, "spread": spread, "rate": rate, "longest": longest, "answers": answers}
    return about | {"alarm": alarm, "found": found, "proven": proven}


@dataclass
class Training:
    """A learner and what it needs to improve a policy, step by step."""

    case: int
    shape: Mapping[str, Any]
    learner: Learner
    precision: str
    longest: int
    answers: int
    draw: random.Random
    home: Path
    evaluation: Episodes | None = None
    """One for all policies of a case: another model is asked about the same answers."""

    def __post_init__(self) -> None:
        self.model = self.home / "model"
        self.prompts = [" ".join(self.draw.choices(WORDS, k=self.draw.randint(3, 20))) for _ in range(8)]

    async def run(self) -> tuple[str, dict[str, str], bool]:
        """The false alarm if there is one, what is said of each fault, and whether the last version was proven."""
        policy = self.policy(self.model)
        try:
            proof = await self.begun(policy)
        except AgentfwError as error:
            await policy.close()
            return str(error), {}, False
        alarm, proven, found = "", False, dict[str, str]()
        for number in range(UPDATES):
            update = await self.learn(policy, number)
            if number == UPDATES - 1:
                found = await self.faults(proof, policy, update)
            await policy.publish(update.adapter, update.version)
            try:
                proven = (await proof.prove())["proven"] == 1
            except AgentfwError as error:
                alarm = alarm or str(error)
        await policy.close()
        return alarm, found, proven

    def policy(self, model: Path) -> Any:
        from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings

        settings = {"model": str(model), "precision": self.precision, "device": "cpu"}
        return TransformersPolicy(TransformersSettings.model_validate(settings))

    async def begun(self, policy: Policy) -> Proof:
        async def ask(probes: Any, base: bool) -> Scores:
            return self.learner.score([(probe.prompt_ids, probe.token_ids) for probe in probes], base=base)

        if self.evaluation is None:
            self.evaluation = Episodes(await self.episodes(policy, self.prompts[: self.answers], 1, 0))
        proof = Proof(policy, ask, SLIGHT)
        await proof.begin(self.evaluation)  # type: ignore[arg-type]
        return proof

    async def episodes(self, policy: Policy, prompts: Sequence[str], samples: int, seed: int) -> list[Episode]:
        tasks = [
            (Task(index, self.case, sample=sample), text)
            for index, text in enumerate(prompts)
            for sample in range(samples)
        ]
        sampling = Sampling(max_tokens=self.longest, seed=seed)
        asked = (
            policy.generate(Request([Message("user", text)], task=task, sampling=sampling)) for task, text in tasks
        )
        answers = await asyncio.gather(*asked)
        turns = (
            Turn(0, 0, 1, prompt_ids=one.prompt_ids, token_ids=one.token_ids, logprobs=one.logprobs) for one in answers
        )
        return [Episode(task, turns=[turn]) for (task, _), turn in zip(tasks, turns, strict=True)]

    async def learn(self, policy: Policy, number: int) -> Update:
        episodes = await self.episodes(policy, self.prompts[:3], 4, number + 1)
        advantages = [Advantage(episode.id, 0, self.draw.choice([-1.0, 1.0])) for episode in episodes]
        return self.learner.update(Batch(episodes, advantages, Loss(), self.home / "learner" / f"{number}"))

    async def faults(self, proof: Proof, policy: Any, update: Update) -> dict[str, str]:
        """What is said if the policy, which serves the version before, is given something else than this update."""
        found = {"the version before": await said(proof, policy)}
        half = self.shape["num_hidden_layers"] // 2
        lacks: dict[str, Callable[[str], bool]] = {
            "no attention": lambda name: "self_attn" in name,
            "no feed-forward part": lambda name: "mlp" in name,
            "no upper layers": lambda name: int(name.split("layers.")[1].split(".")[0]) >= half,
            "no q_proj": lambda name: "q_proj" in name,
            "no down_proj": lambda name: "down_proj" in name,
        }
        for kind, lacking in lacks.items():
            without = self.changed(update.adapter, lambda name, one, lacking=lacking: one * (not lacking(name)))
            await policy.publish(without, kind)
            found[kind] = await said(proof, policy)
        await policy.publish(self.changed(update.adapter, lambda name, one: one.flip(-1)), "another")
        found["another adapter of that size"] = await said(proof, policy)
        for kind, model, adapter in (
            ("nothing new", self.model, None),
            ("applied twice", self.merged(update.adapter), update.adapter),
            ("another model", self.another(), update.adapter),
        ):
            other = self.policy(model)
            if adapter is not None:
                await other.publish(adapter, kind)
            found[kind] = await said(proof, other)
            await other.close()
        other = self.policy(self.another())
        try:
            await self.begun(other)
            found["another model, at the start"] = ""
        except AgentfwError as error:
            found["another model, at the start"] = str(error)
        await other.close()
        return found

    def changed(self, adapter: Path, change: Callable[..., Any]) -> Path:
        from safetensors.torch import load_file, save_file

        folder = self.home / "changed"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(adapter, folder)
        weights = folder / "adapter_model.safetensors"
        tensors = {name: change(name, one).contiguous() for name, one in load_file(weights).items()}
        save_file(tensors, weights, {"format": "pt"})
        return folder

    def merged(self, adapter: Path) -> Path:
        from peft import PeftModel

        from agentfw_plugins.models import load_base

        folder = self.home / "merged"
        shutil.copytree(self.model, folder)
        merged = PeftModel.from_pretrained(load_base(self.model, "fp32", "cpu"), adapter).merge_and_unload()
        merged.save_pretrained(folder)
        return folder

    def another(self) -> Path:
        folder = self.home / "another"
        return folder if folder.exists() else make_model(folder, seed=self.case + 1_000_000, **self.shape)


async def said(proof: Proof, policy: Policy) -> str:
    """The error about a policy's weights, if there is one. The proof itself stays as it is."""
    tried = copy.copy(proof)
    tried.policy = policy
    try:
        await tried.prove()
    except AgentfwError as error:
        return str(error)
    return ""


def summary(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Shares with 95 % intervals of all cases, and of those whose right version was proven."""
    proven = [row for row in rows if row["proven"]]
    begun = [row for row in rows if row["found"]]
    kinds = list(begun[0]["found"]) if begun else []
    return {
        "trainings": len(rows),
        "alarms": share([bool(row["alarm"]) for row in rows]),
        "proven": share([row["proven"] for row in rows]),
        "found": {kind: share([bool(row["found"][kind]) for row in begun]) for kind in kinds},
        "found where proven": {kind: share([bool(row["found"][kind]) for row in proven]) for kind in kinds},
    }


def share(hits: Sequence[bool]) -> dict[str, float]:
    """How many of them, and the Wilson interval of their share, which holds at 0 and at 1 as well."""
    count, z = max(1, len(hits)), 1.96
    part = sum(hits) / count
    middle = (part + z**2 / (2 * count)) / (1 + z**2 / count)
    margin = z * (part * (1 - part) / count + z**2 / (4 * count**2)) ** 0.5 / (1 + z**2 / count)
    return {"of": len(hits), "count": sum(hits), "low": max(0.0, middle - margin), "high": min(1.0, middle + margin)}


def show(result: Mapping[str, Any]) -> None:
    def told(figure: Mapping[str, float]) -> str:
        return f"{figure['count']} of {figure['of']} [{figure['low']:.2f}, {figure['high']:.2f}]"

    print(f"false alarms: {told(result['alarms'])}; last version proven: {told(result['proven'])}\n")
    rows = [[kind, told(figure), told(result["found where proven"][kind])] for kind, figure in result["found"].items()]
    print_aligned(["fault", "found", "found where right ones are proven"], rows)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    import torch

    options = Options(__doc__, cases=200, seed=0, learner="bf16", policy="bf16", threads=1).parse_args(arguments)
    torch.set_num_threads(options.threads)
    rows = []
    for case in range(options.seed, options.seed + options.cases):
        with tempfile.TemporaryDirectory() as home, contextlib.redirect_stdout(sys.stderr):
            rows.append(measure(case, options.learner, options.policy, Path(home)))
        about = " ".join(f"{key}={rows[-1][key]:.3g}" for key in ("layers", "spread", "rate", "longest", "answers"))
        print(f"case {case}: {about} {rows[-1]['alarm'] or 'no alarm'}", file=sys.stderr)
    return tell(summary(rows) | {"rows": rows}, options.json, show)


if __name__ == "__main__":
    main()
