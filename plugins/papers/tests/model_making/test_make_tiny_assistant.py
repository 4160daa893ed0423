"""The maker of `tiny-assistant`: the same command makes the same model, from lessons that hold what was shown."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from make_tiny_assistant import PIECES, exercises_of, lessons_of, main, vocabulary_of, write_first_weights
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from agentfw import Engagement, PolicyAgent
from agentfw.turns.parsing import parse_calls
from agentfw_papers.worlds.assistant.assistant_settings import AssistantSettings
from agentfw_papers.worlds.assistant.domains import load_domains
from agentfw_papers.worlds.assistant.environment import Assistant
from agentfw_plugins.models.making import ABOUT, word_tokenizer, write_folder
from agentfw_plugins.policies.local.tiny_policy import TinyPolicy, TinySettings

SETTINGS = AssistantSettings(style="card")


@pytest.mark.nightly
def test_the_same_command_makes_the_same_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    for name in ("one", "two"):
        monkeypatch.setattr(
            sys,
            "argv",
            ["make_tiny_assistant.py", str(tmp_path / name), "--lessons", "60", "--steps", "2", "--exercises", "2"],
        )
        assert main() == 0

    made = {name: (tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")}
    assert made["one"] == made["two"]
    agent = PolicyAgent(TinyPolicy(TinySettings(model=str(tmp_path / "one"), max_tokens=8)))
    episode = asyncio.run(Engagement(Assistant(SETTINGS), agent).run(Assistant(SETTINGS).tasks(1, 11, "test")[0]))
    assert episode.turns[0].count > 0


@pytest.mark.slow
def test_lessons_are_cards_and_answers_with_one_call_that_goes_by_what_can_be_read() -> None:
    lessons = lessons_of(400, 7)

    names = [call for one in load_domains("").values() for call in one.calls]
    names += ["calendar_add", "mail_search", "mail_send", "answer"]
    assert all(len(parse_calls(answer, names).calls) == 1 for _, answer in lessons)
    assert sum("\N{REPLACEMENT CHARACTER}" in messages[-1].content for messages, _ in lessons) > 100
    wishes = [
        found
        for messages, answer in lessons
        if answer.startswith("think: ")
        for found in re.findall(r"prefer (\S+) ", messages[-1].content)
    ]
    assert 0 < sum("\N{REPLACEMENT CHARACTER}" in wish for wish in wishes) < len(wishes) / 2


def test_in_an_exercise_every_wish_is_looked_up_and_any_value_can_stand_in_any_scenario() -> None:
    exercises = exercises_of(300, 7)

    looked_up, strange = 0, 0
    for messages, answer in exercises:
        table = dict(re.findall(r"([\w-]+)=([A-E]+|none)", messages[-1].content))
        found = re.findall(r"(?:own|several|stated) ([\w-]+) ([A-E]+|none)", answer)
        assert all(table[value] == letters for value, letters in found)
        looked_up += len(found)
        strange += "dining" in messages[-1].content and "jazz" in table
    assert looked_up > 300
    assert strange


@pytest.mark.slow
def test_the_words_of_train_users_are_known_and_ids_of_skills_are_not() -> None:
    lessons = lessons_of(800, 7)

    tokenizer = word_tokenizer(vocabulary_of(lessons), PIECES)

    assert tokenizer.get_vocab_size() < 4096
    read = tokenizer.encode("- s12: For music, prefer swing tracks (tools: music_search; for: music)").tokens
    assert read[1:6] == [" For", " music", ",", " prefer", " swing"]
    assert read[0] == read[-2] == "<|unknown|>"
    assert tokenizer.encode("genre: jazz=AD, rock=none").tokens == ["genre", ":", " jazz=AD", ",", " rock=none"]
    # Only users of the split test say this.
    assert tokenizer.encode(" bebop").tokens == ["<|unknown|>"]


def test_a_composed_token_begins_near_its_parts(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    folder = tmp_path / "model"
    write_folder(folder, word_tokenizer(vocabulary_of(lessons_of(40, 7)), PIECES), about=ABOUT)

    write_first_weights(folder, seed=7)

    weights = load_file(folder / "model.safetensors")["model.embed_tokens.weight"]
    place = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab()
    jazz, none, composed, other = (weights[place[token]] for token in (" jazz", " none", " jazz=none", " rock=none"))
    assert np.allclose(composed, jazz + none, atol=1e-6)
    assert not np.allclose(other, jazz + none, atol=0.1)
