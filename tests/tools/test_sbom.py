"""The list of a release's libraries holds what the requirements need, and neither tools nor places of the machine that made it."""

from __future__ import annotations

import json

from packaging.requirements import Requirement

from tools.sbom import collect_needed, filter_runtime, parse_requirements, remove_local_paths

TREE = {
    "app-lib": ["Web_Server[fast]>=1", "old; python_version < '3'", "tests; extra == 'dev'"],
    "web-server": ["loop; extra == 'fast'", "docs; extra == 'docs'", "app-lib"],
    "loop": [],
}


def parse_tree_requirements(name: str) -> list[Requirement]:
    return list(map(Requirement, TREE[name]))


def test_what_is_needed_follows_extras_that_are_asked_for_and_no_others():
    direct = parse_requirements("# a remark\napp.lib>=2,<3  # another one\n\n")
    assert collect_needed(direct, parse_tree_requirements) == {
        "app-lib": {"web-server"},
        "web-server": {"loop", "app-lib"},
        "loop": set(),
    }


def test_only_what_is_needed_is_listed_with_its_needs_and_the_projects_version():
    components = [{"name": name, "bom-ref": f"{name}==1"} for name in ("App_Lib", "web.server", "loop", "tests")]
    bom = {"metadata": {"component": {"bom-ref": "root", "name": "specviz"}}, "components": components, "dependencies": []}
    found = filter_runtime(bom, ["app-lib"], collect_needed(parse_requirements("app-lib"), parse_tree_requirements), "0.3.0")
    assert [one["name"] for one in found["components"]] == ["App_Lib", "web.server", "loop"]
    assert found["metadata"]["component"] == {"bom-ref": "root", "name": "specviz", "version": "0.3.0"}
    assert {one["ref"]: one["dependsOn"] for one in found["dependencies"]} == {
        "root": ["App_Lib==1"],
        "App_Lib==1": ["web.server==1"],
        "web.server==1": ["App_Lib==1", "loop==1"],
        "loop==1": [],
    }


def test_links_to_files_of_this_machine_are_left_out():
    links = [{"url": url} for url in ("file:///home/me/x.whl", "/home/me/x", "C:\\x", "https://example.org/a/b")]
    found = json.dumps(remove_local_paths({"name": "x", "externalReferences": links}))
    assert "example.org" in found and "me" not in found.replace("name", "") and "C:" not in found
    assert remove_local_paths({"name": "x", "externalReferences": links[:1]}) == {"name": "x"}
