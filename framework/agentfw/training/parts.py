"""What a training has besides what a run has: an optimizer, a learner, and perhaps a teacher.

The one rule: what can't fit together is told before any work begins: a policy that can't be published to, a teacher
whose episodes the loss can't use.

    parts = make_parts(spec, host)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ..errors import AgentfwError, UsageError
from ..host import Host
from ..host.plugin_record import describe
from ..learner import Learner
from ..optimizer import Optimizer
from ..policy import Policy
from ..runs.assembly import Assembly, assemble, blamed, make
from .punctual import Punctual
from .spec import TrainSpec

__all__ = ["Parts", "blamed_learner", "make_parts"]


@dataclass(slots=True)
class Parts:
    """The live components of one training."""

    assembly: Assembly
    optimizer: Optimizer
    learner: Learner
    teacher: Policy | None

    @property
    def policy(self) -> Policy:
        return self.assembly.policy

    async def close(self) -> None:
        """Let go of everything, whatever else goes wrong."""
        notes = self.assembly.host.notes
        try:
            self.learner.close()
        except Exception as error:
            notes.append(f"{type(self.learner).__name__} could not be closed: {describe(error)}")
        if self.teacher is not None:
            with suppress(Exception):
                await self.teacher.close()
        await self.assembly.close()


def make_parts(spec: TrainSpec, host: Host) -> Parts:
    """Make the components of a resolved spec."""
    assembly = assemble(spec, host)
    optimizer = make(host, "optimizer", spec.optimizer, Optimizer, "optimizer")
    learner = make(host, "learner", spec.learner, Learner, "learner")
    teacher = None if spec.teacher is None else make(host, "policy", spec.teacher, Policy, "teacher")
    if type(assembly.policy).publish is Policy.publish:
        raise UsageError(
            f"the policy \"{spec.policy.name}\" can't take a new version of itself, so it can't be trained",
            fix="train one that can, such as transformers or vllm; this one can be its teacher: --teacher NAME",
        )
    loss = optimizer.loss()
    if spec.teacher is not None and loss.name == "clipped":
        raise UsageError(
            f'the optimizer "{spec.optimizer.name}" learns from what the policy itself has sampled, not from a teacher',
            fix="learn demonstrations: --optimizer imitation --learner sft; or leave the teacher out",
        )
    assembly.policy = Punctual(assembly.policy, spec.policy.name, spec.deadline)
    if spec.teacher is not None and teacher is not None:
        teacher = Punctual(teacher, spec.teacher.name, spec.deadline)
    return Parts(assembly, optimizer, learner, teacher)


@contextmanager
def blamed_learner(spec: TrainSpec, doing: str) -> Iterator[None]:
    """What a learner raises becomes an error of that learner; one that was out of memory is told what helps."""
    name = f'the learner "{spec.learner.name}", {doing},'
    with blamed(name):
        try:
            yield
        except Exception as error:
            if not (isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"):
                raise
            raise AgentfwError(
                f"{name} ran out of memory: {error}".rstrip(": "),
                fix="fewer tasks or samples an update, or a setting of its own that takes less: "
                f"agentfw plugins show {spec.learner.name}",
            ) from error
