"""Counts what breaks the rules of wording in Python modules and Markdown pages, without importing them."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple

RULES: Final = Path(__file__).with_name("rules.toml")
_CODE: Final = re.compile(r"```.*?```|``[^`]*``|`[^`\n]*`|\]\([^)]*\)|<!--.*?-->|\{[a-z_]+\}", re.DOTALL)


class Finding(NamedTuple):
    """Place that breaks a rule: ``kind`` is the rule's, ``use`` the wording to take instead."""

    path: Path
    line: int
    kind: str
    text: str
    use: str


class Rules:
    """Forbidden words, class names and openings, as the file of rules has them."""

    def __init__(self, file: Path = RULES) -> None:
        self._data: dict[str, Any] = tomllib.loads(file.read_text("utf-8"))

    @cached_property
    def _phrases(self) -> re.Pattern[str]:
        return re.compile(rf"\b(?:{'|'.join(self._data['phrases'])})\b", re.IGNORECASE)

    def paths(self, root: Path) -> Iterator[Path]:
        """Yield the modules and pages that are looked at."""
        yield from (root / name for name in self._data["files"])
        for folder in self._data["roots"]:
            yield from (path for path in sorted((root / folder).rglob("*")) if path.suffix in (".py", ".md"))

    def folder_of(self, path: Path) -> str:
        """Return the name under which a path is counted; the path is relative to the root of the project."""
        deep = path.parts[0] in self._data["split"]
        return "/".join(path.parts[: 2 if deep else 1])

    def findings(self, path: Path) -> Iterator[Finding]:
        """Yield what breaks a rule in a module or page."""
        text = path.read_text("utf-8")
        if path.suffix == ".md":
            yield from self._forbidden(path, 1, text)
            return
        tree = ast.parse(text)
        yield from self._opening(path, tree)
        raised = {id(part) for node in ast.walk(tree) if self._is_error(node) for part in ast.walk(node)}
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield from self._class_name(path, node)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                kind = "error" if id(node) in raised else "phrase"
                yield from self._forbidden(path, node.lineno, node.value, kind)

    def _is_error(self, node: ast.AST) -> bool:
        """Whether a node makes an error or a problem document, whose strings people read."""
        if isinstance(node, ast.Call):
            return re.fullmatch(self._data["errors"], ast.unparse(node.func).rpartition(".")[2]) is not None
        return isinstance(node, ast.Raise)

    def _forbidden(self, path: Path, line: int, text: str, kind: str = "phrase") -> Iterator[Finding]:
        prose = _CODE.sub(lambda code: "\n" * code[0].count("\n") + "`", text)
        for found in self._phrases.finditer(prose):
            yield Finding(path, line + prose.count("\n", 0, found.start()), kind, found[0], self._instead(found[0]))

    def _instead(self, text: str) -> str:
        phrases: dict[str, str] = self._data["phrases"]
        return next(use for phrase, use in phrases.items() if re.fullmatch(phrase, text, re.IGNORECASE))

    def _opening(self, path: Path, tree: ast.Module) -> Iterator[Finding]:
        first = (ast.get_docstring(tree) or " ").split(maxsplit=1)
        if first and first[0].rstrip(",:") in self._data["openings"]["words"]:
            yield Finding(path, 1, "opening", first[0], "a noun: the subject of the module")

    def _class_name(self, path: Path, node: ast.ClassDef) -> Iterator[Finding]:
        rules, name = self._data["class_names"], node.name.lstrip("_")
        if any(re.fullmatch(self._data["errors"], ast.unparse(base).rpartition(".")[2]) for base in node.bases):
            return
        is_participle = re.fullmatch(rules["participle"], name) and name not in rules["nouns"]
        if name in rules["names"] or is_participle:
            yield Finding(path, node.lineno, "class", node.name, "a noun")


def counted(rules: Rules, root: Path) -> tuple[dict[str, Counter[str]], list[Finding]]:
    """Return the counts by folder and kind, and all findings with paths relative to the root."""
    counts: dict[str, Counter[str]] = {}
    found: list[Finding] = []
    for path in rules.paths(root):
        own = path.relative_to(root)
        count = counts.setdefault(rules.folder_of(own), Counter())
        for finding in rules.findings(path):
            count[finding.kind] += 1
            found.append(finding._replace(path=own))
    return counts, found
