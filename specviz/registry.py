"""Registries that this project and other packages add to: proposers, rules, warpers, server profiles, test statistics.

Each entry is registered by a decorator in the file that implements it. A registry finds this project's names by reading the
decorators in the sources, and those of other packages from their entry points. A file, which may need torch, is imported when its
name is looked up.
"""

from __future__ import annotations

import ast
import logging
import re
import sys
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import Any, TypeVar

from specviz.errors import MAX_SHOWN, PluginError, SettingsError, suggest

T = TypeVar("T")
T2 = TypeVar("T2")  # of an argument
F = TypeVar("F")  # what a decorator registers
ROOT = Path(__file__).resolve().parents[1]
log = logging.getLogger(__name__)


@lru_cache(maxsize=16)
def _read_entry_points(path: tuple[str, ...], group: str) -> EntryPoints:
    """Entry points of the packages on a search path. Reading them opens a file of each package, so it is done once."""
    return entry_points(group=group)


class Registry(MutableMapping[str, T]):
    """Name -> entry.

    Args:
        kind: What an entry is, for sentences: "proposer".
        package: The package of this project whose files are searched.
        decorator: Name of the function that registers an entry; the files begin a line with ``@decorator("name"``.
        group: Entry-point group of other packages. An entry point has the name of the entry and leads to the module that
            registers it, or to anything in that module.
        default: The name that is listed first; the others follow in alphabetical order.
    """

    def __init__(self, kind: str, package: str, decorator: str, group: str, default: str = ""):
        self.kind, self.package, self.decorator, self.group, self.default = kind, package, decorator, group, default
        self._entries: dict[str, T] = {}
        self._reported: set[str] = set()
        self._own_only = False

    @cached_property
    def _modules(self) -> dict[str, str]:
        """Name -> module, of this project's own entries."""
        pattern = re.compile(rf'^@{self.decorator}\(\s*"([^"]+)"', re.M)
        found: dict[str, str] = {}
        for path in sorted(ROOT.joinpath(*self.package.split(".")).rglob("*.py")):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found |= dict.fromkeys(pattern.findall(path.read_text(encoding="utf-8")), module)
        return found

    @cached_property
    def _decorators(self) -> dict[str, dict[str, ast.expr]]:
        """Name -> keyword arguments of the decorator, of this project's own entries."""
        found: dict[str, dict[str, ast.expr]] = {}
        for module in sorted(set(self._modules.values())):
            text = ROOT.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
            calls = [
                call for one in ast.parse(text).body for call in getattr(one, "decorator_list", ()) if isinstance(call, ast.Call)
            ]
            for call in calls:
                if isinstance(call.func, ast.Name) and call.func.id == self.decorator and isinstance(call.args[0], ast.Constant):
                    found[str(call.args[0].value)] = {one.arg: one.value for one in call.keywords if one.arg}
        return found

    def find_names_with(self, keyword: str, value: str) -> tuple[str, ...]:
        """Names whose decorator lists ``value`` in this argument, a tuple of texts that their entry has as a field.

        Files are read as for ``read_argument``.
        """
        return tuple(name for name in self.list_names() if value in self.read_argument(name, keyword, ()))

    def read_argument(self, name: str, keyword: str, default: T2) -> T2:
        """The argument of a name's decorator that its entry has as a field; ``default`` where it is left out or there is no such name.

        A file of this project is only read, unless the argument is an expression. Other packages are imported; ``default`` where that
        fails.
        """
        if name in self._decorators and name not in self._entries:
            try:
                given = self._decorators[name].get(keyword)
                return ast.literal_eval(given) if given is not None else default
            except ValueError:  # an expression
                pass
        try:
            return getattr(self[name], keyword)
        except KeyError:
            return default
        except PluginError as error:
            self._report(name, error)
            return default

    def _list_plugins(self) -> dict[str, EntryPoint]:
        """Name -> entry point, of other packages. A name of this project cannot be replaced."""
        return {one.name: one for one in _read_entry_points(tuple(sys.path), self.group) if one.name not in self._modules}

    def list_names(self) -> tuple[str, ...]:
        """All names, without importing what they stand for."""
        found = {*self._modules} if self._own_only else {*self._modules, *self._entries, *self._list_plugins()}
        return tuple(sorted(found, key=lambda name: (name != self.default, name)))

    @contextmanager
    def list_own_only(self) -> Iterator[None]:
        """List the names of this project alone meanwhile, for its documentation."""
        before, self._own_only = self._own_only, True
        try:
            yield
        finally:
            self._own_only = before

    def find(self, name: str) -> T:
        """The entry of a name. Raises SettingsError, which lists the names, or PluginError where its package cannot be loaded."""
        try:
            return self[name]
        except KeyError:
            raise SettingsError(
                self.kind, name, f"one of {', '.join(self.list_names())}{suggest(name, self.list_names())}"
            ) from None

    def load_all(self) -> dict[str, T]:
        """Every entry by name. One that cannot be loaded is left out, with one line in the log."""
        found = {}
        for name in self.list_names():
            try:
                found[name] = self[name]
            except PluginError as error:
                self._report(name, error)
        return found

    def _report(self, name: str, error: PluginError) -> None:
        """Log once that an entry is left out."""
        if name not in self._reported:
            self._reported.add(name)
            log.warning("%s", error)

    def __getitem__(self, name: str) -> T:
        if name in self._entries:
            return self._entries[name]
        if name in self._modules:
            import_module(self._modules[name])
        elif (plugin := self._list_plugins().get(name)) is not None:
            self._load(plugin)
        return self._entries[name]

    def register(self, name: str, build_entry: Callable[[Any], T]) -> Callable[[F], F]:
        """Decorator that adds the entry built from what it decorates."""

        def add(registered: F) -> F:
            self[name] = build_entry(registered)
            return registered

        return add

    def _load(self, plugin: EntryPoint) -> None:
        try:
            plugin.load()
        except Exception as error:  # another package's code may raise anything
            raise PluginError(self._explain_failure(plugin, f"{type(error).__name__}: {str(error)[:MAX_SHOWN]}")) from error
        if plugin.name not in self._entries:
            raise PluginError(self._explain_failure(plugin, f"{plugin.value} does not call @{self.decorator}({plugin.name!r})"))

    def _explain_failure(self, plugin: EntryPoint, reason: str) -> str:
        package = plugin.dist.name if plugin.dist is not None else "unknown"
        return f"The {self.kind} {plugin.name!r} of the package {package!r} could not be loaded ({reason})."

    def __setitem__(self, name: str, entry: T) -> None:
        self._entries[name] = entry

    def __delitem__(self, name: str) -> None:
        del self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.list_names())

    def __contains__(self, name: object) -> bool:
        if name in self._modules or self._own_only:
            return name in self._modules
        return name in self._entries or name in self._list_plugins()

    def __len__(self) -> int:
        return len(self.list_names())
