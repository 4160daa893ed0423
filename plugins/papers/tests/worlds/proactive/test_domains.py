"""Domains that ship: what is in them, and that no code knows them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from agentfw.errors import SettingsError, UsageError
from agentfw_papers.worlds.proactive.command import proactive
from agentfw_papers.worlds.proactive.domains import load_domain
from agentfw_papers.worlds.proactive.generator import DialogueGenerator
from agentfw_papers.worlds.proactive.settings import GeneratorSettings

PLUGINS = Path(__file__).parents[3] / "agentfw_papers"


def check(name: str) -> dict[str, object]:
    shown = CliRunner().invoke(proactive, ["domain", "check", name, "--json"], catch_exceptions=False)
    facts: dict[str, object] = json.loads(shown.stdout)
    return facts


def test_the_public_domain_has_what_its_ontology_says() -> None:
    facts = check("abcd")

    counts = [facts[key] for key in ("actions", "workflows", "slots", "without_parameters", "flows")]
    assert counts == [30, 55, 25, 17, 10]
    assert facts["workflows_without_openings"] == []


def test_the_second_domain_is_a_yaml_file() -> None:
    facts = check("home_loan")

    assert [facts[key] for key in ("actions", "workflows", "observed")] == [13, 6, False]
    assert {file.suffix for file in (PLUGINS / "worlds" / "proactive" / "domains" / "home_loan").iterdir()} == {".yaml"}


def test_an_unknown_domain_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match='no domain is called "abdc"; did you mean "abcd"'):
        load_domain("abdc")


SIX = "[a1, a2, a3, a4, a5, a6]"
SHOP = f"""
name: shop
slots: {{order: {{pattern: "[0-9]+"}}}}
actions: {{refund: {{parameters: [order], required: [order]}}, call-back: {{}}}}
workflows: {{return: [refund], complaint: [call-back, refund]}}
phrases:
  openings:
    return: {SIX}
"""


def shop(folder: Path, text: str = SHOP, **changes: str) -> DialogueGenerator:
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    (folder / "domain.yaml").write_text(text, "utf-8")
    return DialogueGenerator(load_domain(str(folder)), "train", 0, GeneratorSettings())


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("    complaint: [a1]\n", "openings.complaint"),
        (f"    complain: {SIX}\n", '"complain", which is not a workflow'),
        (f"    complaint: {SIX}\n", 'the opening "a1" of the domain "shop" fits both "return" and "complaint"'),
        ("  slots: {color: {label: color}}\n", '"color", which no action uses'),
        ('  slots: {order: {value: "{number}"}}\n', 'needs "number", which has no value of its own'),
        ('  slots: {order: {value: "{order}"}}\n', 'needs "order", which has no value of its own'),
        ("  escalation: shout\n", '"shout", which is not an action'),
        ("  opening: {}\n", "opening"),
        ("  shape: {turns: 4, spread: -1}\n", "shape.spread"),
        ("  slots: {order: {by: the dog}}\n", "slots.order.by"),
    ],
)
def test_phrases_that_cannot_be_used_are_refused(tmp_path: Path, extra: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        shop(tmp_path, SHOP + extra)

    assert message in caught.value.message
    assert caught.value.fix
