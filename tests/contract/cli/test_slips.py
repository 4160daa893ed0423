"""A slip of the fingers is told in one line, which leads to the right words, and nothing is begun."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Agentfw, Answer

SLIPS = {
    "trian": 'did you mean "train"?',
    "run --episode x": "--episodes",
    "train --optimiser x": "--optimizer",
    "run inbox --policy rndom": 'no policy is called "rndom"; did you mean "random"?',
    "run inbox --reward utilty": 'no reward model is called "utilty"; did you mean "utility"?',
    "run inbox --set interfase=step_loop": 'did you mean "interface"?',
    "run inbox --set episodes=-1": "episodes: must be at least 1 (got -1)",
    "run inbox --set ..=3": "isn't of the form KEY=VALUE",
    "run inbox --set memory=3": "name it: --set memory.NAME.KEY=VALUE",
    "run inbox --memory strategyhub --set memory.strategyhub=3": "name it: --set memory.strategyhub.KEY=VALUE",
    "run --spec nowhere.toml": "there is no spec file nowhere.toml",
    "run --spec .": 'no run is called "."',
    "run inbox calendar": "unexpected extra argument (calendar)",
    "run --reward utility=heavy": '"heavy" is not a weight',
    "runs resume last": 'no run is called "last"',
    "plugins show inbocks": 'no component is called "inbocks"; did you mean "inbox"?',
    "run inbox --set environment.rate=nan": "environment.rate: must be ",
    "run inbox --set environment.rate=inf": "environment.rate: must be ",
    "plugins new agentfw-tea --kind memry": 'no kind is called "memry"; did you mean "memory"?',
    "plugins check nothing": 'no component, plugin or distribution is called "nothing"',
    "run --plugin agentfw-nothing": "agentfw-nothing",
    "train": "or a file of questions: agentfw train tasks.jsonl",
    "train task.jsonl --model smollm2": "there is no file task.jsonl",
    "train tasks.csv": "questions are read from a file with one JSON object a line",
    "run inbox --model smolm2": 'did you mean "smollm2"?',
    "serve --model fast=openai": "to serve another one beside it: --also fast=openai",
    "serve --port 99999": "99999 is not in the range",
    "train --optimizer grop inbox": 'no optimizer is called "grop"; did you mean "grpo"?',
    "runs shw": "Did you mean 'show'?",
    "memory find": "agentfw memory has ",
    "plugins show memry:strategyhub": 'did you mean "memory"?',
    "plugins new agentfw-x": "a new plugin needs either --kind or --from",
    "plugins new 9lives --kind memory": "9lives",
    "plugins new json --kind memory": "Python already has a module called json",
    "plugins new x --from nowhere.py": "nowhere.py",
    "data make merchent": 'did you mean "merchant"?',
    "feedback": "Missing argument",
    "view --text .": 'no run is called "."',
}

PROVIDER = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
REWARD = "def correct(completion: str) -> float:\n    return 1.0\n"
TASK = '{"prompt": "What is 2 + 3?", "answer": "5"}\n'
LEARNS = "train tasks.jsonl --policy biased --optimizer centred --learner bias --reward format"
PLUGIN = '[project.entry-points.agentfw]\ntea = "our_tea"\n'
SITUATIONS: list[tuple[dict[str, str], dict[str, str], str, str]] = [
    # what is in the folder, in the environment, what is typed, and what is told
    ({}, {"OPENAI_BASE_URL": "https://YOUR-PROVIDER/v1"}, "serve", "is a placeholder"),
    ({}, {"OPENAI_BASE_URL": "localhost:11434"}, "serve", "write http://localhost:11434"),
    ({}, {"OPENAI_BASE_URL": "http://127.0.0.1:8765/v1"}, "serve", "is the address of this gateway itself"),
    ({}, {}, "serve --policy last", "no training in "),
    ({}, PROVIDER, "serve --host 0.0.0.0", "agentfw serve keys add NAME"),
    ({}, PROVIDER | {"AGENTFW_KEY": "secret"}, "serve --host 0.0.0.0", "is easy to guess"),
    ({}, PROVIDER, "serve --canary 0.2", "add --learn"),
    ({}, PROVIDER, "serve --fallback fast=slow", "there is no model fast"),
    ({}, PROVIDER, "serve --also fast", "write --also NAME=POLICY"),
    ({"notes.txt": ""}, {}, "run inbox --policy random --runs notes.txt", "move the file that has the name"),
    ({"tasks.jsonl": TASK * 3}, {}, LEARNS, "write 5 more, or make an update smaller: --set tasks=3"),
    ({"tasks.jsonl": "\n"}, {}, LEARNS, "tasks.jsonl has no tasks"),
    ({"tasks.jsonl": "{prompt: 1}\n"}, {}, LEARNS, "line 1, is no JSON object"),
    ({"tasks.jsonl": f"\ufeff{TASK}" * 3}, {}, LEARNS, "line 2, is no JSON object"),
    ({"tasks.jsonl": f"\ufeff{TASK}{TASK * 2}"}, {}, LEARNS, "write 5 more"),
    ({"tasks.jsonl": "\udcff"}, {}, LEARNS, "is not UTF-8 text"),
    ({"tasks.jsonl/one": TASK}, {}, LEARNS, "there is no file tasks.jsonl\n"),
    ({"inbox.toml": '\ufeffenvironment = "inbox"'}, {}, "run --spec inbox.toml", "policy: is required"),
    ({"tasks.jsonl": f"[{TASK.strip()}]\n"}, {}, LEARNS, "write one task per line"),
    ({"rewards.py": REWARD}, {}, "run inbox --reward rewards:correct", "named with it: rewards.py:correct"),
    ({"rewards.py": REWARD}, {}, "run inbox --reward rewards.py:corect", 'did you mean "correct"?'),
    ({"rewards.py": "def f(:\n"}, {}, "run inbox --reward rewards.py", "rewards.py, line 1"),
    ({"rewards.py": "import nowhere\n"}, {}, "run inbox --reward rewards.py", "No module named 'nowhere'"),
    ({"model": "weights"}, {}, "run inbox --model ./model", "not in the format GGUF"),
    ({"model/config.json": "{}"}, {}, "run inbox --model model", "it has no tokenizer.json"),
    ({"our-tea/pyproject.toml": PLUGIN}, {}, "run our-tea", "pip install -e our-tea"),
]


def check(answer: Answer, told: str) -> None:
    assert answer.code in (1, 2, 3)
    assert told in answer.err
    assert answer.out == ""
    assert "Traceback" not in answer.err
    assert "\n  fix: " in answer.err
    assert not Path("runs").exists(), "nothing is begun before everything is right"


@pytest.mark.parametrize(("words", "told"), SLIPS.items(), ids=SLIPS)
def test_a_slip_leads_to_the_right_words(words: str, told: str, agentfw: Agentfw) -> None:
    check(agentfw(*words.split()), told)


@pytest.mark.parametrize(("files", "environment", "words", "told"), SITUATIONS)
def test_what_is_wrong_around_a_command_is_told(
    files: dict[str, str],
    environment: dict[str, str],
    words: str,
    told: str,
    agentfw: Agentfw,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    for name in (*PROVIDER, "OPENAI_API_KEY", "AGENTFW_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    check(agentfw(*words.split()), told)
