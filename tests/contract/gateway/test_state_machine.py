"""Two users, two models and two gateways, in any order of questions, retries, ratings, restarts and forgetting.

Whatever was done, the record has all of it once and in order, nobody sees what is another's, each model goes on from
its own tokens only, and each retry is another sample. The gateways either have a folder each, or share their sessions.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from serving_gateways import EARS, TOKENS, Gateway, Message, gateway_of, killed_now, said, shared_session, user
from waiting import until

from agentfw import Episode, Turn
from agentfw.runs import read_sessions

from .conftest import command, counts_ratings

USERS, MODELS = ("ada", "bob"), ("agentfw", "other")
users, gateways, models = st.sampled_from(USERS), st.integers(0, 1), st.sampled_from(MODELS)


@dataclass
class Led:
    """A session, as it should be."""

    name: str
    user: str
    home: int
    """The gateway that has it, unless it is shared."""
    asked: list[tuple[list[Message], str, str]] = field(default_factory=list)
    """Of each answer: the messages that it was asked with, the model, and its text."""
    ratings: list[tuple[float, int | None, bool]] = field(default_factory=list)
    """The value, the answer, and whether it still counts."""

    def rated(self) -> int:
        """Number of answers, of the policy that learns, with a rating that counts."""
        counting = [(value, turn) for value, turn, counts in self.ratings if counts]
        newest = {turn: value for value, turn in counting}
        own = (number for number, (_, model, _) in enumerate(self.asked) if model == "agentfw")
        values = [newest.get(number, newest.get(None, 0.0)) for number in own]
        return sum(abs(value) >= 0.5 for value in values)


@dataclass(frozen=True)
class Talk:
    """A conversation whose last message is an answer."""

    led: int
    messages: tuple[str, ...]
    """What was said and answered, in turn."""


class Gateways(RuleBasedStateMachine):
    talks = Bundle("talks")

    def __init__(self, shared: str = "") -> None:
        super().__init__()
        self.shared, self.stack, self.led = shared, ExitStack(), list[Led]()
        self.folder = Path(self.stack.enter_context(tempfile.TemporaryDirectory()))
        self.number, self.copies = 0, 0
        self.sayings: dict[str, list[str]] = {name: [] for name in USERS}
        """What each user has said since they were forgotten."""
        second = self.folder / "second.py"
        second.write_text(TOKENS.read_text("utf-8").replace("MARK = 1", "MARK = 2"))
        ears = self.folder / "ears.py"
        # Nothing is recalled, because a conversation that is told something else from now on is another conversation.
        ears.write_text(EARS.read_text("utf-8").replace("[: query.limit]", "[:0]"))
        self.options = {"policy": str(TOKENS), "memories": [str(ears)], "models": [f"other={second}"]}
        self.running = [self.start(self.folder / str(number), **self.options) for number in range(2)]
        for gateway, _ in self.running:
            counts_ratings(gateway.folder)

    def start(self, runs: Path, **options: Any) -> tuple[Gateway, ExitStack]:
        stack = self.stack.enter_context(ExitStack())
        return stack.enter_context(gateway_of(runs, limits={"shared": self.shared}, **options)), stack

    def teardown(self) -> None:
        try:
            self.check()
        finally:
            self.stack.close()

    # -- what is done --------------------------------------------------------------------------------------------------

    def words(self, of: str) -> str:
        self.number += 1
        return f"{of}-says-{self.number}"

    def at(self, led: Led, gateway: int) -> Gateway:
        return self.running[gateway if self.shared else led.home][0]

    def ask(self, number: int, gateway: int, model: str, messages: Sequence[Message]) -> str:
        led = self.led[number]
        text = str(said(self.at(led, gateway).ask(led.name, *messages, model=model, user=led.user))["content"])
        is_new = all(list(messages) != before for before, _, _ in led.asked)
        if is_new:
            self.sayings[led.user].append(messages[-1]["content"])
        led.asked.append((list(messages), model, text))
        return text

    @rule(target=talks, of=users, gateway=gateways, model=models)
    def begin(self, of: str, gateway: int, model: str) -> Talk:
        number, words = len(self.led), self.words(of)
        self.led.append(Led(f"s{number}", of, gateway))
        return Talk(number, (words, self.ask(number, gateway, model, [user(words)])))

    @rule(target=talks, talk=talks, gateway=gateways, model=models, edited=st.sampled_from([False, False, True]))
    def go_on(self, talk: Talk, gateway: int, model: str, edited: bool) -> Talk:
        answer = f"{talk.messages[-1]} (edited)" if edited else talk.messages[-1]
        said_so_far = (*talk.messages[:-1], answer, self.words(self.led[talk.led].user))
        return Talk(talk.led, (*said_so_far, self.ask(talk.led, gateway, model, conversation(said_so_far))))

    @rule(target=talks, talk=talks, gateway=gateways, model=models)
    def retry(self, talk: Talk, gateway: int, model: str) -> Talk:
        asked = talk.messages[:-1]
        return Talk(talk.led, (*asked, self.ask(talk.led, gateway, model, conversation(asked))))

    @rule(talk=talks, gateway=gateways, value=st.sampled_from([-1.0, 0.2, 1.0]), whole=st.booleans())
    def rate(self, talk: Talk, gateway: int, value: float, whole: bool) -> None:
        led = self.led[talk.led]
        turn = None if whole else len(led.asked) - 1
        body = {"value": value, "user": led.user, **({} if whole else {"turn": turn})}
        assert self.at(led, gateway).post(f"/s/{led.name}/feedback", body).status_code == 200
        led.ratings.append((value, turn, True))

    @precondition(lambda self: not self.shared and any(led.rated() for led in self.led))
    @rule(of=users, gateway=gateways)
    def remove_ratings(self, of: str, gateway: int) -> None:
        runs, run = self.folder_of(gateway)
        mine = [led for led in self.led if (led.user, led.home) == (of, gateway)]
        before = sum(led.rated() for led in mine)
        told = command("serve", "forget-feedback", "--user", of, "--runs", runs, "--run", run)
        assert told["left_out"] == before
        for led in mine:
            led.ratings = [(value, turn, False) for value, turn, _ in led.ratings]

    @rule(talk=talks, gateway=gateways)
    def intrude(self, talk: Talk, gateway: int) -> None:
        led = self.led[talk.led]
        other = next(name for name in USERS if name != led.user)
        running, words = self.at(led, gateway), self.words(other)
        answers = [
            running.ask(led.name, *conversation(talk.messages), user(words), user=other),
            running.post(f"/s/{led.name}/feedback", {"value": -1, "user": other}),
            running.post(f"/s/{led.name}/end", {"user": other}),
        ]
        assert [answer.status_code for answer in answers] == [403] * 3
        assert led.user not in "".join(answer.text for answer in answers)

    @precondition(lambda self: any(self.sayings.values()))
    @rule(of=users)
    def forget(self, of: str) -> None:
        for gateway, _ in self.running:
            assert gateway.request("DELETE", f"/memory?user={of}").status_code == 200
        self.sayings[of].clear()

    @rule(gateway=gateways, kill=st.booleans())
    def restart(self, gateway: int, kill: bool) -> None:
        running, stack = self.running[gateway]
        run, self.copies = running.folder, self.copies + 1
        if kill:
            if self.shared:  # what a gateway says to the store after its folder was copied can't be taken back
                until(lambda: running.has_heard(*USERS))
            run = killed_now(running, self.folder / f"copy-{self.copies}")
        stack.close()
        self.running[gateway] = self.start(run.parent, resume=str(run))

    # -- what is so ----------------------------------------------------------------------------------------------------

    def folder_of(self, gateway: int) -> tuple[str, str]:
        folder = self.running[gateway][0].folder
        return str(folder.parent), folder.name

    def episode(self, led: Led) -> Episode:
        if self.shared:
            return shared_session(self.shared, led.name)
        [episode] = read_sessions(self.running[led.home][0].folder, led.name)
        return episode

    def check(self) -> None:
        for led in self.led:
            episode = self.episode(led)
            self.check_record(led, episode)
            check_tokens(episode)
            other = next(name for name in USERS if name != led.user)
            assert f"{other}-says" not in json.dumps(episode.to_record())
        until(lambda: all(self.remembered(name) == sorted(self.sayings[name]) for name in USERS))
        if not self.shared:
            for number in range(2):
                runs, run = self.folder_of(number)
                waiting = command("serve", "versions", "--runs", runs, "--run", run)["waiting"]
                assert waiting == sum(led.rated() for led in self.led if led.home == number)

    def remembered(self, of: str) -> list[str]:
        return sorted(text for gateway, _ in self.running for text in gateway.remembered(of))

    def check_record(self, led: Led, episode: Episode) -> None:
        assert episode.task.user == led.user
        assert [turn.index for turn in episode.turns] == list(range(len(led.asked)))
        for turn, (messages, model, text) in zip(episode.turns, led.asked, strict=True):
            shown = [episode.messages[place] for place in turn.shown]
            assert [(one.role, one.content) for one in shown if one.role != "system"] == [
                (one["role"], one["content"]) for one in messages
            ]
            assert (turn.text, turn.model) == (text, "" if model == "agentfw" else model)
        given = [event.data for event in episode.events if event.name == "feedback"]
        assert [(one["value"], one["turn"]) for one in given] == [(value, turn) for value, turn, _ in led.ratings]


def conversation(texts: Sequence[str]) -> list[Message]:
    """What was said and answered, as messages."""
    return [{"role": "assistant" if number % 2 else "user", "content": text} for number, text in enumerate(texts)]


def check_tokens(episode: Episode) -> None:
    """Each answer goes on from the tokens of the last one, if its model gave that and it came back unchanged."""
    for turn in episode.turns:
        before = came_back(episode, turn)
        chain = () if before is None else before.prompt_ids + before.token_ids
        assert turn.prompt_ids[:-1] == chain
        mark = 2 if turn.model else 1
        assert {token // 10**7 for token in (*turn.prompt_ids, *turn.token_ids)} == {mark}
        same = [each.token_ids[0] % 10**7 for each in episode.turns if each.shown == turn.shown]
        assert len(set(same)) == len(same), "each retry is another sample"


def came_back(episode: Episode, turn: Turn) -> Turn | None:
    """The turn whose answer is the last one among the messages of another, if the same model gave it."""
    answers = [i for i, place in enumerate(turn.shown) if episode.messages[place].role == "assistant"]
    if not answers:
        return None
    before, text = turn.shown[: answers[-1]], episode.messages[turn.shown[answers[-1]]].content
    of_model = [each for each in episode.turns if each.shown == before and each.model == turn.model]
    return next((each for each in of_model if each.text == text), None)


def explore(make: Callable[[], Gateways], examples: int) -> None:
    run_state_machine_as_test(
        make,  # type: ignore[arg-type]  # it takes a function too, says its docstring
        settings=settings(
            max_examples=examples, stateful_step_count=20, phases=(Phase.generate,), report_multiple_bugs=False
        ),
    )


def test_gateways_with_a_folder_each() -> None:
    explore(Gateways, 2)


def test_gateways_that_share_a_file(tmp_path: Path) -> None:
    numbers = iter(range(1000))
    explore(lambda: Gateways(str(tmp_path / f"{next(numbers)}.db")), 1)


@pytest.mark.nightly
def test_gateways_that_share_a_database(postgres_database: Callable[[str], str]) -> None:
    numbers = iter(range(1000))
    explore(lambda: Gateways(postgres_database(str(next(numbers)))), 3)
