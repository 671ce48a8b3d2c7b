"""Links of a page as they are in the repository, and as they are in the site.

In the repository they go from file to file, and so may leave this folder; in the site some of these files are other
pages, and the rest is not there: of a link to it its words are left.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from typing import Final

from docs.site.pages import ABOVE, ROOT

_LINK: Final = re.compile(r"(?P<image>!?)\[(?P<words>(?:[^\[\]]|\[[^\[\]]*\])*)\]\((?P<target>[^()\s]+)\)")
_FENCE: Final = re.compile(r"^ *(`{3,}|~{3,})")
_CODE: Final = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)")
_FOLDER: Final = "docs/"
_SOMEWHERE_ELSE: Final = re.compile(r"[a-z][a-z0-9+.-]*:|//|#")
_PLACES: Final = {file: place for place, file in ABOVE.items()}


def file_of(place: str) -> str:
    """Return the file of the repository that a page of the site is, whether it is there or written from code."""
    return ABOVE.get(place, _FOLDER + place)


def in_site(text: str, place: str) -> str:
    """Return a page's text with its links as the site has them."""
    folder = posixpath.dirname(place)

    def moved(found: re.Match[str]) -> str:
        target = found["target"]
        if _SOMEWHERE_ELSE.match(target):
            return found[0]
        path, mark, anchor = target.partition("#")
        other = _place(_resolved(path, file_of(place)))
        if other is None:
            return found["words"]
        return f"{found['image']}[{in_words(found['words'])}]({posixpath.relpath(other, folder or '.')}{mark}{anchor})"

    def in_words(words: str) -> str:
        return _LINK.sub(moved, words)

    return _outside_of_code(text, lambda line: _LINK.sub(moved, line))


def targets(text: str) -> Iterator[str]:
    """Yield where the links of a text go."""
    found: list[str] = []

    def noted(line: str) -> str:
        found.extend(each["target"] for each in _LINK.finditer(_CODE.sub("", line)))
        return line

    _outside_of_code(text, noted)
    yield from found


def headings(text: str) -> Iterator[str]:
    """Yield the anchors of a text's headings, as GitHub and the site make them."""
    seen: dict[str, int] = {}
    found: list[str] = []

    def noted(line: str) -> str:
        if heading := re.match(r"#{1,6} +(.+?)(?: +#+)?$", line):
            found.append(slug(heading[1]))
        return line

    _outside_of_code(text, noted)
    for name in found:
        times = seen[name] = seen.get(name, -1) + 1
        yield f"{name}-{times}" if times else name


def slug(heading: str) -> str:
    """Return the anchor of a heading."""
    return slugified(_LINK.sub(lambda found: found["words"], heading).replace("`", ""), "-")


def slugified(text: str, separator: str) -> str:
    """Return the anchor of a heading's plain text; MkDocs asks for it."""
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", separator)


def _resolved(path: str, file: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(file), path))


def _place(file: str) -> str | None:
    if file in _PLACES:
        return _PLACES[file]
    if not file.startswith(_FOLDER):
        return None
    place = file.removeprefix(_FOLDER)
    return f"{place}/index.md" if (ROOT / file).is_dir() else place


def _outside_of_code(text: str, change: Callable[[str], str]) -> str:
    lines: list[str] = []
    fence = ""
    for line in text.splitlines():
        found = _FENCE.match(line)
        if fence:
            fence = "" if found and line.strip() == fence else fence
            lines.append(line)
        elif found:
            fence = found[1]
            lines.append(line)
        else:
            lines.append(change(line))
    return "\n".join(lines) + "\n"
