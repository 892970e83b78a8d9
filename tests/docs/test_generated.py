"""Generated parts of the docs agree with parsers, settings and glossary; links, menu and folder map are right; words are the field's."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from specviz.__main__ import COMMANDS
from specviz.figures.pages_and_glossary import GLOSSARY, define_term
from tests.test_layers import LAYERS
from tools import generated_docs

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
LINK = re.compile(r"!?\[[^\]]*\]\((?P<path>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")


def drop_code_blocks(text: str) -> str:
    return re.sub(r"```.*?```", "", text, flags=re.S)


def list_anchors(text: str) -> set[str]:
    """Anchors of the headings, as the site and GitHub both make them."""
    titles = (re.sub(r"[`*]", "", title).strip().lower() for title in re.findall(r"^#+ (.+)$", drop_code_blocks(text), re.M))
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_generated_parts_are_up_to_date(page):
    text = page.read_text(encoding="utf-8")
    assert generated_docs.replace_blocks(text) == text, "run python tools/generated_docs.py"


def test_the_keyword_arguments_of_a_pair_are_the_declared_settings():
    assert generated_docs.KEYWORDS_FILE.read_text(encoding="utf-8") == generated_docs.format_keyword_arguments(), (
        "run python tools/generated_docs.py"
    )


def test_the_schema_of_an_audits_record_is_the_classes():
    assert generated_docs.SCHEMA_FILE.read_text(encoding="utf-8") == generated_docs.format_record_schema(), (
        "run python tools/generated_docs.py"
    )


def test_every_command_has_a_section_with_each_of_its_options():
    text = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    assert set(re.findall(r"<!-- generated: ([\w-]+) -->", text)) >= {name.replace(" ", "-") for name in COMMANDS}
    for name in COMMANDS:
        module = importlib.import_module(f"specviz.cli.{name.replace(' ', '.')}")
        for action in generated_docs.list_actions(module.add_arguments):
            assert all(f"`{option}" in text for option in action.option_strings), (name, action.option_strings)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_and_every_picture_of_a_page_leads_somewhere(page):
    text = page.read_text(encoding="utf-8")
    for link in LINK.finditer(drop_code_blocks(text)):
        if "://" in link["path"]:
            continue
        other = page.parent / link["path"] if link["path"] else page
        assert other.is_file(), link[0]
        if link["anchor"]:
            assert link["anchor"] in list_anchors(other.read_text(encoding="utf-8")), link[0]


def test_every_test_that_the_docs_name_exists():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    files = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    assert {name for name in re.findall(r"`(?:[\w/]+/)?(test_\w+\.py)`", text) if name not in files} == set()
    functions = re.findall(r"^def (test_\w+)\(", "\n".join(files.values()), re.M)
    prefixes = set(re.findall(r"`(test_\w+)\*`", text))
    assert {prefix for prefix in prefixes if not any(name.startswith(prefix) for name in functions)} == set()


def test_every_page_stands_in_the_menu_of_the_site():
    menu = set(re.findall(r"- [^:]+: ([\w/-]+\.md)", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert menu == {str(page.relative_to(ROOT / "docs")) for page in PAGES}


def test_the_architecture_page_lists_packages_in_the_layers_that_imports_follow():
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d) \| ([^|]+) \|", text, re.M)
    listed = {(int(number), name) for number, names in rows for name in re.findall(r"`(\w+)`", names)}
    outside = {"pages", "app", "__main__"}
    assert listed == {(number, name) for number, names in enumerate(LAYERS) for name in names - outside}


def test_the_architecture_page_has_a_line_for_every_folder():
    text = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    table = text.split("### Folders")[1].split("| outside")[0]
    folders = {path.parent.relative_to(ROOT / "specviz").as_posix() for path in (ROOT / "specviz").glob("*/**/*.py")}
    assert set(re.findall(r"^\| `([\w/]+)/` \|", table, re.M)) == folders - {"web"}


def test_a_change_of_an_option_changes_the_page(monkeypatch):
    monkeypatch.setitem(generated_docs.COMMANDS["decode"], "summary", "something else")
    text = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    assert generated_docs.replace_blocks(text) != text


# The glossary --------------------------------------------------------------------------------------------------------------


def test_a_term_is_found_in_every_way_to_write_it():
    assert define_term("draft tokens") == define_term("Draft token") == GLOSSARY["draft token"]
    with pytest.raises(KeyError):
        define_term("no such word")


def test_definitions_are_short_plain_sentences_and_no_way_to_write_a_term_stands_twice():
    import tomllib

    record = tomllib.loads((ROOT / "assets" / "glossary.toml").read_text(encoding="utf-8"))
    names = [name.lower() for term, entry in record.items() for name in (term, *entry.get("also", ()))]
    assert sorted(names) == sorted(set(names))
    for term, said in GLOSSARY.items():
        assert said[0].isupper() and said[-1] == "." and len(said) <= 150, term
        assert len(re.findall(r"[.?!] [A-Z]", said)) <= 1, f"{term}: at most two sentences"
        assert not re.search(r"[<>`*_\[\]]", said.replace("num_speculative_tokens", "")), f"{term}: plain text"


# Words ---------------------------------------------------------------------------------------------------------------------

NOT_THE_FIELDS = r"laws?|coins?|guess(?:es|ed|ing)?|heaps?|luck|never looked at|as ever|for ever"
BRITISH = r"colou?rs?(?<!color)(?<!colors)|neighbours?|licences?|favours?|labelled|catalogues?|quantis\w+|tokenis\w+|memoris\w+|grey|behaviours?"
SOURCES = [
    path
    for pattern in ("specviz/**/*.py", "assets/components/**/*.js", "assets/**/*.css", "tools/*.py")
    for path in ROOT.glob(pattern)
]
TEXTS = [*PAGES, ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "assets" / "glossary.toml", *ROOT.glob("assets/**/README.md")]


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: str(page.relative_to(ROOT)))
def test_texts_use_the_fields_words_american_spelling_and_leading_zeros(page):
    text = generated_docs.BLOCK.sub("", page.read_text(encoding="utf-8"))  # options have their words in specviz/cli
    text = re.sub(r"`[^`]*`", "`code`", drop_code_blocks(text))
    for number, line in enumerate(text.splitlines(), start=1):
        for pattern in (rf"\b(?:{NOT_THE_FIELDS})\b", rf"\b(?:{BRITISH})\b", r"(?<![\w.])\.\d"):
            assert not (found := re.search(pattern, line, re.I)), f"{page.name}, line {number}: {found[0]!r} in {line[:120]!r}"


def test_the_source_is_in_american_spelling_too():
    wrong = {
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in SOURCES
        if (found := re.search(rf"(?<![^\W_])(?:{BRITISH})(?![^\W_])", path.read_text(encoding="utf-8"), re.I))
    }
    assert len(SOURCES) > 200 and not wrong
