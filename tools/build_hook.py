"""Build hook of Hatchling: adds the files beside the package to a wheel, and nothing to an editable install, which reads the checkout."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BESIDE = {
    "assets": "specviz/assets",
    "docs/how-to/lesson-20.md": "specviz/lessons/lesson-20.md",
    "docs/how-to/lesson-45.md": "specviz/lessons/lesson-45.md",
    "docs/how-to/lesson-90.md": "specviz/lessons/lesson-90.md",
    "app.py": "specviz/served/app.py",
    "pages": "specviz/served/pages",
    "static": "specviz/served/static",
    ".streamlit": "specviz/served/.streamlit",
}


class CustomBuildHook(BuildHookInterface):
    """Adds the files of ``BESIDE`` to a standard wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name == "wheel" and version == "standard":
            build_data["force_include"].update(BESIDE)
