"""A slip of the fingers is told in one line, which leads to the right words, and nothing is begun."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Agentfw = Callable[..., Any]

COMMANDS = "trian:train comapre:compare pluginz:plugins docter:doctor veiw:view srve:serve chatt:chat rums:runs"
COMMANDS += " reprot:report memroy:memory rewrad:reward feedbak:feedback dta:data exprot:export"
OPTIONS = {
    "run": "--episode:--episodes --plicy:--policy --memry:--memory --tol:--tool --rewards:--reward "
    "--intrface:--interface --sed:--seed --quite:--quiet --jsn:--json --sett:--set"
    " --spek:--spec --run:--runs --plugins:--plugin",
    "train": "--update:--updates --optimiser:--optimizer --lerner:--learner --techer:--teacher --form:--from"
    " --sample:--samples",
    "runs list": "--limt:--limit --run:--runs",
    "runs show": "--episod:--episode --jason:--json",
    "runs resume": "--samles:--samples",
    "compare": "--figur:--figure --sweeps:--sweep",
    "report": "--pictur:--picture --epsode:--episode",
    "plugins list": "--kin:--kind --hook:--hooks",
    "plugins new": "--knd:--kind --int:--into",
    "doctor": "--jsom:--json --strict:--strict-plugins",
}
NAMES = {
    "--policy": ("policy", "rndom:random scriptd:scripted opnai:openai transfromers:transformers tny:tiny"),
    "--memory": ("memory", "strategihub:strategyhub skilgraph:skillgraph strategy-hub:strategyhub"),
    "--reward": ("reward model", "utilty:utility feedbak:feedback"),
}
ENVIRONMENTS = "calender:calendar inbx:inbox gymnasum:gymnasium progrm:program verifyers:verifiers"
SETTINGS = {
    "environment.rte=1": 'environment.rte: no such key; did you mean "rate"?',
    "environment.rate=quick": "environment.rate: must be a number",
    "enviroment.rate=1": 'did you mean "environment"?',
    "interfase=step_loop": 'did you mean "interface"?',
    "sed=3": 'did you mean "seed"?',
    "seed=three": "seed: must be",
    "episodes=-1": "episodes: must be at least 1 (got -1)",
    "episodes=2.5": "episodes: must be",
    "concurency=2": 'did you mean "concurrency"?',
    "concurrency=0": "concurrency: must be at least 1",
    "interface=steploop": 'did you mean "step_loop"?',
    "sampling.temprature=1": 'did you mean "temperature"?',
    "sampling.temperature=-1": "sampling.temperature: must be",
    "deadline=soon": "deadline: must be a number",
    "=3": "isn't of the form KEY=VALUE",
    "episodes": "isn't of the form KEY=VALUE",
    "episodes 3": "isn't of the form KEY=VALUE",
    "..=3": "isn't of the form KEY=VALUE",
}
OTHERS = {
    "run --spec nowhere.toml": "there is no spec file nowhere.toml",
    "run --spec .": 'no run is called "."',
    "run inbox calendar": "unexpected extra argument (calendar)",
    "run --episodes": "requires an argument",
    "run --episodes 0": "error: episodes: must be at least 1 (got 0)",
    "run --reward utility=heavy": '"heavy" is not a weight',
    "runs resume last": 'no run is called "last"',
    "report": 'no run is called "last"',
    "plugins show inbocks": 'no component is called "inbocks"; did you mean "inbox"?',
    "plugins new agentfw-tea --kind memry": 'no kind is called "memry"; did you mean "memory"?',
    "plugins check nothing": 'no component, plugin or distribution is called "nothing"',
    "run --episodes 1.5": "'1.5' is not a valid integer",
    "run --plugin agentfw-nothing": "agentfw-nothing",
    "train inbx": 'did you mean "inbox"?',
    "train": "or a file of questions: agentfw train tasks.jsonl",
    "train task.jsonl --model smollm2": "there is no file task.jsonl",
    "train tasks.csv": "questions are read from a file with one JSON object a line",
    "run inbox --model smolm2": 'did you mean "smollm2"?',
    "serve --model fast=openai": "to serve another one beside it: --also fast=openai",
    "serve --port 99999": "99999 is not in the range",
    "serve --served-nam x": "--served-name",
    "train --optimizer grop inbox": 'no optimizer is called "grop"; did you mean "grpo"?',
    "train inbox --learner lorra": 'no learner is called "lorra"; did you mean "lora"?',
    "runs shw": "Did you mean 'show'?",
    "runs resum last": "Did you mean 'resume'?",
    "runs list --limit many": "'many' is not a valid integer",
    "runs list --limit -1": "-1 is not in the range",
    "runs show": "Missing argument",
    "compare last": 'no run is called "last"',
    "compare": "Missing argument",
    "report --episode 3": 'no run is called "last"',
    "report ./nowhere": 'no run is called "./nowhere"',
    "plugins lst": "Did you mean 'list'?",
    "memory find": "agentfw memory has ",
    "runs inbox --runs": "agentfw runs has ",
    "plugins show memory:strategihub": 'did you mean "strategyhub"?',
    "plugins show memry:strategyhub": 'did you mean "memory"?',
    "plugins check inbx": 'did you mean "inbox"?',
    "plugins list --kind polices": 'did you mean "policy"?',
    "plugins new agentfw-x": "a new plugin needs either --kind or --from",
    "plugins new 9lives --kind memory": "9lives",
    "plugins new json --kind memory": "Python already has a module called json",
    "plugins new x --from nowhere.py": "nowhere.py",
    "data mak": "Did you mean 'make'?",
    "data make merchent": 'did you mean "merchant"?',
    "view nowhere": "nowhere",
    "serve --port many": "'many' is not a valid integer",
    "feedback": "Missing argument",
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
    ({"notes.txt": ""}, PROVIDER, "serve --runs notes.txt --memory none", "move the file that has the name"),
    ({"notes.txt": ""}, {}, "run inbox --policy random --runs notes.txt", "move the file that has the name"),
    ({"tasks.jsonl": TASK * 3}, {}, LEARNS, "write 5 more, or make an update smaller: --set tasks=3"),
    ({"tasks.jsonl": "\n"}, {}, LEARNS, "tasks.jsonl has no tasks"),
    ({"tasks.jsonl": "{prompt: 1}\n"}, {}, LEARNS, "line 1, is no JSON object"),
    ({"tasks.jsonl": f"[{TASK.strip()}]\n"}, {}, LEARNS, "write one task per line"),
    ({"rewards.py": REWARD}, {}, "run inbox --reward rewards.correct", "named with it: rewards.py:correct"),
    ({"rewards.py": REWARD}, {}, "run inbox --reward rewards:correct", "named with it: rewards.py:correct"),
    ({"rewards.py": REWARD}, {}, "run inbox --reward rewards.py:corect", 'did you mean "correct"?'),
    ({"rewards.py": "def f(:\n"}, {}, "run inbox --reward rewards.py", "rewards.py, line 1"),
    ({"rewards.py": "import nowhere\n"}, {}, "run inbox --reward rewards.py", "No module named 'nowhere'"),
    ({"model": "weights"}, {}, "run inbox --model ./model", "not in the format GGUF"),
    ({"model/config.json": "{}"}, {}, "run inbox --model model", "it has no tokenizer.json"),
    ({"our-tea/pyproject.toml": PLUGIN}, {}, "run our-tea", "pip install -e our-tea"),
    ({"our-tea/pyproject.toml": PLUGIN}, {}, "run our-tea --policy our-tea-host", "pip install -e our-tea"),
]


def pairs(text: str) -> list[tuple[str, str]]:
    return [(slip, right) for slip, _, right in (one.rpartition(":") for one in text.split())]


SLIPS = [
    *((slip, f'did you mean "{right}"?') for slip, right in pairs(COMMANDS)),
    *((f"{command} {slip} x", right) for command, text in OPTIONS.items() for slip, right in pairs(text)),
    *(
        (f"run inbox {option} {slip}", f'no {kind} is called "{slip}"; did you mean "{right}"?')
        for option, (kind, text) in NAMES.items()
        for slip, right in pairs(text)
    ),
    *(
        (f"run {slip}", f'no environment is called "{slip}"; did you mean "{right}"?')
        for slip, right in pairs(ENVIRONMENTS)
    ),
    *((words, told) for words, told in OTHERS.items()),
]


def check(answer: Any, told: str) -> None:
    assert answer.code in (1, 2, 3)
    assert told in answer.err
    assert answer.out == ""
    assert "Traceback" not in answer.err
    assert "\n  fix: " in answer.err
    assert not Path("runs").exists(), "nothing is begun before everything is right"


@pytest.mark.parametrize(("words", "told"), SLIPS, ids=[words for words, _ in SLIPS])
def test_a_slip_leads_to_the_right_words(words: str, told: str, agentfw: Agentfw) -> None:
    check(agentfw(*words.split()), told)


@pytest.mark.parametrize(("setting", "told"), SETTINGS.items())
def test_a_wrong_setting_leads_to_the_right_one(setting: str, told: str, agentfw: Agentfw) -> None:
    check(agentfw("run", "inbox", "--set", setting), told)


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
        (tmp_path / name).write_text(text, "utf-8")
    for name in (*PROVIDER, "OPENAI_API_KEY", "AGENTFW_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    check(agentfw(*words.split()), told)
