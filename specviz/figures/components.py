"""The scripts and style sheets of the components, as the strings that Streamlit takes.

The scripts are ES modules in assets/components/: lib/ is shared, each other folder with a main.js is one component,
of the page it is named after. They import each other by relative addresses, so Node's test runner and any plain file server load them as they are. Streamlit takes
one string per component, so ``linked`` packs a component's modules into one string, and in the browser each becomes a module of
its own again, under its own name in the debugger. A bundler would need Node, or built files to keep up to date; modules
fetched by address would have to lie beside app.py and know the path under which the app is hosted. After a change of a module,
start the app again.
"""

from __future__ import annotations

import json
import posixpath
import re
from functools import lru_cache

from specviz.records import ASSETS

COMPONENTS, STYLES = ASSETS / "components", ASSETS / "styles"
SHARED_SHEETS: dict[
    str, tuple[str, ...]
] = {  # component -> sheets between theme.css and terms.css, and the main.css of its folder
    "front": ("tokens", "game"),
    "one_round": ("tokens", "components"),
    "one_token": ("tokens", "components"),
    "whole_text": ("tokens", "components", "bars"),
    "questions": ("tokens", "components", "bars"),
    "exactness": ("tokens", "components", "histogram"),
    "mistakes": ("tokens", "components", "histogram"),
    "mistakes/game": ("tokens", "game"),
    "drafting_methods/picture": ("tokens", "components", "bars", "drafting_methods/tree/main", "drafting_methods/chart/main"),
    "drafting_methods/chart": ("tokens", "components"),
    "drafting_methods/tree": ("tokens", "components", "bars"),
    "frame": ("tokens", "components"),  # the presenter view of pages of charts
}
IMPORT = re.compile(r'^((?:im|ex)port\b[^;"\']*\bfrom )"([^"]+)";', re.MULTILINE)
LOADER = """const urls = {};
for (const [name, source] of %s) {
  const code = source.replace(/^((?:im|ex)port\\b[^;"']*\\bfrom )"([^"]+)";/gm, (_, words, file) => `${words}"${urls[file]}";`);
  urls[name] = URL.createObjectURL(new Blob([code, `\\n//# sourceURL=specviz/${name}`], { type: "text/javascript" }));
}
const main = await import(urls["%s"]);
for (const url of Object.values(urls)) URL.revokeObjectURL(url);
export default main.default;
"""


def read_modules(entry: str) -> dict[str, str]:
    """Sources of ``entry`` (such as "one_round/main.js") and of all it imports, each after what it imports; addresses from COMPONENTS.

    Raises ValueError where modules import each other in a circle, or one is imported that is not a file of the components.
    """
    found: dict[str, str] = {}

    def visit(name: str, importers: tuple[str, ...]) -> None:
        if name in importers:
            raise ValueError(f"modules must not import each other in a circle, got {' -> '.join((*importers, name))}")
        if name in found:
            return
        if name.startswith("../") or not (COMPONENTS / name).is_file():
            raise ValueError(
                f"a module must be a file of {COMPONENTS.name}/, got {name!r} in {importers[-1] if importers else 'no module'}"
            )
        source = (COMPONENTS / name).read_text(encoding="utf-8")
        folder = posixpath.dirname(name)
        full = {near: posixpath.normpath(posixpath.join(folder, near)) for _, near in IMPORT.findall(source)}
        for other in full.values():
            visit(other, (*importers, name))
        found[name] = IMPORT.sub(lambda line: f'{line[1]}"{full[line[2]]}";', source)

    visit(entry, ())
    return found


@lru_cache(maxsize=8)
def link_modules(entry: str) -> str:
    """One ES module that loads ``entry`` with all it imports, and exports its default."""
    return LOADER % (json.dumps(list(read_modules(entry).items()), ensure_ascii=False), entry)


@lru_cache(maxsize=16)
def read_styles(*names: str) -> str:
    """Style sheets, one after the other: "theme" is in assets/styles/, and "classroom/wall" in a page's folder in assets/components/."""
    return "\n".join(((COMPONENTS if "/" in name else STYLES) / f"{name}.css").read_text(encoding="utf-8") for name in names)


def load_component(name: str) -> dict[str, str]:
    """Script and style of a component, by its folder in assets/components/."""
    own = [f"{name}/main"] if (COMPONENTS / name / "main.css").is_file() else []
    return {"js": link_modules(f"{name}/main.js"), "css": read_styles("theme", "terms", *SHARED_SHEETS[name], *own)}
