"""The memory `skillgraph`: recalls matching skills before acting, and turns good episodes into skills.

    agentfw run calendar --memory skillgraph --set memory.skillgraph.path=team.db --set memory.skillgraph.ablation=B1

What a user says of themselves in a conversation is kept at once (`hear`). What they ask to forget is deleted if their
next message says yes. In an episode, what the user says becomes a wish, and calls that worked become a way. An
observation is the user's own words if the environment marks it with `by="user"`. What anybody else writes, in a mail or
in an answer of a tool, never becomes part of a skill.

An episode counts once, under the run, its own id and its user. The skills that it was shown are read from its messages,
as they were recalled, so a resumed run learns the same. Those that it followed count as used.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, fields, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import Field, create_model
from pydantic.fields import FieldInfo

from agentfw import Episode, Memory, Message, Request, Settings
from agentfw.boundary.gate import function_at
from agentfw.boundary.settings_input import validate
from agentfw.episode import Turn, Usage
from agentfw.errors import StorageError, UnknownNameError, UsageError, one_line
from agentfw.memory import Embedded, Query, Recollection, Remembered, Saying
from agentfw.request import Sampling
from agentfw_memory import (
    AsyncSkillGraph,
    Case,
    GraphSettings,
    Hit,
    ModelWriter,
    Skill,
    SkillGraph,
    Step,
    Trajectory,
    UnknownSkillError,
    Why,
    as_text,
    followed,
)
from agentfw_memory.graph.validation import storable
from agentfw_memory.writing.kinds import own_words, says_yes
from agentfw_memory.writing.secrets import has_secret

from ..hooks.ledger import FILE as LEDGER
from ..hooks.ledger import Account, Ledger
from ..policies.http.openai_policy import OpenAIPolicy, OpenAISettings
from . import translated_errors

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

_EVERYONE = "everyone"
_LONGEST_QUERY = 2_000  # maximum length of a query made from an observation
_LONGEST_OUTCOME = 10_000
_EMBEDDED_AT_ONCE = 2  # number of texts that take no longer than a recall, which embeds its query, too
_ALWAYS_SHOWN = 2  # number of wishes about every answer that are shown though nothing in the question asks for them
_MOST_TO_FORGET = 1_000  # number of conversations whose requests to forget are kept
_TO_FORGET = "the user asks to forget this; it goes if you ask them and their next message says yes"
_SHOWN = re.compile(r"^- (s\d+): ", re.MULTILINE)
LONGEST_ANSWER = 2_000
"""Maximum number of tokens of an answer, so that a model that never ends doesn't use up all that is allowed."""
_LIBRARY_ONLY = ("resolutions", "longest_text", "power_safe")
"""Settings of the graph that are a matter of the library's: its communities, its file, and how long a text is."""


class _StoreSettings(Settings):
    path: str = Field(
        "", description="File or address (such as postgresql://) of the store. Default: skills.db in the run's folder."
    )
    tenant: str = Field("agentfw", min_length=1, description="Tenant whose graph is used. Tenants share nothing.")
    embedder: str = Field(
        "", description="Embedding model. Default: the graph's own, or the best installed for a new graph."
    )
    ablation: Literal["", "full", "A1", "A2", "B1", "B2", "B3", "B4"] = Field(
        "", description="Ablation of the paper whose settings are used as defaults."
    )


if TYPE_CHECKING:
    _GraphFields = _StoreSettings
else:
    # The graph's own settings, as the library declares them.
    _DECLARED: dict[str, FieldInfo] = vars(GraphSettings)["__pydantic_fields__"]
    _OWN = {name: (field.annotation, field) for name, field in _DECLARED.items() if name not in _LIBRARY_ONLY}
    _GraphFields = create_model("_GraphFields", __base__=_StoreSettings, __module__=__name__, **_OWN)


class SkillGraphSettings(_GraphFields):
    by_value: int = Field(
        0,
        ge=0,
        description="Number of skills with the highest scores, of which those with the highest mean reward are shown, "
        "as MemRL does; 0 to show those with the highest scores.",
    )
    cases: int = Field(
        0,
        ge=0,
        description="Maximum number of earlier requests that are shown with their answers as demonstrations, of those "
        "that are recalled. 0 keeps and shows none.",
    )
    case_tokens: int = Field(1_000, ge=1, description="Maximum number of tokens of these demonstrations, estimated.")
    bad_cases: bool = Field(False, description="Also show answers that weren't liked, as what not to answer.")
    one_list: bool = Field(
        False,
        description="Keep one list for all users, for comparisons with flat lists. Everyone is shown what anyone said, "
        "and no user can be forgotten.",
    )
    extractor: str = Field(
        "",
        description="Function that drafts skills from an episode, as package.module:name. Default: what the user said "
        "that lasts, as it was said.",
    )
    writer_url: str = Field(
        "",
        description="OpenAI-compatible server, including /v1, whose model decides what to remember of what users say. "
        "Default: what says something lasting is kept as it was said.",
    )
    writer_model: str = Field("", description="Model of that server. Default: the first that it lists.")
    writer_key_env: str = Field("OPENAI_API_KEY", description="Environment variable with the key of that server.")
    writer_timeout: float = Field(30.0, gt=0, description="Timeout of a request to that server, in seconds.")
    writer_tokens: int = Field(
        0,
        ge=0,
        description="Maximum number of tokens to use there. Beyond it, what is said is kept as it was said. "
        "0 for no limit.",
    )
    go_on_without: bool = Field(
        False, description="Recall nothing while the store can't be reached, with a warning, instead of failing."
    )

    def for_graph(self) -> GraphSettings:
        """The graph's settings: those of the ablation, overridden by what is set here."""
        base = GraphSettings.ablation(self.ablation) if self.ablation else GraphSettings()
        known = {field.name for field in fields(GraphSettings)}
        return replace(base, **{name: getattr(self, name) for name in self.model_fields_set & known})


class SkillGraphMemory(Memory):
    """One graph for all users of a run, or of many runs."""

    def __init__(self, settings: SkillGraphSettings | None = None) -> None:
        self.settings = settings or SkillGraphSettings()
        with translated_errors():
            self._graph_settings = self.settings.for_graph()
        self._where: str | Path = self.settings.path or ":memory:"
        self._run, self._ledger = "", Ledger(Path(LEDGER))
        self._opened: SkillGraph | None = None
        self._opening = threading.Lock()
        self._away = False
        self.writer_model = ServerModel(self.settings) if self.settings.writer_url else None
        extractor = self.settings.extractor
        self._extractor = function_at(extractor, "memory.skillgraph.extractor") if extractor else None
        model, timeout = self.writer_model, self.settings.writer_timeout
        self._writer = None if model is None else ModelWriter(model, timeout=timeout)
        self._to_forget: dict[tuple[str, str], tuple[str, ...]] = {}
        """What the last message of a user in a conversation asked to forget. It goes if the next one says yes."""
        self._met: dict[str, str] = {}
        """A digest of the profile of each user that was met."""

    def open(self, folder: Path) -> None:
        self._run, self._ledger = folder.name, Ledger(folder.parent / LEDGER)
        if not self.settings.path:
            self._where = folder / "skills.db"

    def introduce(self, user: str, profile: Mapping[str, str]) -> None:
        text = storable("\n".join(f"{view}: {words}" for view, words in profile.items()), _LONGEST_OUTCOME)
        if not self.settings.one_list and text.strip() and self._met.get(user) != _digest(text):
            with translated_errors():
                self.graph.set_profile(user, text)
            self._met[user] = _digest(text)

    async def recall(self, query: Query) -> Sequence[Recollection]:
        text = storable(query.text, _LONGEST_QUERY)
        if text.strip() and query.scenarios:
            # As skills begin. What people say seldom names what it is about.
            text = storable(f"For {' and '.join(query.scenarios)}: {text}", _LONGEST_QUERY)
        if not text.strip() or query.limit < 1 or not self._graph_settings.candidates:
            return []
        user = self._owner(query.user)
        scenarios = tuple(filter(_is_name, query.scenarios))
        hits = await self._hits(text, user, max(query.limit, self.settings.by_value), scenarios)
        if self._away:
            return []
        if self.settings.by_value:
            hits = sorted(hits, key=lambda hit: -hit.skill.utility)[: query.limit]
        known = {hit.skill.id for hit in hits}
        always = await self._called(lambda: self.graph.standing(user, k=_ALWAYS_SHOWN))
        always = [skill for skill in always if skill.id not in known][: query.limit // 2]
        going = await self._called(lambda: self.graph.asked_to_forget(query.text, user=user))
        about = {skill.id: _TO_FORGET for skill in going}
        shown, most = list[Case](), min(self.settings.cases, query.limit - len(always))
        if most:
            asked, tokens = storable(query.text, _LONGEST_QUERY), self.settings.case_tokens
            bad = self.settings.bad_cases
            shown = await self._called(lambda: self.graph.cases(asked, user=user, k=most, tokens=tokens, bad=bad))
        found = []
        for hit in hits[: query.limit - len(always) - len(shown)]:
            line = _shown(hit.skill, hit.newer, about.pop(hit.skill.id, ""))
            # Not asdict: it copies deeply, which takes as long as the search itself.
            why = {field.name: getattr(hit.why, field.name) for field in fields(Why)}
            found.append(Recollection(line, hit.score, {"skill": hit.skill.id, **why}))
        rest = [skill for skill in going if skill.id in about] + [skill for skill in always if skill.id not in about]
        found += [Recollection(_shown(one, "", about.get(one.id, "")), 0.0, {"skill": one.id}) for one in rest]
        # Last, because a model copies best what it has read last.
        return found + [Recollection(" ".join(as_text([one]).split()), one.score, {"case": one.id}) for one in shown]

    async def learn(self, episode: Episode, reward: float) -> None:
        await self._called(lambda: self.graph.learn(self._trajectory(episode), reward))

    async def hear(self, saying: Saying) -> Mapping[str, int] | None:
        user, talk = self._owner(saying.user), saying.conversation
        to_forget = self._to_forget.pop((user, talk), None)
        if says_yes(saying.text) and not self.settings.one_list:
            if to_forget is None:  # another process, or one before this, has heard the message before
                asked = await self._called(lambda: self.graph.asked_to_forget(saying.before, user=user))
                to_forget = tuple(one.id for one in asked)
            if to_forget:
                self._to_forget[user, talk] = to_forget  # if the disk is full, the same is asked for again
                await self._called(lambda: self.graph.delete(*to_forget, user=user, id=saying.id))
                logger.info("%s was forgotten, as %s asked", ", ".join(to_forget), saying.user)
                return None
        conversation = talk if _is_name(talk) else _digest(talk)
        about: dict[str, Any] = {"user": user, "conversation": conversation, "at": saying.at, "id": saying.id}
        used = 0
        if self.writer_model is None:
            heard = await self._called(lambda: self.graph.hear(saying.text, answer_to=saying.answer_to, **about))
        else:
            with translated_errors():
                heard = await AsyncSkillGraph(self.graph).hear(saying.text, answer_to=saying.answer_to, **about)
            # Of several users at once, one may be told the tokens of another. The sum is right.
            usage = self.writer_model.taken()
            if used := usage.tokens or 0:
                account = Account(saying.user, talk.partition(":")[0] if ":" in talk else "", talk)
                self._ledger.add(account, self.writer_model.name, usage, counted=True)
        if heard.problem:
            logger.warning("what %s said: %s", saying.user, heard.problem)
        if not self.settings.one_list:
            self._to_forget[user, talk] = heard.to_forget
            while len(self._to_forget) > _MOST_TO_FORGET:
                del self._to_forget[next(iter(self._to_forget))]
        took = {"writer_tokens": used, "writer_problems": int(bool(heard.problem))}
        return {name: count for name, count in took.items() if count}

    async def remembered(self, user: str) -> Sequence[Remembered]:
        skills = await self._called(lambda: self.graph.skills(owner=self._own(user)))
        kept = [
            Remembered(one.id, one.text, one.valid_from, source=one.text if one.conversation else "") for one in skills
        ]
        for skill in (one for one in skills if one.corrections):
            for place, version in enumerate(self.graph.history(skill.id).versions[:-1], start=1):
                span = version.valid_from, version.valid_to
                kept.append(Remembered(f"{skill.id}.{place}", version.text, *span))
        return sorted(kept, key=lambda one: -(one.since or 0.0))

    async def correct(self, user: str, item: str, text: str) -> Remembered:
        await self._item(user, item)
        skill = await self._called(lambda: self.graph.update(item, text=text))
        return Remembered(skill.id, skill.text, skill.valid_from, source=text)

    async def forget_one(self, user: str, item: str) -> None:
        """Earlier versions of an item go with it."""
        await self._item(user, item)
        await self._called(lambda: self.graph.delete(item))

    async def forget(self, user: str) -> Mapping[str, int]:
        if self.settings.one_list:
            problem = "a list of all users doesn't know who said what, so it can't forget a user"
            raise UsageError(problem, fix="delete the store")
        self._met.pop(user, None)
        receipt = await self._called(lambda: self.graph.forget(user))
        return {name: count for name, count in asdict(receipt).items() if name != "user"}

    async def embed(self, texts: Sequence[str]) -> Embedded:
        model, slow = self.graph.embedder, len(texts) > _EMBEDDED_AT_ONCE
        return Embedded(model.name, (await self._called(lambda: model.embed(texts), slow=slow)).tolist())

    async def close(self) -> None:
        if self.writer_model is not None and self.writer_model.tokens:
            logger.info("the memory's writer took %d tokens", self.writer_model.tokens)
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    @property
    def graph(self) -> SkillGraph:
        with self._opening, translated_errors():
            if self._opened is None:
                self._opened = SkillGraph.open(
                    self._where,
                    tenant=self.settings.tenant,
                    embedder=self.settings.embedder,
                    settings=self._graph_settings,
                    extractor=self._extractor,
                    writer=self._writer,
                )
            return self._opened

    async def _hits(self, text: str, user: str, count: int, scenarios: Sequence[str]) -> list[Hit]:
        try:
            hits = await self._called(lambda: self.graph.recall(text, user=user, k=count, scenario=scenarios))
        except StorageError as error:
            if not self.settings.go_on_without:
                raise
            if not self._away:
                logger.warning("going on without the skill graph: %s", error.message)
            self._away = True
            return []
        if self._away:
            logger.warning("the skill graph is back")
        self._away = False
        return hits

    async def _called(self, call: Callable[[], Answer], *, slow: bool = False) -> Answer:
        """Call in another thread if the call is slow or the store is on a server, which may keep a caller waiting. A
        file answers at once, and episodes that take turns in a fixed order make a run repeatable."""
        with translated_errors():
            slow = slow or "://" in str(self._where)
            return await asyncio.to_thread(call) if slow else call()

    def _own(self, user: str) -> str:
        """The owner of what only this user may see and change."""
        if self.settings.one_list:
            raise UsageError("a list of all users doesn't know who said what", fix="turn one_list off")
        return user

    async def _item(self, user: str, item: str) -> None:
        own = [skill.id for skill in await self._called(lambda: self.graph.skills(owner=self._own(user)))]
        if item not in own:
            raise UnknownNameError("item", item, own)

    def _owner(self, user: str) -> str:
        return _EVERYONE if self.settings.one_list else user

    def _trajectory(self, episode: Episode) -> Trajectory:
        user = self._owner(episode.task.user)
        observed = [event for event in episode.events if event.kind == "observation"]
        # What is said in a session of a live run was heard, and such a session is about anything. It may end elsewhere.
        heard = next((one.data["run"] for one in episode.events if one.kind == "session" and "run" in one.data), "")
        mark = _digest(f"{heard or self._run}\0{episode.task.user}")
        theirs = [event for event in observed if event.data.get("by") == "user"]
        new = [event.data for event in theirs if not (heard and event.name == "message")]
        corrections = [] if self.settings.cases else [data for data in new if data.get("correction")]
        said = [
            str(data.get("said") or data.get("text", ""))
            for data in new
            if data not in corrections or data.get("text") != data["correction"]
        ]
        about = dict.fromkeys(str(one) for event in observed for one in _listed(event.data.get("scenarios")))
        scenarios = tuple(filter(_is_name, about or (() if heard else (episode.environment,))))
        rated = any(event.name == "feedback" and not event.data.get("metric") for event in observed)
        asked = next((one.content for one in reversed(episode.messages) if rated and one.role == "user"), "")
        query = asked or (str(observed[0].data.get("text", "")) if observed else "")
        recalled, failed = self._recalled(episode), episode.failed_calls
        answer, corrected = _case(episode, rated) if self.settings.cases else ("", "")
        calls = (call for turn in episode.turns for call in turn.calls if _is_name(call.name))
        return Trajectory(
            id=f"{episode.id} {mark}",
            user=user,
            query=storable(query, _LONGEST_QUERY),
            scenarios=scenarios,
            steps=tuple(Step(call.name, call.name, call.id not in failed) for call in calls),
            outcome=storable("\n".join(filter(None, dict.fromkeys(said))), _LONGEST_OUTCOME),
            skills=tuple(skill.id for skill in recalled if _follows(episode, skill)),
            # What the user thinks of an answer is said of what was recalled for it.
            shown=tuple(skill.id for skill in recalled) if rated else (),
            answer=storable(answer, _LONGEST_QUERY),
            corrected=storable(corrected, _LONGEST_QUERY),
            kept=tuple(filter(None, (_behind_its_question(episode, data) for data in corrections))),
        )

    def _recalled(self, episode: Episode) -> list[Skill]:
        """The skills that the agent was shown, read from its messages."""
        found: dict[str, Skill] = {}
        # Sessions have them in the system message.
        for text in (message.content for message in episode.messages if message.role in ("user", "system")):
            for shown in _SHOWN.finditer(text):
                with suppress(UnknownSkillError):
                    skill = found.get(shown[1]) or self.graph.get(shown[1])
                    # Other text may look similar; only the skill's own text counts.
                    if text.startswith(_line(skill), shown.end()):
                        found[shown[1]] = skill
        return list(found.values())


def _behind_its_question(episode: Episode, feedback: Mapping[str, Any]) -> str:
    """The question in the user's own words, and their correction of the answer. Empty if either has a secret."""
    shown = [episode.messages[place] for place in _rated(episode, feedback).shown] if episode.turns else []
    asked = " ".join(own_words(next((one.content for one in reversed(shown) if one.role == "user"), "")))
    correction = " ".join(str(feedback["correction"]).split())
    if not correction or has_secret(f"{asked}\n{correction}"):
        return ""
    return storable(f"{one_line(asked, 200)} {correction}".strip(), _LONGEST_QUERY)


def _rated(episode: Episode, feedback: Mapping[str, Any]) -> Turn:
    place = feedback.get("turn")
    return episode.turns[place if isinstance(place, int) and place < len(episode.turns) else -1]


def _case(episode: Episode, rated: bool) -> tuple[str, str]:
    """What was answered, and what the user would have answered instead: to a rated answer, or in the only turn."""
    given = (one.data for one in reversed(episode.events) if rated and one.name == "feedback")
    newest = next((data for data in given if not data.get("metric")), {})
    if not episode.turns or not (rated or len(episode.turns) == 1):
        return "", ""
    turn = _rated(episode, newest)
    return turn.said or turn.text, str(newest.get("correction") or "")


def _shown(skill: Skill, newer: str = "", note: str = "") -> str:
    """A skill as the agent reads it, in one line."""
    about = [f"tools: {', '.join(skill.tools)}"] if skill.tools else []
    about += [f"for: {', '.join(skill.scenarios)}"] if skill.scenarios else []
    # How something is done is nobody's wish. A wish may have a tool's name in it, too: "prefer mails in the morning".
    wish = not any(f"use {tool}" in skill.text for tool in skill.tools)
    about += ["wish of several users"] if wish and skill.visibility == "shared" else []
    about += [skill.dates] if skill.conversation or skill.fact or newer else []
    about += [f"may no longer hold: {newer} is newer"] if newer else []
    about += [note] if note else []
    return f"{skill.id}: {_line(skill)}" + (f" ({'; '.join(about)})" if about else "")


def _line(skill: Skill) -> str:
    return " ".join(skill.text.split())


def _follows(episode: Episode, skill: Skill) -> bool:
    """Whether what the agent did, and what came of it, does what the skill asks for."""
    failed = episode.failed_calls
    calls = [call for turn in episode.turns for call in turn.calls if call.id not in failed]
    said = [str(value) for call in calls for value in call.arguments.values()]
    for event in episode.events:
        if event.kind == "observation":
            effects = [one for one in _listed(event.data.get("effects")) if isinstance(one, Mapping)]
            said += [str(effect.get("text", "")) for effect in effects]
    return followed(skill.text, [call.name for call in calls], said, tools=skill.tools, about=skill.scenarios)


def _listed(value: object) -> Sequence[object]:
    """A key of an observation's data, which any world may fill as it likes, as a list."""
    return value if isinstance(value, (list, tuple)) else ()


def _digest(text: str) -> str:
    return blake2b(text.encode(errors="replace"), digest_size=8).hexdigest()


def _is_name(text: str) -> bool:
    """A model's call can have any name; names that can't be stored are dropped."""
    return text.isprintable() and bool(text.strip()) and len(text) <= 200


class ServerModel:
    """The model of the graph's writer, on an OpenAI-compatible server: by default the first that the server lists. What
    fails here, such as a server that is away, makes the writer keep what was said. `tokens` were used so far."""

    def __init__(self, settings: SkillGraphSettings) -> None:
        asked: dict[str, object] = {"base_url": settings.writer_url, "model": settings.writer_model}
        if "writer_key_env" in settings.model_fields_set:
            asked["api_key_env"] = settings.writer_key_env
        asked |= {"deadline": settings.writer_timeout, "retries": 0, "token_ids": "off"}
        checked = validate(OpenAISettings, asked, "the server of memory.skillgraph.writer_url")
        assert isinstance(checked, OpenAISettings)
        self._policy, self._most_tokens = OpenAIPolicy(checked), settings.writer_tokens
        self.name, self.tokens, self._untold = settings.writer_model, 0, Usage(0, 0, 0)

    def taken(self) -> Usage:
        """Return what was used since the last call."""
        found, self._untold = self._untold, Usage(0, 0, 0)
        return found

    async def complete(self, messages: Sequence[Mapping[str, str]], schema: Mapping[str, Any]) -> str:
        if self._most_tokens and self.tokens >= self._most_tokens:
            raise RuntimeError(f"{self.tokens} tokens are used, of {self._most_tokens} allowed")
        longest = min(LONGEST_ANSWER, self._most_tokens - self.tokens) if self._most_tokens else LONGEST_ANSWER
        asked = [Message(one["role"], one["content"]) for one in messages]
        request = Request(asked, sampling=Sampling(temperature=0.0, max_tokens=longest), schema=schema)
        try:
            generation = await self._policy.generate(request)
        finally:
            await self._policy.close()  # the next message may be heard in another event loop
        self.name = generation.version
        usage = self._policy.priced(generation.usage, self.name)
        self._untold += usage
        self.tokens += usage.tokens or 0
        return generation.text
