"""What ran, for records and manifests. Asks the installed packages' own notes and imports none of them."""

from __future__ import annotations

import platform
from importlib.metadata import version

from specviz import __version__

PACKAGES = ("torch", "transformers", "numpy", "scipy")


def versions() -> dict[str, str]:
    """Name -> version of the packages that the numbers come from, of Python and of this package."""
    return {name: version(name) for name in PACKAGES} | {"python": platform.python_version(), "specviz": __version__}
