"""Caps on tokens over rolling windows: post-paid, refused with 429."""

from collections import deque
from math import ceil, floor

from sim.core.kernel import instant
from sim.core.request import Answer, HttpStatus, Request
from sim.router.dispatch import Refusal
from sim.scenario.routing import TEAM_HEADER, Budget


class Account:
    """What one payer has used within the window, second by second."""

    def __init__(self, budget: Budget) -> None:
        self._most = budget.max_tokens
        self._window_s = budget.window_seconds
        self._spent: deque[tuple[int, int]] = deque()  # second, tokens
        self._tokens = 0

    def charge(self, tokens: int, now_s: float) -> None:
        """An answer is complete."""
        self._spent.append((floor(instant(now_s)), tokens))
        self._tokens += tokens

    def blocked_until_s(self, now_s: float) -> int | None:
        """When the oldest of what is used up leaves the window; None if not all is used up.

        That need not be enough: who comes back then may be told to wait again.
        """
        spent, now_s = self._spent, instant(now_s)
        while spent and spent[0][0] + self._window_s <= now_s:
            self._tokens -= spent.popleft()[1]
        return None if self._tokens < self._most else spent[0][0] + self._window_s


class Budgets:
    """All budgets of a router; a restarted one begins anew."""

    def __init__(self, budgets: tuple[Budget, ...]) -> None:
        self._budgets = budgets
        self._accounts: dict[tuple[int, str], Account] = {}

    def refusal(self, request: Request, rule: str, now_s: float) -> Refusal | None:
        """429 when a budget that ``request`` counts for is used up, for the first of them."""
        blocked = (account.blocked_until_s(now_s) for account in self._payers(request, rule))
        until_s = next((each for each in blocked if each is not None), None)
        if until_s is None:
            return None
        wait_s = max(1, ceil(until_s - now_s))
        return Refusal(HttpStatus.TOO_MANY_REQUESTS, Answer.BUDGET_EXCEEDED, float(wait_s))

    def charge(self, request: Request, rule: str, tokens: int, now_s: float) -> None:
        """An answer is complete that cost so many tokens, prompt included."""
        for account in self._payers(request, rule):
            account.charge(tokens, now_s)

    def forget(self) -> None:
        """Nobody has used anything."""
        self._accounts = {}

    def _payers(self, request: Request, rule: str) -> list[Account]:
        payers = []
        for number, budget in enumerate(self._budgets):
            payer = _payer(budget, request, rule)
            if payer is not None:
                key = number, payer
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
    values = (value for name, value in request.headers if name.lower() == wanted)
    return next(values, None) or None
