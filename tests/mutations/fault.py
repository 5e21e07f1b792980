"""What a deliberate fault is: an expression or a statement of a function that becomes another."""

import ast
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Fault:
    """In ``function``, a ``module:Class.method``, ``old`` becomes ``new``; ``tests`` then fail.

    Code is compared by its syntax tree, so that layout and place do not matter.
    """

    name: str
    function: str
    old: str
    new: str
    meaning: str
    tests: tuple[str, ...]

    @property
    def file(self) -> str:
        """Path of the module in the checkout."""
        return self.function.partition(":")[0].replace(".", "/") + ".py"

    def put_into(self, text: str) -> str:
        """Return the module ``text`` with the fault; raises ``ValueError`` unless it fits once."""
        names = self.function.partition(":")[2].split(".")
        wanted = ast.dump(_node(self.old))
        found = [
            node for node in ast.walk(_function(ast.parse(text), names)) if ast.dump(node) == wanted
        ]
        if len(found) != 1:
            raise ValueError(f"{self.name}: {len(found)} times in {self.function}: {self.old}")
        lines = text.encode().splitlines(keepends=True)
        first, last = found[0].lineno - 1, found[0].end_lineno - 1
        head = b"".join(lines[:first]) + lines[first][: found[0].col_offset]
        tail = lines[last][found[0].end_col_offset :] + b"".join(lines[last + 1 :])
        return (head + self.new.encode() + tail).decode()


def _node(code: str) -> ast.AST:
    statement = ast.parse(code).body[0]
    return statement.value if isinstance(statement, ast.Expr) else statement


def _function(tree: ast.Module, names: list[str]) -> ast.AST:
    node: ast.AST = tree
    for name in names:
        node = next(
            each for each in ast.iter_child_nodes(node) if getattr(each, "name", None) == name
        )
    return node
