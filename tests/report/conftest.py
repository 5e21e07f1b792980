"""Stored runs of two small scenarios, with names and texts that a page could stumble over."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sim.execution.runner import run_set
from sim.report.page import report
from sim.results.stored import StoredRun, stored_runs
from sim.scenario.load import load_text
from tests.report.browser import Browser, open_browser

HOSTILE = '<script>alert("1")</script> & <b>more</b> {{ 7 * 7 }}'

SHOP = f"""\
name: shop
description: |
  Does it matter where sessions live? {HOSTILE}
window: {{warmup: 10s, measure: 90s}}
seeds: [1, 2, 3]
engines:
  small: {{kvBlocks: 40000, maxNumBatchedTokens: 4096, stepTime: {{a: 8, b: 12, c: 1}}}}
backends:
  pods: {{engine: small, replicas: 3, policy: {{kind: least-loaded}}}}
router: {{rules: [{{name: all, backends: [pods]}}]}}
workloads:
  coding: {{kind: agents, agents: 16, set: A, ramp: 40s}}
slo: {{ttft: 1s}}
variants:
  least-loaded: {{}}
  a-bounded-ring-with-a-name-that-goes-on-for-sixty-characters:
    backends.pods.policy: {{kind: bounded-ring, maxLoadPercent: 110}}
  table: {{backends.pods.policy: {{kind: session-table}}}}
"""

CARD = """\
name: card
description: Two models take turns
window: {measure: 600s}
engines:
  small: {kvBlocks: 10000, maxNumBatchedTokens: 2048, stepTime: {a: 10, b: 20}}
backends:
  chat: {engine: small}
  code: {engine: small}
pools:
  gpu:
    members: {chat: {load: 6s, unload: 1s}, code: {load: 9s, unload: 1s}}
router:
  rules:
    - {name: chat, match: {models: [chat]}, backends: [chat]}
    - {name: code, match: {models: [code]}, backends: [code]}
workloads:
  people:
    {kind: requests, model: chat, arrivals: {kind: poisson, rate: 0.05}, promptTokens: 300,
     outputTokens: 50}
  rows:
    kind: script
    model: code
    rows:
      - {session: a, arrival: 5s, promptTokens: 1600, outputTokens: 8}
      - {session: a, think: 20s, promptTokens: 2000, outputTokens: 8}
"""

PROVENANCE = {
    "started": "2026-01-02T03:04:05+00:00",
    "command": f"podsim run shop.yaml {HOSTILE}",
    "file": "shop.yaml",
    "system": "Linux x86_64",
    "commit": "0123456789ab-dirty",
}


def _stored(text: str, root: Path, provenance: dict[str, str] | None) -> tuple[StoredRun, ...]:
    run_set(load_text(text), store=root, keep_tables=False, provenance=provenance)
    return stored_runs(root)


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> tuple[StoredRun, ...]:
    """Three variants under three seeds."""
    return _stored(SHOP, tmp_path_factory.mktemp("shop"), PROVENANCE)


@pytest.fixture(scope="session")
def card(tmp_path_factory: pytest.TempPathFactory) -> tuple[StoredRun, ...]:
    """One run without variants, of two models on one GPU; nobody noted how it was made."""
    return _stored(CARD, tmp_path_factory.mktemp("card"), None)


@pytest.fixture(scope="session")
def shop_page(shop: tuple[StoredRun, ...]) -> str:
    """The report on the shop."""
    return report(shop)


@pytest.fixture(scope="session")
def card_page(card: tuple[StoredRun, ...]) -> str:
    """The report on the card."""
    return report(card)


@pytest.fixture(scope="session")
def both_page(shop: tuple[StoredRun, ...], card: tuple[StoredRun, ...]) -> str:
    """A report on both scenarios, of the shop one variant."""
    table = [run for run in shop if run.variant == "table"]
    return report((*card, *table), title=HOSTILE)


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One headless browser for all tests of this process; see ``tests.report.browser``."""
    with open_browser(tmp_path_factory.mktemp("browser")) as found:
        yield found
