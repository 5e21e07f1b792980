"""Caps on tokens over rolling windows: post-paid, refused with 429 (router and pools, 5)."""

from collections import deque
from math import ceil

from sim.request import Answer, HttpStatus, Request
from sim.router.answers import Refusal
from sim.scenario.routing import TEAM_HEADER, Budget


class Account:
    """What one payer has used within the window."""

    def __init__(self, budget: Budget) -> None:
        self._most = budget.max_tokens
        self._window_s = float(budget.window_seconds)
        self._spent: deque[tuple[float, int]] = deque()
        self._tokens = 0

    def charge(self, tokens: int, now_s: float) -> None:
        """A response is over."""
        self._spent.append((now_s, tokens))
        self._tokens += tokens

    def blocked_until_s(self, now_s: float) -> float | None:
        """When enough of the window has passed; None when there is something left now."""
        while self._spent and self._spent[0][0] + self._window_s <= now_s:
            self._tokens -= self._spent.popleft()[1]
        left = self._tokens
        if left < self._most:
            return None
        for spent_s, tokens in self._spent:
            left -= tokens
            if left < self._most:
                return spent_s + self._window_s
        raise AssertionError("an empty window blocks nobody")


class Budgets:
    """All budgets of a router."""

    def __init__(self, budgets: tuple[Budget, ...]) -> None:
        self._budgets = budgets
        self._accounts: dict[tuple[str, str], Account] = {}

    def refusal(self, request: Request, rule: str, now_s: float) -> Refusal | None:
        """429 when a budget that ``request`` counts for is used up."""
        blocked = [account.blocked_until_s(now_s) for account in self._payers(request, rule)]
        until_s = [each for each in blocked if each is not None]
        if not until_s:
            return None
        wait_s = max(1, ceil(max(until_s) - now_s))
        return Refusal(HttpStatus.TOO_MANY_REQUESTS, Answer.BUDGET_EXCEEDED, float(wait_s))

    def charge(self, request: Request, rule: str, tokens: int, now_s: float) -> None:
        """A response of so many tokens, prompt and answer, is over."""
        for account in self._payers(request, rule):
            account.charge(tokens, now_s)

    def _payers(self, request: Request, rule: str) -> list[Account]:
        payers = []
        for budget in self._budgets:
            payer = _payer(budget, request, rule)
            if payer is not None:
                key = budget.name, payer
                if key not in self._accounts:
                    self._accounts[key] = Account(budget)
                payers.append(self._accounts[key])
        return payers


def _payer(budget: Budget, request: Request, rule: str) -> str | None:
    """Whose account ``request`` is charged to; None when the budget is not about it."""
    if budget.scope == "router":
        return ""
    if budget.scope == "rule":
        return "" if budget.rule_name == rule else None
    wanted = (budget.header_key or TEAM_HEADER).lower()
    return next((value for name, value in request.headers if name.lower() == wanted), None)
