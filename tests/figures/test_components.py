"""The components' modules as one string, their style sheets, and the tables that hold the JavaScript to Python."""

from __future__ import annotations

import json
import posixpath
import re
from collections import Counter

import pytest

from specviz.figures import components
from specviz.figures.components import COMPONENTS, STYLES, link_modules, read_modules, read_styles
from specviz.figures.pages_and_glossary import PAGES
from specviz.figures.preview import FRONT
from specviz.figures.theme import MEANINGS, read_meanings
from specviz.records import ASSETS
from tests.helpers import written_cases

NAMES = sorted(path.parent.relative_to(COMPONENTS).as_posix() for path in COMPONENTS.rglob("main.js"))
ENTRIES = [*(f"{name}/main.js" for name in NAMES), "classroom/page.js"]  # the last is the students' page
SITE = sorted(
    f"static_site/{path.name}" for path in (COMPONENTS / "static_site").glob("*.js")
)  # pages of the static edition, and what they share
SHEETS = sorted(
    path.relative_to(ASSETS).as_posix()
    for folder in (STYLES, COMPONENTS)
    for path in folder.rglob("*.css")
    if path.name != "theme.css"
)
THEME = read_styles("theme")


def test_every_module_is_part_of_a_component_or_a_static_page_and_follows_what_it_imports():
    assert sorted(components.SHARED_SHEETS) == NAMES
    used = set()
    for name in (*ENTRIES, *SITE):
        found = read_modules(name)
        used |= found.keys()
        for place, (_, source) in enumerate(found.items()):
            imported = [other for _, other in components.IMPORT.findall(source)]
            assert set(imported) <= set(list(found)[:place])
            assert not re.search(r"^import", components.IMPORT.sub("", source), re.MULTILINE), "an import that is not linked"
    assert used == {path.relative_to(COMPONENTS).as_posix() for path in COMPONENTS.rglob("*.js")}


@pytest.mark.parametrize("name", NAMES)
def test_a_component_shares_parts_through_lib_and_through_no_other_component(name):
    assert {posixpath.dirname(module) for module in read_modules(f"{name}/main.js")} == {"lib", name}


def test_no_function_of_lib_is_written_a_second_time():
    """There were two makeHatches once."""
    pattern = re.compile(r"^export (?:function|const) (\w+)", re.MULTILINE)
    shared = {name for path in (COMPONENTS / "lib").glob("*.js") for name in pattern.findall(path.read_text(encoding="utf-8"))}
    assert len(shared) > 20
    for path in COMPONENTS.glob("[!l]*/**/*.js"):
        own = re.findall(r"^(?:export )?(?:function|const) (\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert not shared & set(own), path.name


def test_no_module_writes_markup():
    for path in COMPONENTS.rglob("*.js"):
        script = re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", script), path.name


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(components, "COMPONENTS", tmp_path)
    return tmp_path


def test_imports_over_several_lines_and_up_the_tree_are_found(folder):
    (folder / "lib").mkdir()
    (folder / "a").mkdir()
    (folder / "lib" / "x.js").write_text("export const one = 1;\n")
    (folder / "a" / "y.js").write_text('export { one } from "../lib/x.js";\n')
    (folder / "a" / "main.js").write_text('import {\n  one,\n} from "../lib/x.js";\nimport { one as two } from "./y.js";\n')
    found = read_modules("a/main.js")
    assert list(found) == ["lib/x.js", "a/y.js", "a/main.js"]
    assert found["a/main.js"] == 'import {\n  one,\n} from "lib/x.js";\nimport { one as two } from "a/y.js";\n'


@pytest.mark.parametrize(
    ("source", "said"),
    (
        ('import { b } from "./b.js";', "in a circle, got main.js -> b.js -> main.js"),
        ('import { c } from "./c.js";', "got 'c.js' in main.js"),
        ('import { d } from "../d.js";', "got '../d.js' in main.js"),
    ),
)
def test_what_cannot_be_linked_is_named(folder, source, said):
    (folder / "main.js").write_text(source)
    (folder / "b.js").write_text('import { a } from "./main.js";')
    (folder.parent / "d.js").write_text("export const d = 1;")
    with pytest.raises(ValueError, match=re.escape(said)):
        read_modules("main.js")


def test_files_are_read_once():
    assert link_modules("drafting_methods/tree/main.js") is link_modules("drafting_methods/tree/main.js")
    assert read_styles("theme", "components") is read_styles("theme", "components")


def test_the_charts_colors_are_those_of_the_style_sheets():
    assert list(MEANINGS) == ["target", "draft", "residual", "rejected", "bonus"]
    assert (MEANINGS["target"].light, MEANINGS["target"].dark_ink) == ("#0072B2", "#6FBBEA")
    sheet = ".x { color: red; }\n  --a: light-dark(#000000, #111111); /* why */\n  --a-ink: light-dark(#222222, #333333);\n  --b: light-dark(#444444, #555555);"
    (found,) = read_meanings(sheet).items()
    assert found[0] == "a" and (found[1].light, found[1].dark_ink) == ("#000000", "#333333")


def test_a_style_sheet_of_one_component_lies_beside_its_script():
    """assets/styles/ has what all pages have, and what two components or more share; a folder of assets/components/ has its own."""
    uses = Counter(sheet for sheets in components.SHARED_SHEETS.values() for sheet in sheets)
    alone = {path.stem for path in STYLES.glob("*.css")} - {"theme", "terms", "app"}
    assert alone == {sheet for sheet in uses if "/" not in sheet}
    keys = "|".join((FRONT, *PAGES))
    assert not re.findall(rf"^ *\.st-key-(?:screen-)?(?:{keys})(?![a-z])[^,{{}}]*\{{", read_styles("app"), re.MULTILINE), (
        "they belong into page.css"
    )
    assert all(uses[sheet] > 1 for sheet in alone)
    for name in NAMES:
        styles = components.load_component(name)["css"]
        own = COMPONENTS / name / "main.css"
        assert not own.exists() or styles.endswith(own.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", SHEETS)
def test_style_sheets_use_the_tokens(name):
    """A color, and each size that has a token, is written in theme.css alone; every token and custom property that is used exists."""
    sheet = re.sub(r"/\*.*?\*/", "", (ASSETS / name).read_text(encoding="utf-8"), flags=re.DOTALL)
    assert sheet.count("{") == sheet.count("}") > 0
    assert set(re.findall(r"(?<!url\()#[0-9a-fA-F]{3,8}\b", sheet)) <= {"#000"}, "#000 is a mask's"
    assert not re.search(r"rgba?\(|hsla?\(", sheet)
    sizes = set(re.findall(r"--type-\w+: (?:max\()?([\d.]+px)", THEME))
    assert len(sizes) == 10 and not sizes & set(re.findall(r"font-size: ([\d.]+px)", sheet))
    spaces = set(re.findall(r"--space[\w-]*: (\d+px)", THEME))
    written = re.findall(r"(?:gap|padding|margin)[\w-]*: ([^;}]+)", sheet)
    assert len(spaces) == 5 and not spaces & set(re.findall(r"(?<![-\w.(])\d+px", " ".join(written)))
    own = set(re.findall(r"(?<![\w-])--[a-z][\w-]*(?=:)", THEME + sheet + read_styles("tokens", "components")))
    set_by_scripts = {
        "--nth",
        "--bars",
        "--lanes",
        "--size",
        "--scale",
        "--at",
        "--bar",
        "--wide",
        "--stays",
        "--row",
        "--room",
        "--end",
        "--box",
        "--aside",
        "--low",
        "--high",
        "--from",
    }
    assert {use for use in re.findall(r"var\((--[a-z][\w-]*)", sheet) if not use.startswith("--st-")} <= own | set_by_scripts


def test_the_table_that_the_javascript_is_held_to_is_what_python_writes():
    stored = json.loads(written_cases.FILE.read_text(encoding="utf-8"))
    assert stored == json.loads(json.dumps(written_cases.build_table()))
    assert len(stored["numbers"]) > 600 and len(stored["shares"]) > 40


def test_style_sheets_reach_pages_in_three_places_alone():
    """The wall, what a page adds to its frame, and the document, where styles of all pages are before the first element."""
    root = COMPONENTS.parents[1]
    files = [*root.glob("specviz/web/**/*.py"), *root.glob("pages/*.py"), root / "app.py"]
    found = sorted(path.relative_to(root).as_posix() for path in files if "<style" in path.read_text(encoding="utf-8"))
    assert found == [f"specviz/web/{name}.py" for name in ("classroom/view", "common/frame", "hosting/page_html")]
