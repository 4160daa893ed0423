"""A language model in training: packed tokens in, logprobs out, with an adapter or all weights trainable.

Attention and output head are agentfw's own. Therefore a few tokens also go through the model's own forward pass before
anything is learned, and a model with different results is refused (start_checks).

How many tokens are computed at once is chosen by the memory. What autograd stores for a few tokens is measured, so no
formula for the model is needed. On a CPU the budget is a share of the machine's total memory instead of the free
memory: the same batch is then split in the same way after a restart, and a resumed training gives identical bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file, save_file
from torch.nn import Linear

from agentfw.boundary.gate import needing
from agentfw.errors import SettingsError, UsageError
from agentfw.seeds import Seeds

from ..models import choose_device, load_base, locate, other_layers, own_attention, require_trainable
from ..models.base import computed_like_base, machine_memory, to_bf16
from ..models.locate import copy_but_weights
from ..models.sharding import divide, gathered, here, hollow, part_like, whole
from .group import Ranks
from .logprobs import token_logprobs
from .settings import PROJECTIONS, TrainableSettings
from .start_checks import proof_turns, prove, require_same_config
from .token_tree import FEWEST, Forest, Packed, TurnTokens, pack, pack_plain
from .tree_attention import NAME, RectangleTree, register

_JOINED = {"qkv_proj", "gate_up_proj"}
"""Layers that stand for q_proj, k_proj and v_proj, or for gate_proj and up_proj (Phi 3)."""
ADAPTER = "adapter_model.safetensors"  # the weights of an adapter, in a PEFT folder
_TWICE = 1.5  # what a step takes if it computes activations twice, beside one that stores them
_SHARE = {"cpu": 0.15, "cuda": 0.7}
"""Share of the memory for stored activations. A backward pass was observed to use up to 1.4 times as much for a moment.
On a CPU the process uses 2 to 5 times as much, because malloc keeps freed pages."""

Which = Literal["trained", "start", "base"]
"""The weights as they are trained, those that training starts from, or the base model's alone."""


class Network:
    """The base, its trainable weights, and the forward pass."""

    def __init__(self, settings: TrainableSettings, seeds: Seeds, *, ranks: Ranks | None = None) -> None:
        self.settings, self.ranks = settings, ranks or Ranks()
        self.folder = locate(settings.model)
        self.device = choose_device(settings.device)
        self._tree = settings.packing == "tree"
        self._file = ADAPTER if settings.weights == "lora" else "model.safetensors"
        self.attention: str | None = None
        if self._tree:
            register()
            self.attention = NAME
        on_gpu = self.device != "cpu"
        if on_gpu:
            torch.cuda.set_device(self.device)
        self.flex = on_gpu  # whether tree attention uses flex attention or, on a CPU, a few rectangles
        self.checkpointing = on_gpu if settings.checkpointing is None else settings.checkpointing
        self._seeds = seeds
        self._reference: Any = None
        self._start: dict[str, torch.Tensor] | None = None  # the adapter that training starts from, where there is one
        self._kept_per_token: float | None = None
        self.piece_size = settings.tokens or FEWEST  # maximum number of tokens of the newest pieces
        self.base = self._load()
        self.attention = self.base.config._attn_implementation  # a model without sdpa has its own
        self.vocabulary: int = self.base.get_input_embeddings().num_embeddings
        # Tree packing needs attention by position. Other layers would give wrong results without an error.
        other = other_layers(self.base.config)
        if self._tree and other:
            raise SettingsError(
                f"{self.folder} has layers of other kinds than full or sliding attention ({', '.join(other)}), so its "
                "turns can't be packed as a tree",
                fix='set learner.packing="plain"',
            )
        if type(head := self.base.get_output_embeddings()) is not Linear:
            wrong = f"the output head of {self.folder} is not a plain linear layer ({type(head).__name__})"
            raise SettingsError(wrong, fix="use another base")
        self._model = self._with_adapter() if settings.weights == "lora" else self.base.requires_grad_(True)
        self._scored: torch.nn.Module = _Scored(self.base)
        if self.ranks.sharded:
            self._scored = divide(self._scored, self.base, self.folder, settings.precision, self.device)
        self._masters = self._with_masters()
        self._checkpoint()
        # Checkpointing only works in training mode. Nothing else may differ there, so dropout is off.
        self._model.train()
        for module in self._model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
            elif hasattr(module, "attention_dropout"):
                module.attention_dropout = 0.0
        turns = proof_turns(self.vocabulary)
        pieces = (pack if self._tree else pack_plain)(turns, FEWEST)
        learner = torch.tensor(self.score(turns, "trained", pieces=pieces))
        with gathered(self._scored):
            prove(self.base, turns, learner, settings.packing)

    # -- what it is made of --------------------------------------------------------------------------------------------

    def _load(self) -> Any:
        all_weights, precision, sharded = self.settings.weights == "all", self.settings.precision, self.ranks.sharded
        if self.ranks.size == 1:  # of several processes, the first has asked for all before it started the others
            require_trainable(self.folder, precision, self.device, all_weights=all_weights)
        if sharded:
            return hollow(self.folder, precision, self.device, attention=self.attention)
        return load_base(
            self.folder,
            "fp32" if all_weights else precision,
            self.device,
            attention=self.attention,
            seed=self._seeds.integer("weights") if all_weights else None,
        )

    def _with_adapter(self) -> Any:
        with needing("the learner lora", "train"):
            from peft import LoraConfig, get_peft_model
        settings = self.settings
        # Adapters of embeddings and of the head aren't served: merged into tied weights they would count twice.
        ends = (self.base.get_input_embeddings(), self.base.get_output_embeddings())
        named = [(name.rpartition(".")[2], part) for name, part in self.base.named_modules()]
        linear = dict.fromkeys(name for name, part in named if isinstance(part, Linear) and part not in ends)
        some = ", ".join([*linear][:8])
        asked = {name.rpartition(".")[2] for name in settings.modules}
        if refused := sorted(asked & {name for name, part in named if part in ends}):
            raise SettingsError(
                f"learner.modules: {', '.join(refused)} of {self.folder} can't have an adapter: the embeddings and "
                "the output head share their weights in many models, and what serves adapters leaves them out",
                fix=f"choose other layers, such as {some}; or set learner.weights=all",
            )
        most = self.base.config.get_text_config().num_hidden_layers
        lacking = sorted(asked - {name for name, _ in named}) if settings.modules != PROJECTIONS else []
        lacking += [f"layer {number}" for number in settings.layers if number >= most]
        if lacking:  # PEFT says nothing where others are there
            fix = f"choose linear layers of the model, such as {some}, in layers 0 to {most - 1}"
            raise SettingsError(f"learner.modules: {self.folder} has no {', '.join(lacking)}", fix=fix)
        joined = sorted(_JOINED & linear.keys()) if settings.modules == PROJECTIONS else []
        config = LoraConfig(
            r=settings.rank,
            lora_alpha=settings.alpha,
            target_modules=[*settings.modules, *joined],
            layers_to_transform=list(settings.layers) or None,
            use_rslora=settings.rank_stabilised,
            use_dora=settings.dora,
            lora_dropout=0.0,
            task_type="CAUSAL_LM",
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self._seeds.integer("adapter"))
            try:
                return get_peft_model(self.base.requires_grad_(False), config)
            except ValueError as error:
                wrong = f"learner.modules: no adapter fits {', '.join(settings.modules)} of {self.folder}: {error}"
                raise SettingsError(wrong, fix=f"choose linear layers of the model, such as {some}") from error

    def _with_masters(self) -> list[tuple[torch.nn.Parameter, torch.nn.Parameter]]:
        """Round the trained weights that are computed in bf16 by whoever serves them, each beside its fp32 master.

        A bf16 number has eight significant bits, so a step below a five-hundredth of a weight changes nothing. The
        optimizer therefore changes the masters, and the model computes with these rounded to bf16. The gradients of a
        step's pieces are added up in fp32, too.
        """
        weights: list[torch.nn.Parameter] = []
        if self.settings.weights == "all":
            weights = list(self.base.parameters()) if self.settings.precision == "bf16" else []
        elif not self.ranks.sharded:  # divided gradients are added up by torch, past the masters
            weights = computed_like_base(self._model, "default")

        def hand_over(master: Any, rounded: torch.Tensor) -> None:
            assert rounded.grad is not None
            gradient, rounded.grad = rounded.grad.float(), None
            master.grad = gradient if master.grad is None else master.grad.add_(gradient)

        pairs = [(weight, torch.nn.Parameter(weight.data)) for weight in weights]
        to_bf16(weights)
        for rounded, master in pairs:
            rounded.register_post_accumulate_grad_hook(partial(hand_over, master))
        return pairs

    def parameters(self) -> list[torch.nn.Parameter]:
        """What the optimizer changes."""
        if self._masters:
            return [master for _, master in self._masters]
        return [parameter for parameter in self._model.parameters() if parameter.requires_grad]

    def stepped(self) -> None:
        """Compute with what the parameters were changed to."""
        with torch.no_grad():
            for rounded, master in self._masters:
                rounded.copy_(master)

    # -- tokens through it ---------------------------------------------------------------------------------------------

    def pack(self, turns: list[TurnTokens]) -> list[Packed]:
        """Split the turns into pieces to compute at once, as large as is useful and as memory allows.

        The turns alone decide how large, so that a training that goes on cuts them in the same way.
        """
        settings = self.settings
        is_open = settings.tokens is None and len(turns) > 1
        if not self._tree:
            if is_open:
                self.piece_size = min(FEWEST, self.room())
            return pack_plain(turns, self.piece_size)
        forest = Forest(turns)
        if is_open:
            storing = self.device == "cpu" if settings.checkpointing is None else not settings.checkpointing
            self.piece_size = forest.size(self.room(storing=storing), self.ranks.size)
            if storing and settings.checkpointing is None and self.ranks.size == 1:
                # Turns of one long conversation don't fit into small trees, each of which computes most of it again.
                # Then it takes less time to store little and compute activations twice.
                large = forest.size(self.room(storing=False))
                if forest.computed(self.piece_size) > _TWICE * forest.computed(large):
                    self.piece_size, self.checkpointing = large, True
                    self._checkpoint()
        return forest.trees(self.piece_size)

    def room(self, *, storing: bool | None = None) -> int:
        """Number of tokens that a training step can compute at once with the available memory.

        `storing` says whether it stores activations or computes them twice. Default: as it does now.
        """
        if self._kept_per_token is None:
            self._kept_per_token = self._measure()
        config = self.base.config.get_text_config()
        layers: int = config.num_hidden_layers
        needed = self._kept_per_token
        if self.checkpointing if storing is None else not storing:
            # Stored are the input of each layer, and everything of one layer at a time.
            needed = layers * config.hidden_size * self.base.dtype.itemsize + self._kept_per_token / layers
        trained = self.parameters()
        if self.device == "cpu":
            held = {*self._model.parameters(), *trained}
            there, sharing = machine_memory() - sum(here(weight).nbytes for weight in held), self.ranks.size
        else:
            unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
            there, sharing = torch.cuda.mem_get_info(self.device)[0] + unused, 1
        there -= 3 * sum(here(weight).nbytes for weight in trained)  # gradients and optimizer state
        available = max(0, int(there * _SHARE[self.device.partition(":")[0]]))
        size = max(1, int(available / sharing / needed))
        # The least of all processes, so that all cut their work in the same way.
        return min(int(each) for each in self.ranks.gather(str(size).encode()))

    def _measure(self) -> float:
        """Bytes that autograd stores per token until the backward pass, if it stores all activations."""
        (packed,) = pack_plain(proof_turns(self.vocabulary)[:1], 1)
        known = {here(weight).untyped_storage().data_ptr() for weight in self._model.parameters()}
        kept: dict[int, torch.UntypedStorage] = {}

        def keep(tensor: torch.Tensor) -> torch.Tensor:
            storage = here(tensor).untyped_storage()
            if storage.data_ptr() not in known:
                kept[storage.data_ptr()] = storage  # keep a reference, so that no other tensor gets its address
            return tensor

        if self.checkpointing:
            self.base.gradient_checkpointing_disable()
        self.base.set_attn_implementation(own_attention(self.base))
        try:
            with torch.enable_grad(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
                self.logprobs(packed)
        finally:
            self.base.set_attn_implementation(self.attention)
            self._checkpoint()
        total: int = sum(storage.nbytes() for storage in kept.values())
        return total / packed.computed

    def _checkpoint(self) -> None:
        if self.checkpointing:
            self.base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})

    def logprobs(
        self, packed: Packed, *, of: Which = "trained", temperature: float = 1.0, nudge: int = 0
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Of each sampled token its logprob, and the entropy there: of the weights that are trained, or of others.

        With a number as `nudge`, every input of the model is off by a rounding error, up or down as the number draws.
        """
        ids, nodes, targets, pair = (
            torch.from_numpy(part).to(self.device) for part in (packed.ids, packed.nodes, packed.targets, packed.pair)
        )
        inputs = {"input_ids": ids, **self._places(packed)}
        with self._as(of) as model, _nudged(model, nudge) if nudge else nullcontext():
            scored = self._scored if model is self.base else _Scored(model)
            logprobs, entropy = scored(inputs, nodes, targets, temperature)
        return logprobs[pair], entropy[pair]

    def _places(self, packed: Packed) -> dict[str, Any]:
        """Positions and the tree for the model. A row with one turn doesn't need them."""
        if not packed.blocks:
            return {}
        positions = torch.from_numpy(packed.positions).to(self.device)
        if not self.flex:
            return {"position_ids": positions, "agentfw_tree": RectangleTree(packed)}
        from .tree_flex import FlexTree  # slow to import, and not needed on a CPU

        return {"position_ids": positions, "agentfw_tree": FlexTree(packed, self.device)}

    @contextmanager
    def _as(self, of: Which) -> Iterator[Any]:
        if of == "trained":
            yield self.base
        elif of == "start" and self._start is not None:
            trained = {name: tensor.clone() for name, tensor in self._tensors().items()}
            self.take(self._start)
            try:
                yield self.base
            finally:
                self.take(trained)
        elif self.settings.weights == "lora":
            with self._model.disable_adapter():
                yield self.base
        else:
            if self._reference is None:
                self._reference = self._load().requires_grad_(False)
                if self._masters:
                    to_bf16(self._reference.parameters())
            yield self._reference

    def score(
        self, turns: list[TurnTokens], of: Which, nudge: int = 0, *, pieces: list[Packed] | None = None
    ) -> list[float]:
        """The logprobs of all sampled tokens, turn by turn."""
        found: list[list[float]] = [[] for _ in turns]
        with torch.no_grad():
            for packed in pieces or self.pack(turns):
                values = self.logprobs(packed, of=of, nudge=nudge)[0]
                for turn, value in zip(packed.turn.tolist(), values.tolist(), strict=True):
                    found[turn].append(value)
        return [value for values in found for value in values]

    # -- to and from disk ----------------------------------------------------------------------------------------------

    def _tensors(self) -> dict[str, torch.Tensor]:
        """The trainable weights by their names in files. The tensors are the live ones."""
        masters = {rounded.data_ptr(): master for rounded, master in self._masters}
        if self.settings.weights == "lora":
            from peft import get_peft_model_state_dict

            adapter = get_peft_model_state_dict(self._model, save_embedding_layers=False)
            return {name: masters.get(tensor.data_ptr(), tensor) for name, tensor in adapter.items()}
        tensors: dict[str, torch.Tensor] = {}
        places: set[int] = set()
        for name, tensor in self.base.state_dict().items():
            if tensor.data_ptr() not in places:  # tied weights are one tensor with two names
                tensors[name] = masters.get(tensor.data_ptr(), tensor)
                places.add(tensor.data_ptr())
        return tensors

    def weights(self, of: Literal["trained", "start"] = "trained") -> dict[str, torch.Tensor]:
        """The trainable weights, or those that training starts from. All processes must ask together."""
        given = self._start if of == "start" and self._start is not None else self._tensors()
        return {name: whole(tensor.detach()).cpu().contiguous() for name, tensor in given.items()}

    def save(self, folder: Path, weights: dict[str, torch.Tensor]) -> None:
        """Write a PEFT folder, or a full model folder with all files of the base's."""
        folder.mkdir()
        if self.settings.weights == "lora":
            config = self._model.peft_config["default"]
            config.inference_mode = True
            config.base_model_name_or_path = self.settings.model  # its folder is another one on another machine
            config.target_modules = sorted(config.target_modules)  # PEFT keeps a set, whose order isn't reproducible
            config.save_pretrained(folder)
            config.inference_mode = False
        else:
            copy_but_weights(self.folder, folder)
            self.base.config.save_pretrained(folder)
        save_file(weights, folder / self._file, metadata={"format": "pt"})

    def read(self, folder: Path) -> dict[str, torch.Tensor]:
        """Read what `save` wrote, or an adapter made elsewhere. Raises if anything doesn't match."""
        path = folder / self._file
        if not path.is_file():
            raise UsageError(f"there is no {self._file} in {folder}", fix="use an adapter folder in the PEFT format")
        if self.settings.weights == "lora":
            require_same_config(folder, self._model.peft_config["default"])
        found: dict[str, torch.Tensor] = load_file(path)
        live = self._tensors()
        strange = sorted(found.keys() ^ live.keys())
        strange += sorted(name for name in found.keys() & live.keys() if found[name].shape != live[name].shape)
        if strange:
            raise SettingsError(
                f"the weights in {folder} don't fit {self.folder}: {len(strange)} of them are missing, "
                f"unknown or of another shape, such as {strange[0]}",
                fix="use the base that they were trained on, with the same rank and modules",
            )
        return found

    def take(self, weights: Mapping[str, torch.Tensor], *, as_start: bool = False) -> None:
        """Go on with these weights, and keep a copy of them if it is them that training starts from."""
        live = self._tensors()
        with torch.no_grad():
            for name, tensor in live.items():
                tensor.copy_(part_like(weights[name], tensor))
        self.stepped()
        if as_start:
            self._start = {name: tensor.detach().clone() for name, tensor in live.items()}


class _Scored(torch.nn.Module):  # type: ignore[misc]
    """A model with the logprobs that are computed from what it gives, in one module: so that, where its weights are
    divided among processes, they are whole while it computes."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, inputs: Mapping[str, Any], nodes: torch.Tensor, targets: torch.Tensor, temperature: float
    ) -> tuple[torch.Tensor, torch.Tensor]:
        # Llama 4 states the prefix of another of its classes.
        backbone = getattr(self.model, self.model.base_model_prefix, None) or self.model.model
        hidden = backbone(use_cache=False, **inputs).last_hidden_state
        head, config = self.model.get_output_embeddings(), self.model.config.get_text_config()
        return token_logprobs(
            hidden.flatten(0, 1)[nodes],
            head.weight,
            targets,
            temperature * getattr(config, "logits_scaling", 1.0),  # Granite divides its logits by it
            bias=head.bias,
            cap=getattr(config, "final_logit_softcapping", None),
        )


@contextmanager
def _nudged(model: Any, seed: int) -> Iterator[None]:
    """Change every embedding by a rounding error, upwards or downwards."""
    generator = torch.Generator().manual_seed(seed)

    def nudge(_module: Any, _inputs: Any, output: torch.Tensor) -> torch.Tensor:
        signs = torch.randint(0, 2, output.shape, generator=generator).to(output.device) * 2.0 - 1.0
        return (output * (1 + signs * torch.finfo(output.dtype).eps / 2)).to(output.dtype)

    handle = model.get_input_embeddings().register_forward_hook(nudge)
    try:
        yield
    finally:
        handle.remove()
