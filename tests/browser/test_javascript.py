"""The unit tests of the JavaScript, tests/js/*.test.js: by Node's test runner where there is one, and in the browser."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from specviz.figures.components import COMPONENTS, SHARED_SHEETS, link_modules
from tests.browser.component_pages import ROOT

TESTS = sorted((ROOT / "tests" / "js").glob("*.test.js"))
COUNT = sum(len(re.findall(r"^test\(", path.read_text(encoding="utf-8"), re.MULTILINE)) for path in TESTS)
IMPORTS = '{"imports": {"node:test": "/tests/js/browser/test.js", "node:assert/strict": "/tests/js/browser/assert.js"}}'
TYPES = {".js": "text/javascript", ".json": "application/json"}


def node_that_imports_json() -> str | None:
    """Path of a Node of at least 20.10, which knows ``with { type: "json" }``; None where there is none."""
    node = shutil.which("node")
    version = subprocess.run([node, "--version"], capture_output=True, text=True).stdout if node else ""
    numbers = tuple(map(int, re.findall(r"\d+", version)[:2]))
    return node if numbers >= (20, 10) else None


@pytest.fixture(scope="module")
def plain_page(browser):
    """A page of a plain file server: whatever it asks for is a file of the repository."""
    page, problems = browser.new_page(), []
    page.on("pageerror", lambda error: problems.append(str(error)))

    def answer(route):
        path = ROOT / route.request.url.removeprefix("http://files.test/")
        if not path.is_file():
            return route.fulfill(body=f'<script type="importmap">{IMPORTS}</script>', content_type="text/html")
        return route.fulfill(body=path.read_text(encoding="utf-8"), content_type=TYPES[path.suffix])

    page.route("**/*", answer)
    page.goto("http://files.test/")
    yield page
    page.close()
    assert problems == []


def test_the_unit_tests_pass_in_node():
    node = node_that_imports_json()
    if node is None:
        pytest.skip("no node of 20.10 or newer on the path; the same tests run in the browser")
    command = [node, "--test", "--test-reporter=tap", *map(str, TESTS)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"# pass {COUNT}\n" in done.stdout


def test_the_unit_tests_pass_in_the_browser(plain_page):
    names = [f"/{path.relative_to(ROOT)}" for path in TESTS]
    script = """async (names) => {
        for (const name of names) await import(name);
        return (await import("node:test")).run();
    }"""
    assert plain_page.evaluate(script, names) == {"count": COUNT, "failed": []}
    assert COUNT > 30


@pytest.mark.parametrize("name", sorted(SHARED_SHEETS))
def test_a_component_loads_from_plain_files_and_as_one_string_alike(plain_page, name):
    """A page without Python can use the modules as they are; Streamlit gets the same ones in one string."""
    own = plain_page.evaluate(f'async () => typeof (await import("/assets/components/{name}/main.js")).default')
    script = """async (code) => {
        const url = URL.createObjectURL(new Blob([code], { type: "text/javascript" }));
        return Object.entries(await import(url)).map(([key, value]) => [key, typeof value]);
    }"""
    assert own == "function"
    assert plain_page.evaluate(script, link_modules(f"{name}/main.js")) == [["default", "function"]]


def test_a_mistake_in_a_module_is_reported_under_the_modules_own_name(plain_page):
    """An error thrown in a packed module names its file and its line, as the debugger does."""
    script = """async (code) => {
        const { default: mount } = await import(URL.createObjectURL(new Blob([code], { type: "text/javascript" })));
        try { mount({ parentElement: document.body, data: null }); } catch (error) { return error.stack; }
    }"""
    stack = plain_page.evaluate(script, link_modules("one_token/main.js"))
    line = (COMPONENTS / "one_token" / "main.js").read_text(encoding="utf-8").split("data.payload;")[0].count("\n") + 1
    assert re.search(rf"specviz/one_token/main\.js:{line}:", stack)
