"""What a user reads who has described clients that make no sense."""

from collections.abc import Callable

import pytest

from tests.scenario.conftest import GOOD

Lines = Callable[..., list[str]]
SERVED = GOOD.replace("kvBlocks: 100", "model: qwen, kvBlocks: 100")


@pytest.mark.parametrize(
    ("text", "setting", "said"),
    [
        (SERVED, "model=qwenn", "model: no backend serves 'qwenn'; did you mean 'qwen'?"),
        (
            SERVED,
            "fallbackModels=[qwen, gpt]",
            "fallbackModels.1: no backend serves 'gpt'; known: qwen",
        ),
        (
            GOOD,
            "fallbackModels=[x]\nworkloads.load.direct=pods",
            "fallbackModels: not with direct: beside the router there is one backend, whatever "
            "the model",
        ),
        (
            GOOD,
            "retry.on=[]",
            "retry.on: empty: give statuses, onConnectionError: true or onTimeout: true",
        ),
        (
            GOOD,
            "retry.backoff={initial: 10s, max: 5s}",
            "retry.backoff.max: must not be below initial, 10 s; got 5 s",
        ),
        (
            GOOD,
            "retry.on=503",
            "retry.on: must be a list such as [503]; got 503",
        ),
        (
            GOOD,
            "retry.on=[200]",
            "retry.on.0: must be a whole number such as 400, from 400 to 599; got 200",
        ),
    ],
)
def test_the_key_at_fault_is_named(faults: Lines, text: str, setting: str, said: str) -> None:
    """The user would have to guess which of the clients' settings is meant."""
    settings = [f"workloads.load.{setting}".split("\n")[0], *setting.split("\n")[1:]]
    (line,) = faults(text, settings)
    assert line.endswith(f" workloads.load.{said}")
