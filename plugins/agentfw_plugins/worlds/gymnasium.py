"""Any Gymnasium environment on the timeline.

One tick is one step: `step(action)` is the only intervention of a tick, and its result is the only observation of the
next. The trajectory equals that of Gymnasium's own loop with the same seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from pydantic import Field

from agentfw import Environment, Intervention, Settings, Task, World
from agentfw.errors import InterventionRefused, SettingsError
from agentfw.request import Action, Brief


class GymnasiumSettings(Settings):
    id: str = Field("CartPole-v1", description="Id of the environment in Gymnasium's registry.")
    arguments: dict[str, Any] = Field(default_factory=dict, description="Further arguments of `gymnasium.make`.")


class GymnasiumEnvironment(Environment):
    """One Gymnasium environment."""

    def __init__(self, settings: GymnasiumSettings | None = None) -> None:
        self.settings = settings or GymnasiumSettings()

    @cached_property
    def inside(self) -> Any:
        """The library's environment."""
        import gymnasium

        try:
            return gymnasium.make(self.settings.id, **self.settings.arguments)
        except gymnasium.error.Error as error:
            fix = "python -c 'import gymnasium; gymnasium.pprint_registry()' lists the ids"
            raise SettingsError(f"Gymnasium can't make {self.settings.id}: {error}", fix=fix) from None

    def brief(self) -> Brief:
        space = self.inside.action_space
        if _discrete(space):
            first = int(getattr(space, "start", 0))
            action: dict[str, Any] = {"type": "integer", "minimum": first, "maximum": first + int(space.n) - 1}
        else:
            action = {"type": "array", "items": {"type": "number"}, "description": str(space)}
            if space.shape and len(space.shape) == 1:
                action["minItems"] = action["maxItems"] = int(space.shape[0])
        schema = {"type": "object", "properties": {"action": action}, "required": ["action"]}
        step = Action("step", f"Take one step. Actions: {space}", schema)
        return Brief(f"Earn as much reward as you can in {self.settings.id}.", (step,))

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        self._stepping = False
        # Gymnasium needs a 32-bit seed.
        state, info = self.inside.reset(seed=task.seed % 2**31)
        self._steps = 0
        world.observe("state", {"state": _as_json(state), "info": _as_json(info)})

    def intervene(self, intervention: Intervention) -> None:
        if self._stepping:
            raise InterventionRefused("a tick takes one action, and this one has its own already")
        if intervention.name != "step":
            raise InterventionRefused(f"there is no such action: {intervention.name} {dict(intervention.arguments)}")
        # The action of a model as an element of the action space.
        space, value = self.inside.action_space, intervention.arguments.get("action")
        try:
            if _discrete(space):
                if isinstance(value, float) and not value.is_integer():
                    raise ValueError("half a choice is none")
                choose: Any = type(getattr(space, "start", 0))
                action: Any = choose(value)
            else:
                import numpy

                action = numpy.asarray(value, dtype=space.dtype).reshape(space.shape)
        except (TypeError, ValueError, OverflowError):
            action = None
        if action is None or not space.contains(action):
            raise InterventionRefused(f"{str(value)[:100]} is no element of {space}")
        self._stepping = True
        self.world.after(1, lambda: self._step(action))

    def outcome(self) -> Mapping[str, float]:
        return {"return": self.world.episode.utility, "steps": float(self._steps)}

    def _step(self, action: Any) -> None:
        self._stepping = False
        state, reward, ended, truncated, info = self.inside.step(action)
        self._steps += 1
        self.world.utility(float(reward), "reward")
        data = {"reward": float(reward), "terminated": bool(ended), "truncated": bool(truncated)}
        self.world.observe("state", {"state": _as_json(state), **data, "info": _as_json(info)})
        if ended or truncated:
            self.world.finish(**self.outcome())


def _discrete(space: Any) -> bool:
    """Whether a space is one of n choices. A MultiBinary has an n too, but also a shape."""
    return hasattr(space, "n") and not space.shape


def _as_json(value: Any) -> Any:
    """Arrays and NumPy scalars as JSON values."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, dict):
        return {str(key): _as_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(item) for item in value]
    return value if isinstance(value, (str, int, float, bool, type(None))) else str(value)
