"""The benchmarks of the proactive world run, and every training of their tables has a valid spec."""

from __future__ import annotations

import argparse
import importlib

import pytest

from agentfw import Host
from agentfw.runs import parse_spec, resolve

pytestmark = pytest.mark.nightly

load = importlib.import_module


@pytest.fixture(scope="module")
def host() -> Host:
    return Host.load()


@pytest.mark.parametrize("table", ["rules", "lambda", "level"])
def test_every_row_of_a_table_is_a_valid_training(table: str, host: Host) -> None:
    benchmark = load("proactive_rewards")
    options = argparse.Namespace(updates=4, turns=10, work="unused", data="talks")

    for variant in benchmark.TABLES[table]:
        spec = resolve(parse_spec(benchmark.spec_of(table, variant, 7, options, host)), host)

        assert spec.updates == 4
        assert spec.environment.settings["data"].endswith("talks")
        assert {reward.name for reward in spec.rewards} == set(benchmark.TABLES[table][variant][0])
