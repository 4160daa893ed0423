"""A hook of mkdocs: adds the pages that are made from the code to each site while it is built.

These are the references of agentfw, agentfw-papers and agentfw-calendar, and the papers' claims. Nothing is written
into the folders of the pages. A site shows the code as it was when mkdocs started.
"""

from __future__ import annotations

from command_page import command_page
from component_page import component_page
from hook_page import hook_page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from papers_page import papers_page
from python_page import python_page
from settings_tables import insert
from spec_page import spec_page

from agentfw.component import KINDS
from agentfw.testing import fresh_host

SITES = ("agentfw", "agentfw-papers", "agentfw-calendar")
_SETTINGS = "reference/settings.md"
_SETTINGS_OF_CORE = f"https://github.com/agentfw/agentfw/blob/main/docs/{_SETTINGS}"


def on_files(files: Files, /, *, config: MkDocsConfig) -> Files:
    """Add the generated pages of a site."""
    for path, text in generated_pages(config.site_name).items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, /, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Write the keys of a spec into the page of settings."""
    return insert(markdown) if page.file.src_uri == _SETTINGS else markdown


def generated_pages(site: str) -> dict[str, str]:
    """The text of every generated page of a site, by its path in the folder of pages."""
    if site == "agentfw":
        pages = {"reference/hooks.md": hook_page(), "reference/python.md": python_page()}
        return {**pages, **_reference(site, "agentfw_plugins.plugin:plugin", "settings.md")}
    if site == "agentfw-papers":
        pages = {"results/papers.md": papers_page()}
        return {**pages, **_reference(site, "agentfw_papers.plugin:plugin", _SETTINGS_OF_CORE)}
    return {"reference/command-line.md": command_page(site, _SETTINGS_OF_CORE)}


def _reference(distribution: str, plugin: str, settings: str) -> dict[str, str]:
    """The commands, specs and components of a distribution, one page for each kind of which it brings any."""
    host = fresh_host(plugin)
    components = {f"reference/components/{kind}.md": component_page(host, kind, distribution) for kind in KINDS}
    return {
        "reference/command-line.md": command_page(distribution, settings),
        "reference/specs.md": spec_page(host, settings),
        **{path: text for path, text in components.items() if text},
    }
