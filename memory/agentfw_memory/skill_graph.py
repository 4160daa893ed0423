"""SkillGraph: a memory of skills that recalls those which fit a query and a user, and learns from trajectories.

    >>> with SkillGraph.open(":memory:", tenant="team-a", embedder="hash") as graph:
    ...     _ = graph.add(owner="ana", text="Offer the earliest slot first", scenarios=["rescheduling"])
    ...     _ = graph.add(owner="ben", text="Offer the latest slot first")
    ...     [hit.skill.text for hit in graph.recall("which slot do I offer?", user="ana")]
    ['Offer the earliest slot first']

A graph belongs to one tenant. A skill is private to its owner or shared within the tenant, and only skills that a user
may see are searched. Acknowledged writes survive `kill -9`, and several processes may read and write one file. Only
`delete` and `forget` delete data.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from .errors import BadInputError, StorageError, UnknownSkillError
from .graph.exchange.import_export import export_jsonl, import_jsonl, to_networkx
from .graph.forgetting import Forgetter
from .graph.graph_rows import GraphRows
from .graph.graph_settings import GraphSettings
from .graph.index.embedders import Embedder, embedded, open_embedder
from .graph.learning.editing import Editor
from .graph.learning.extraction import CASES, Case, Extractor, Trajectory, chosen_cases
from .graph.learning.hearing import Hearer, Saying, ask
from .graph.learning.trajectories import Learner
from .graph.recall.recall import NOBODY, Recaller, every_answer, record_of
from .graph.records import Heard, Hit, Learned, NewSkill, NodeKind, Receipt, Skill, SkillHistory, Stats, Visibility
from .graph.stores import store_class
from .graph.stores.sql import Store
from .graph.stores.store import Among, Answer, Between, Clock, Select
from .graph.validation import check_filter, check_name, check_names, check_number, check_skill, check_text, fits
from .writing.writer import Writer

if TYPE_CHECKING:
    import networkx

Arguments = ParamSpec("Arguments")

HEARD_AT_ONCE = 10  # number of messages of an import that a writer is asked about in one request
EmbedderChoice = str | Embedder | Callable[[Sequence[str]], Any]


class SkillGraph:
    """The skills of one tenant. Thread-safe, and several processes may open the same file."""

    def __init__(
        self,
        store: Store,
        embedder: Embedder,
        settings: GraphSettings,
        extractor: Extractor | None = None,
        writer: Writer | None = None,
    ) -> None:
        if store.head().embedder is None:
            with store.writing():
                if store.head().embedder is None:
                    store.set_head(embedder=record_of(embedder))
        self._store, self.settings, self.embedder, self.tenant = store, settings, embedder, store.tenant
        self._rows = GraphRows(store)
        self._recaller = Recaller(self._rows, embedder, settings)
        self._editor = Editor(self._recaller)
        self._learner = Learner(self._recaller, self._editor, extractor)
        self._hearer = Hearer(self._recaller, self._editor, writer)
        self._forgetter = Forgetter(self._recaller)
        self._lock, self._closed = threading.RLock(), False
        self._recaller.check_embedder(self._recaller.head.embedder)

    @classmethod
    def open(
        cls,
        where: str | Path,
        *,
        tenant: str,
        embedder: EmbedderChoice = "",
        settings: GraphSettings | None = None,
        extractor: Extractor | None = None,
        writer: Writer | None = None,
        clock: Clock = time.time,
    ) -> SkillGraph:
        """Open or create a tenant's graph, in a file or at an address such as `postgresql://`.

        The default embedder is the one that made the graph's vectors, or the best one installed for a new graph.
        """
        chosen = settings or GraphSettings()
        check_name("tenant", tenant)
        store = store_class(where).open(
            where, tenant=tenant, clock=clock, patience=chosen.patience, power_safe=chosen.power_safe
        )

        def opened() -> SkillGraph:
            present = store.head().embedder
            name = present.name if embedder == "" and present is not None else embedder
            return cls(store, open_embedder(name), chosen, extractor, writer)

        try:
            return store.retried(opened, repeatable=True)
        except BaseException:
            store.close()
            raise

    @classmethod
    def tenants(cls, where: str | Path) -> list[str]:
        """Return the names of the tenants in a file or database."""
        return store_class(where).tenants(where)

    @property
    def admin(self) -> Admin:
        """What an operator does with all of the graph."""
        return Admin(self)

    # Skills

    def add(
        self,
        *,
        owner: str,
        text: str,
        tools: Iterable[str] = (),
        scenarios: Iterable[str] = (),
        visibility: Visibility = "private",
        valid_from: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        expires_at: float | None = None,
    ) -> Skill:
        """Add a skill. If the owner has this text already, that skill is returned, with the new tools and scenarios.

        A text with other metadata is another skill.
        """
        named = _listed(tools), _listed(scenarios)
        about = {} if metadata is None else metadata
        return self.add_all([NewSkill(owner, text, *named, visibility, valid_from, about, expires_at)])[0]

    def add_all(self, skills: Iterable[NewSkill]) -> list[Skill]:
        """Add several skills: all of them or none."""
        wanted = list(skills)
        return self._call(lambda: self._editor.add(wanted))

    def update(
        self,
        skill: str,
        *,
        text: str | None = None,
        visibility: Visibility | None = None,
        tools: Iterable[str] | None = None,
        scenarios: Iterable[str] | None = None,
        valid_from: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        expires_at: float | None = None,
    ) -> Skill:
        """Start a new version of a skill. What isn't given stays as it is. `expires_at=math.inf` means never."""
        changes = {"text": text, "visibility": visibility, "metadata": metadata}
        given: dict[NodeKind, Iterable[str] | None] = {"tool": tools, "scenario": scenarios}
        names = {kind: _listed(some) for kind, some in given.items() if some is not None}
        return self._call(lambda: self._editor.update(skill, changes, names, valid_from, expires_at))

    def retire(self, skill: str) -> None:
        """End a skill. It is no longer recalled, but its history stays."""
        self._call(lambda: self._editor.retire(skill), repeatable=False)

    def get(self, skill: str) -> Skill:
        """Return the current version of a skill."""
        number = check_skill(skill)
        return self._call(lambda: self._editor.current(number))

    def skills(self, *, owner: str, scenario: str | None = None, where: Mapping[str, Any] | None = None) -> list[Skill]:
        """Return an owner's skills, oldest first: all of them, or those of a scenario, or whose metadata fits `where`.

        `{"kind": "note", "year": {"$gte": 2020}}` is such a filter. See `graph.validation`.
        """
        check_name("owner", owner)
        check_filter(where or {})
        if scenario is not None:
            check_name("scenario", scenario)

        def found() -> list[Skill]:
            user = self._rows.find("user", owner)
            numbers = [] if user is None else self._rows.owned(user)
            if scenario is not None:
                known = self._rows.find("scenario", scenario)
                of = () if known is None else self._rows.skills_of(known)
                numbers = sorted(set(of).intersection(numbers))
            return [one for one in self._rows.skills(numbers).values() if fits(one.metadata, where or {})]

        return self._call(found)

    def history(self, skill: str) -> SkillHistory:
        """Return every version and edge of a skill, ended ones included."""
        number = check_skill(skill)
        history = self._call(lambda: self._rows.history(number))
        if not history.versions:
            raise UnknownSkillError(skill)
        return history

    # Edges and users

    def connect(self, source: str, kind: str, target: str, *, weight: float = 1.0) -> None:
        """Add an edge: REQUIRES, APPLIES_TO, TRIGGERS, COMPLEMENTS or CONFLICTS. Skills are named by their ids."""
        self._call(lambda: self._editor.connect(source, kind, target, weight))

    def disconnect(self, source: str, kind: str, target: str) -> bool:
        """End an edge. Return False if there is none."""
        return self._call(lambda: self._editor.connect(source, kind, target, end=True), repeatable=False)

    def set_profile(self, user: str, text: str) -> None:
        """Describe a user in words. Without a profile, the mean of a user's skills describes them."""
        self._call(lambda: self._editor.set_profile(user, text))

    # Recalling and learning

    def recall(
        self,
        query: str,
        *,
        user: str,
        k: int = 5,
        as_of: float | None = None,
        at_least: float | None = None,
        where: Mapping[str, Any] | None = None,
        scenario: str | Iterable[str] = (),
        tools: Iterable[str] = (),
    ) -> list[Hit]:
        """Return the k best skills that this user may see, each with the reasons for its score.

        Skills that apply to one of `scenario` or require one of `tools` are considered, too, and come earlier.

        Skills whose relevance is below `at_least` are left out (default: that of the settings). With `as_of`, return
        what held at that time, also if it was superseded or retired since, whatever its relevance. With `where`, only
        skills whose metadata fits it. See `skills`.
        """
        check_text("query", query, self.settings.longest_text)
        check_name("user", user)
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise BadInputError(f"can't recall {k!r} skills", fix="pass k as 1 or more")
        least = self.settings.at_least if at_least is None else at_least
        if not 0.0 <= least <= 1.0:
            fix = "pass a relevance from 0 to 1; 0 leaves nothing out"
            raise BadInputError(f"invalid at_least {at_least!r}", fix=fix)
        if where:
            check_filter(where)
        when = None if as_of is None else check_number("as_of", as_of)
        about = (scenario,) if isinstance(scenario, str) else tuple(scenario)
        context = {"scenarios": check_names("scenario", about), "tools": check_names("tool", _listed(tools))}

        def found() -> list[Hit]:
            if when is None:
                return self._recaller.recall(query, user, k, least, where=where, **context)
            return self._recaller.recall_as_of(query, user, k, when, where or {}, **context)

        return self._call(found)

    def cases(
        self,
        query: str,
        *,
        user: str,
        k: int = 6,
        tokens: int = 1_000,
        count: Callable[[str], int] | None = None,
        bad: bool = False,
    ) -> list[Case]:
        """Return up to k earlier requests with their answers, as demonstrations for this one, the best last.

        They take at most so many tokens, as `count` counts them in their text. With `bad`, answers that weren't liked
        are among them. `as_messages` and `as_text` bring cases into the form that a policy reads.
        """
        room = self.recall(query, user=user, k=2 * k, at_least=0.0, where=CASES)
        return chosen_cases(room, k, tokens, count, bad=bad)

    def learn(self, trajectory: Trajectory | Mapping[str, Any], reward: float) -> Learned:
        """Learn from a trajectory and its reward. A trajectory that was learned before changes nothing."""
        return self._call(lambda: self._learner.learn(trajectory, reward))

    def hear(
        self,
        text: str,
        *,
        user: str,
        conversation: str = "",
        at: float | None = None,
        id: str = "",
        answer_to: str = "",
    ) -> Heard:
        """Remember what a user says of themselves. A message that was heard before changes nothing.

        The graph's writer decides what to write down. Without one, what says something lasting is kept as it was said.
        What the user pasted or quoted is left out. What they ask to forget is only returned: `delete` deletes it.
        """
        return self.hear_all([Saying(text, user, conversation, at, id, answer_to)])[0]

    def asked_to_forget(self, text: str, *, user: str) -> list[Skill]:
        """Return the skills of a user that a message of theirs asks to forget. Nothing is deleted or heard."""
        check_name("user", user)
        return self._call(lambda: self._hearer.asked_to_forget(text, user))

    def hear_all(self, sayings: Iterable[Saying]) -> list[Heard]:
        """Hear messages of an import, oldest first. A writer is asked about several in one request."""
        if self._hearer.writer is not None:
            return asyncio.run(self._heard(sayings))
        return [self._call(partial(self._hearer.hear, one), repeatable=bool(one.id)) for one in sayings]

    async def _heard(self, sayings: Iterable[Saying]) -> list[Heard]:
        """Ask the writer in this event loop, and do the rest in other threads."""
        whole, heard, hearer = list(sayings), list[Heard](), self._hearer
        if hearer.writer is None:
            return await asyncio.to_thread(self.hear_all, whole)
        for some in (whole[start : start + HEARD_AT_ONCE] for start in range(0, len(whole), HEARD_AT_ONCE)):
            said = [await asyncio.to_thread(self._call, partial(hearer.said, one)) for one in some]
            asked = [one for one in said if one is not None]
            answers, problem = await ask(hearer.writer, asked) if asked else ((), "")
            rest = iter(answers)
            for saying, what in zip(some, said, strict=True):
                write = partial(hearer.write, saying, what, None if what is None else next(rest, None), problem)
                heard.append(await asyncio.to_thread(self._call, write, repeatable=bool(saying.id)))
        return heard

    def standing(self, user: str, *, k: int) -> list[Skill]:
        """Return how a user wants to be called and answered, whatever they ask: the k newest such wishes."""
        check_name("user", user)

        def found() -> list[Skill]:
            fact = every_answer(self._rows.find("user", user) or NOBODY)
            own = self._rows.skills(sorted(self._rows.stating(fact))).values()
            return sorted(own, key=lambda skill: -skill.valid_from)[:k]

        return self._call(found)

    # The whole graph

    def forget(self, user: str) -> Receipt:
        """Delete all data of a user: skills, trajectories, profile, history, vectors, and their bytes on disk.

        Shared copies that too few other users are behind are deleted too.
        """
        check_name("user", user)
        with self._lock:
            receipt = self._erased(user, lambda: self._forgetter.forget(user))
            self._call(self._recaller.drop_communities)
            return receipt

    def delete(self, *skills: str, version: int | None = None, user: str = "", id: str = "") -> Receipt:
        """Delete skills for good: their versions, edges and vectors, what told them, and their bytes on disk.

        The skills may have ended. Skills that are gone already are ignored, so that a call can be repeated. With
        `version`, only that past version of one skill is deleted. `history` has the numbers. With the `user` and `id`
        of the message that asks for it, as `hear` has them, a message deletes once.
        """
        numbers = [check_skill(skill) for skill in skills]
        if version is not None and len(numbers) != 1:
            raise BadInputError(f"version {version} of {len(numbers)} skills", fix="name one skill with a version")
        return self._erased("", lambda: self._forgetter.erase(numbers, version, Saying("", user, id=id).name))

    def _erased(self, user: str, delete: Callable[[], dict[str, int]]) -> Receipt:
        """Delete rows, and what is left of them in files."""
        with self._lock:
            counts = self._call(delete, repeatable=False)
            self._call(self._store.erase)
            return Receipt(user, **counts)

    def prepare(self) -> None:
        """Load the graph, compute the communities, and save both for the next process.

        The first recall loads the graph by itself. A server calls this before it starts to listen.
        """
        self._call(self._recaller.prepare)

    @classmethod
    def reembed(
        cls,
        where: str | Path,
        *,
        tenant: str,
        embedder: EmbedderChoice,
        clock: Clock = time.time,
        progress: Callable[[int], object] = lambda done: None,
    ) -> int:
        """Embed all texts of a tenant again with another embedder. Return how many were embedded.

        The old vectors stay in use until all new ones are stored. An interrupted call can be repeated to resume.
        """
        maker, done = open_embedder(embedder), 0
        check_name("tenant", tenant)
        store = store_class(where).open(where, tenant=tenant, clock=clock)
        some = partial(GraphRows(store).reembed, record_of(maker), partial(embedded, maker))
        try:
            while (count := store.retried(some, repeatable=True)) is not None:
                done += count
                progress(done)
        finally:
            store.close()
        return done

    def _call(self, call: Callable[[], Answer], *, repeatable: bool = True) -> Answer:
        """Call under the lock, and again if a connection to a server breaks.

        What may be repeated has the same effect twice as once. A repeated add, for example, finds its own skill.
        """
        with self._lock:
            if self._closed:
                raise StorageError("the graph is closed", fix="open it again with SkillGraph.open")
            self._store.retried(self._begin, repeatable=True)
            return self._store.retried(call, repeatable=repeatable)

    def _begin(self) -> None:
        """Look what has changed, and end the skills whose time is over."""
        head = self._store.head()
        if head.any_expired:
            with self._store.writing() as change:
                self._rows.end_skills(change, self._rows.expired())
            head = self._store.head()
        self._recaller.head = head

    def close(self) -> None:
        """Save what speeds up the next process, and close the store. Closing twice does nothing."""
        with self._lock:
            if not self._closed:
                self._closed = True
                try:
                    self._recaller.close()
                finally:
                    self._store.close()

    def __enter__(self) -> SkillGraph:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Admin:
    """What an operator does with all of one tenant's graph."""

    def __init__(self, graph: SkillGraph) -> None:
        self._rows, self._recaller, self._call = graph._rows, graph._recaller, graph._call

    def stats(self) -> Stats:
        """Return counts, and the embedder of the vectors."""

        def counted() -> Stats:
            store, counts, maker = self._rows.store, self._rows.counts(), record_of(self._recaller.embedder)
            return Stats(
                *(store.tenant, counts["nodes"], counts["edges"], counts["skills"]["shared"], counts["skills"]["past"]),
                communities=self._recaller.communities(),
                embedder=maker.name,
                embedder_version=maker.version,
                dimensions=maker.dimensions,
                bytes_on_disk=store.bytes_on_disk(),
            )

        return self._call(counted)

    def owners(self, *, prefix: str = "") -> list[str]:
        """Return the users who own skills and whose name begins like this, sorted."""
        name = {"name": Between(prefix, f"{prefix}\U0010ffff")} if prefix else {}

        def found() -> list[str]:
            read = self._rows.store.read
            users = dict(read(Select("node", ("number", "name"), {"kind": "user", **name}))[0])
            some = {"owner": Among(users)} if prefix else {}
            return sorted(users[one] for (one,) in read(Select("live", ("owner",), some, distinct=True))[0])

        return self._call(found)

    def export_jsonl(self, path: str | Path) -> int:
        """Write every row, with history and vectors, as lines of JSON. Return the number of rows."""
        return self._call(lambda: export_jsonl(self._rows, path))

    def import_jsonl(self, path: str | Path) -> int:
        """Import an export into this tenant, which must be empty. Return the number of rows."""
        return self._call(lambda: import_jsonl(self._rows, path), repeatable=False)

    def to_networkx(self) -> networkx.MultiDiGraph[str]:
        """Return the current graph for networkx. `networkx.write_graphml` writes it to a file."""
        return self._call(lambda: to_networkx(self._recaller))


def _in_thread(
    method: Callable[Concatenate[SkillGraph, Arguments], Answer],
) -> Callable[Concatenate[AsyncSkillGraph, Arguments], Coroutine[Any, Any, Answer]]:
    async def called(self: AsyncSkillGraph, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        return await asyncio.to_thread(method, self.graph, *args, **kwargs)

    called.__name__, called.__doc__ = method.__name__, method.__doc__
    return called


class AsyncSkillGraph:
    """A graph in an event loop, which goes on meanwhile: each method calls the graph's in another thread.

    async with AsyncSkillGraph(SkillGraph.open("skills.db", tenant="team-a")) as graph:
        await graph.recall("move my meeting", user="ana")
    """

    def __init__(self, graph: SkillGraph) -> None:
        self.graph = graph

    add, add_all, update = _in_thread(SkillGraph.add), _in_thread(SkillGraph.add_all), _in_thread(SkillGraph.update)
    retire, delete, get = _in_thread(SkillGraph.retire), _in_thread(SkillGraph.delete), _in_thread(SkillGraph.get)
    skills, history = _in_thread(SkillGraph.skills), _in_thread(SkillGraph.history)
    connect, disconnect = _in_thread(SkillGraph.connect), _in_thread(SkillGraph.disconnect)
    set_profile, standing = _in_thread(SkillGraph.set_profile), _in_thread(SkillGraph.standing)
    recall, cases, learn = _in_thread(SkillGraph.recall), _in_thread(SkillGraph.cases), _in_thread(SkillGraph.learn)
    asked_to_forget, forget = _in_thread(SkillGraph.asked_to_forget), _in_thread(SkillGraph.forget)
    prepare, close = _in_thread(SkillGraph.prepare), _in_thread(SkillGraph.close)

    async def hear(self, text: str, *, user: str, **about: Any) -> Heard:
        """Hear as `SkillGraph.hear` does. The writer is asked in this loop."""
        return (await self.hear_all([Saying(text, user, **about)]))[0]

    async def hear_all(self, sayings: Iterable[Saying]) -> list[Heard]:
        """Hear messages of an import."""
        return await self.graph._heard(sayings)

    async def __aenter__(self) -> AsyncSkillGraph:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()


def _listed(names: Iterable[str]) -> tuple[str, ...]:
    """Return names as a tuple. A string stays a string, so that the check can reject it."""
    return names if isinstance(names, str) else tuple(names)  # type: ignore[return-value]
