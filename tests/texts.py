"""Bring the catalogues of the pages' texts into step with the code: ``python -m tests.texts``."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Final

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.pofile import read_po, write_po

import admin.pages

ROOT: Final = Path(__file__).parent.parent
PACKAGES: Final = ("bus", "receiver", "dispatcher", "compensator", "admin", "lookup")
KEYWORDS: Final = {"t": None, "localized": None, "N_": None}
CATALOGUES: Final = Path(admin.pages.__file__).parent / "locale"
# What differs between two runs (dates, names, places in files) is left out, so that a diff shows texts alone.
_HEAD: Final = """\
# What the pages of Pier say. After a change of texts in the code: make texts.
msgid ""
msgstr ""
"Language: {language}\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=utf-8\\n"
"Content-Transfer-Encoding: 8bit\\n"

"""


def extracted() -> dict[str, str]:
    """Return the texts of the code that are said in other languages, each with a module that says it."""
    return {
        text: f"{package}/{module}"
        for package in PACKAGES
        for module, _, text, _, _ in extract_from_dir(ROOT / package, keywords=KEYWORDS, method_map=[("**.py", marked)])
    }


def marked(
    file: IO[bytes], keywords: Collection[str], comment_tags: Collection[str], options: Mapping[str, Any]
) -> Iterator[tuple[int, str, str, list[str]]]:
    """Yield the constants that a module gives to keywords; Babel's own way looks at words and takes others as well."""
    for call in calls(ast.parse(file.read()), keywords):
        if isinstance(call.args[0], ast.Constant):
            yield call.lineno, named(call), call.args[0].value, []


def calls(tree: ast.AST, keywords: Collection[str]) -> Iterator[ast.Call]:
    """Yield what calls a keyword, as a function or a method."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and named(node) in keywords and node.args:
            yield node


def named(call: ast.Call) -> str:
    """Return the last name of what is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def read(path: Path) -> Catalog:
    """Return a catalogue."""
    with path.open("rb") as file:
        return read_po(file)


def written(catalogue: Catalog, language: str) -> str:
    """Return the text of a catalogue's file."""
    file = BytesIO()
    write_po(file, catalogue, width=110, omit_header=True, sort_output=True, ignore_obsolete=True)
    return _HEAD.format(language=language) + file.getvalue().decode()


def update(path: Path) -> None:
    """Add to a catalogue what is new, without a translation, and take out what the code no longer says."""
    template = Catalog()
    for text in extracted():
        template.add(text)
    catalogue = read(path)
    catalogue.update(template, no_fuzzy_matching=True)
    path.write_text(written(catalogue, path.parts[-3]), "utf-8")
    missing = sum(not message.string for message in catalogue if message.id)
    print(f"{path.relative_to(ROOT)}: {len(catalogue)} texts, {missing} to translate")


if __name__ == "__main__":
    for found in CATALOGUES.glob("*/LC_MESSAGES/pier.po"):
        update(found)
