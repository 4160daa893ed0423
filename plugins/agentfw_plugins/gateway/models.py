"""The models that a gateway serves: the policy of its run, and others that programs ask for by name.

models = Models(Model("", policy, forwards=True), names=("agentfw", "qwen"))
models.find("qwen").policy
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agentfw import Policy
from agentfw.boundary.settings_input import marked_keys
from agentfw.errors import AgentfwError, BudgetSpentError, EndpointError, UpstreamError
from agentfw.request import Forwarded
from agentfw.runs import Choice, LiveRun
from agentfw.settings import VERSION

from ..models.checkpoint import version_name
from ..protocols import BadRequest, Body, Protocol

if TYPE_CHECKING:
    from starlette.requests import Request

OWN = "agentfw"
"""What the policy of the run can always be called."""
_PRIVATE = ("user=", "key=")
"""Parameters of an address that are for the gateway."""


@dataclass(frozen=True, slots=True)
class Model:
    """One model."""

    name: str = ""
    """Empty for the policy of the run."""
    policy: Policy | None = None
    """None: whichever a session has."""
    forwards: bool = False
    """Whether requests are passed on as they are."""
    fallback: str = ""
    """The model that answers if this one is away."""
    protocol: str = ""
    """The protocol of its server, if requests are passed on."""
    version: str = ""
    """The version of a training that it is. Empty for a model as it came."""

    @property
    def follows_schemas(self) -> bool:
        return self.policy is not None and self.policy.follows_schemas

    @property
    def continues(self) -> bool:
        return self.policy is not None and self.policy.continues


class Models:
    """All models of a gateway."""

    def __init__(
        self,
        own: Model | None = None,
        others: Sequence[Model] = (),
        *,
        names: Sequence[str] = (),
        known: str = "",
        key: Literal["own", "either", "callers"] = "own",
    ) -> None:
        """`names` are those of the run's policy; without any, it answers to all that no other model has.

        `known` is a name of the policy that means no model of its server. `key` says whose key requests are passed on
        with, as in `Forwarded`.
        """
        self.key: Literal["own", "either", "callers"] = key
        self.own, self.others = own or Model(), {model.name: model for model in others}
        self._names, self._own_names = tuple(names), {OWN, known}

    @property
    def names(self) -> tuple[str, ...]:
        """What programs are told that there is, besides the models of a server that they may choose among."""
        usual = (OWN,) if self.own.forwards else sorted(self._own_names - {""})
        return tuple(dict.fromkeys((*(self._names or usual), *self.others)))

    @property
    def are_the_servers(self) -> bool:
        """Whether programs may choose among the models of a server, by the names that it gives them."""
        return self.own.forwards and not self._names

    def of_client(self, request: Request) -> Model:
        """The model whose server a request is for that names none."""
        return self._speaking("messages" if "anthropic-version" in request.headers else self.own.protocol)

    def _speaking(self, protocol: str) -> Model:
        if self.own.protocol == protocol:
            return self.own
        speaking = (model for model in self.others.values() if model.forwards and model.protocol == protocol)
        return next(speaking, self.own)

    def find(self, name: str, protocol: str) -> Model:
        """The model that a program asks for. Raises BadRequest (404) if there is none.

        A name that says nothing to the gateway is one of the server that speaks the protocol of the request: with
        two providers, requests, and the keys in them, go to the one that they are for.
        """
        if name in self.others:
            return self.others[name]
        if self.own.forwards and not self._names and name not in self._own_names:
            return self._speaking(protocol)
        if self._names and name not in (*self._names, OWN):
            raise BadRequest(
                f'there is no model "{name[:200]}"; there is: {", ".join(self.names)}',
                404,
                code="model_not_found",
                field="model",
            )
        return self.own

    def instead(self, model: Model) -> Model | None:
        """The model that answers if this one is away."""
        return self.others.get(model.fallback, self.own) if model.fallback else None

    def known_to_server(self, model: Model, name: str) -> str:
        """The name that a program asks a model by. Empty if its server doesn't know it."""
        return "" if name in self._own_names or (model is self.own and name in self.others) else name

    def key_for(self, request: Request) -> Literal["own", "either", "callers"]:
        """Whose key a request is passed on with. A key of the gateway, which there may be by now, never leaves it."""
        return "own" if self.key == "either" and request.state.needs_key else self.key

    def forwarded(
        self, model: Model, protocol: Protocol, path: str, name: str, body: Body, request: Request
    ) -> Forwarded:
        """A request as it is passed on to the server of a model, in the protocol that it is written in."""
        known = self.known_to_server(model, name)
        values = body.values if known else {key: value for key, value in body.values.items() if key != "model"}
        return Forwarded(
            values,
            protocol.name,
            path.partition("?")[0],
            known,
            query_of(request),
            body.raw,
            {**request.headers},
            key=self.key_for(request),
        )


def query_of(request: Request) -> str:
    """The query of a request as it is passed on."""
    query = [part for part in request.url.query.split("&") if part and not part.startswith(_PRIVATE)]
    return f"?{'&'.join(query)}" if query else ""


def is_away(error: AgentfwError) -> bool:
    """Whether another model may answer instead: this one's server is unreachable, overloaded or broken."""
    if isinstance(error, UpstreamError):
        return error.status == 429 or error.status >= 500
    return isinstance(error, EndpointError) and not isinstance(error, BudgetSpentError)


def served_models(live: LiveRun, names: Sequence[str], key: Literal["own", "either", "callers"] = "own") -> Models:
    """The models of a live run. `names` are those of its policy."""
    assembly, spec = live.assembly, live.assembly.spec
    # Where the gateway has to call tools of a memory itself, or a hook decides, it has to read each answer.
    acts = assembly.decisions.reads or any(memory.overrides("tools") for memory in assembly.memories)

    def model(choice: Choice, policy: Policy, name: str, fallback: str) -> Model:
        protocol, served = str(getattr(choice.checked, "protocol", "")), version_folder(choice)
        version = version_name(served) if served else ""
        surrounded = assembly.surrounded(policy, name)
        return Model(name, surrounded, policy.forwards and not acts, fallback, protocol, version)

    own = model(spec.policy, assembly.policy, "", spec.fallback)
    pairs = zip(spec.models, assembly.models.values(), strict=True)
    others = [model(choice, policy, choice.alias, choice.fallback) for choice, policy in pairs]
    return Models(own, others, names=names, known=spec.policy.name, key=key)


def version_folder(choice: Choice) -> Path | None:
    """The folder of the version of a training that a policy answers with."""
    keys = marked_keys(type(choice.checked), VERSION) if choice.checked is not None else ()
    found = [str(value) for key in keys if (value := getattr(choice.checked, key, ""))]
    return Path(found[0]) if found else None
