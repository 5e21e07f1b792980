"""What unquoted text means in YAML 1.2 (section 10.3 of its specification, the core schema)."""

import re
from typing import Final

_WORDS: Final[dict[str, bool | float | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(
        (sign + word for sign in ("", "+") for word in (".inf", ".Inf", ".INF")), float("inf")
    ),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_DECIMAL: Final = re.compile(r"[-+]?[0-9]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_OCTAL: Final = re.compile(r"0o[0-7]+")
_HEXADECIMAL: Final = re.compile(r"0x[0-9a-fA-F]+")
_MAX_DIGITS: Final = 1000  # no legal number is near; Python refuses to read far longer ones


def resolve(text: str) -> str | int | float | bool | None:
    """What an unquoted scalar means in the core schema of YAML 1.2."""
    if text in _WORDS:
        return _WORDS[text]
    if _DECIMAL.fullmatch(text):
        return int(text) if len(text) <= _MAX_DIGITS else float(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _OCTAL.fullmatch(text):
        return int(text, 8) if len(text) <= _MAX_DIGITS else float("inf")
    if _HEXADECIMAL.fullmatch(text):
        return int(text, 16) if len(text) <= _MAX_DIGITS else float("inf")
    return text
