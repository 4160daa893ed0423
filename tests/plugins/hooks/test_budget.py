"""Limits on what users, keys and the run spend."""

from __future__ import annotations

from pathlib import Path

from chat_server import serving
from command_line import Agentfw

POLICY = """
from agentfw import Generation, Policy
from agentfw.episode import Usage

class Paid(Policy):
    async def generate(self, request):
        return Generation(text="done", count=5, usage=Usage(prompt=5, sampled=5))
"""
RUN = ("run", "inbox", "--policy", "./paid.py", "--episodes", "2", "--hook", "budget")


def test_a_run_stops_at_its_limit_and_goes_on_with_a_higher_one(agentfw: Agentfw, tmp_path: Path) -> None:
    (tmp_path / "paid.py").write_text(POLICY)

    stopped = agentfw(*RUN, "--set", "hook.budget.run_tokens=100")
    resumed = agentfw("runs", "resume", "last", "--set", "hook.budget.run_tokens=1000000")

    assert stopped.code == 1
    assert "the budget of the run is spent: 100 of 100 tokens" in stopped.err
    assert "agentfw runs resume" in stopped.err
    assert "--set hook.budget.run_tokens=200" in stopped.err
    assert resumed.code == 0, resumed.err


def test_a_price_that_nobody_knows_is_an_error_before_anything_is_asked(tmp_path: Path, agentfw: Agentfw) -> None:
    with serving() as (address, server):
        model = ("--set", f"policy.base_url={address}", "--set", "policy.model=nobody-knows-it")
        refused = agentfw("run", "inbox", "--policy", "openai", *model, "--hook", "budget", *_set("run_money=1"))

    assert refused.code == 2
    assert "the price of the model nobody-knows-it isn't known" in refused.err
    assert server.bodies == []


def _set(assignment: str) -> tuple[str, str]:
    return "--set", f"hook.budget.{assignment}"
