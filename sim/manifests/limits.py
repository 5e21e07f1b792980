"""What a ModelRouter enforces: budgets, and how requests are classified."""

from collections.abc import Sequence
from typing import Final

from sim.core.suggest import suggestion
from sim.manifests.fields import Fields
from sim.manifests.writing import NoteKind, YamlBlock
from sim.scenario.routing import CLASSIFICATION_HEADER

BUDGET_SCOPES: Final = ("router", "rule", "team")
MAX_BUDGET_TOKENS: Final = 10**12
MAX_BUDGET_WINDOW_S: Final = 366 * 86400


def translate(policy: Fields, rules: Sequence[str], written: Sequence[str]) -> YamlBlock:
    """The block ``policy`` of a scenario's router.

    ``rules`` are those of the scenario; the ``written`` ones are all of the
    manifest, some of which may have been left out.
    """
    block = YamlBlock()
    found = [_budget(budget, rules, written) for budget in policy.children("budgets")]
    if budgets := [budget for budget in found if budget is not None]:
        block.add("budgets", budgets, policy.origin("budgets"))
    classification = policy.child("classification")
    if classification is not None:
        _classification(classification)
    return block


def _classification(classification: Fields) -> None:
    mode = classification.one_of("mode", ("header-only", "detector", "hybrid"))
    if mode in ("detector", "hybrid"):
        message = f"podsim has no detector; the header {CLASSIFICATION_HEADER} decides"
        classification.note(NoteKind.WARNING, "mode", message)
    header = classification.name("headerKey")
    if header is not None and header.lower() != CLASSIFICATION_HEADER:
        message = f"podsim's clients say it in {CLASSIFICATION_HEADER}"
        classification.note(NoteKind.WARNING, "headerKey", message)


def _budget(budget: Fields, rules: Sequence[str], written: Sequence[str]) -> YamlBlock | None:
    """The block of a budget; None when it is in dollars only, of a scope or a rule left out."""
    name, scope = budget.own_name("name"), budget.one_of("scope", BUDGET_SCOPES)
    if "scope" not in budget:
        budget.fault("scope", "is missing")
    tokens = budget.whole("maxTokens", 1, MAX_BUDGET_TOKENS)
    window_s = budget.whole("windowSeconds", 1, MAX_BUDGET_WINDOW_S)
    budget.ignore("maxUSD", "podsim counts tokens and knows no prices")
    block = YamlBlock()
    block.add("name", name)
    block.add("scope", scope)
    block.add("maxTokens", tokens)
    if window_s is not None:
        block.add("windowSeconds", window_s)
    if scope == "team" and (header := budget.name("headerKey")) is not None:
        block.add("headerKey", header)
    counts = tokens is not None and scope is not None
    if scope == "rule":
        rule = budget.name("ruleName")
        if rule is None or rule not in written:
            message = f"must be the name of a rule{suggestion(rule or '', written)}"
            budget.fault("ruleName", message)
        counts = counts and rule in rules
        block.add("ruleName", rule)
    return block if counts else None
