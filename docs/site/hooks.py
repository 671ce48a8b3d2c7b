"""Hooks of MkDocs for the build of the site."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.site.decisions import records
from docs.site.links import in_site
from docs.site.pages import ABOVE, WRITTEN, above

_ASSETS: Final = Path(__file__).with_name("assets")
_DECISIONS: Final = "adr/index.md"
_ALONE: Final = ("index.md", "tutorial.md")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List every decision record below the list of them."""
    config.nav = _with_decisions(config.nav or [])
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are no files of the folder, and what the pages load."""
    for place, write in WRITTEN.items():
        files.append(File.generated(config, place, content=write()))
    for place in ABOVE:
        files.append(File.generated(config, place, content=above(place)))
    for place, path in _loaded():
        files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:  # noqa: ARG001
    """Turn the links of the repository into those of the site; pages that are alone in their part have more room."""
    if page.file.src_uri in _ALONE:
        page.meta["hide"] = ["navigation"]
    return in_site(markdown, page.file.src_uri)


def _with_decisions(nav: list[Any]) -> list[Any]:
    found: list[Any] = []
    for entry in nav:
        title, value = next(iter(entry.items())) if isinstance(entry, dict) else ("", entry)
        if value == _DECISIONS:
            found.append({title: [_DECISIONS, *({name: place} for place, name in records())]})
        else:
            found.append({title: _with_decisions(value)} if isinstance(value, list) else entry)
    return found


def _loaded() -> Iterator[tuple[str, Path]]:
    for path in sorted(_ASSETS.iterdir()):
        yield f"assets/{path.name}", path
    for path in sorted(_mermaid().glob("*.js")):
        yield f"assets/mermaid/{path.name}", path


def _mermaid() -> Path:
    """Return the library that draws diagrams, which the pages of the bus have with them: nothing is fetched."""
    spec = find_spec("nicegui")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("nicegui, which has mermaid with it, is not installed: make install")
    return Path(spec.origin).parent / "elements" / "mermaid" / "dist"
