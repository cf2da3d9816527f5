"""The import finder: makes modules named `jax...` whose names come from Tetrax."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from tetrax.compat.jax._tables import EXTRAS, MODULES

JAX_VERSION = "0.10.2"


class StandIn(ModuleType):
    """A module whose names are looked up in a list of Tetrax modules, then in a table."""

    def __init__(self, name: str, sources: Sequence[str]) -> None:
        super().__init__(name)
        self.__path__ = []
        self._sources = tuple(sources)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__version__", "__version_info__"):
            raise AttributeError(name)
        value = self._find(name)
        setattr(self, name, value)
        return value

    def _find(self, name: str) -> Any:
        extra = EXTRAS.get(self.__name__, {}).get(name)
        if extra is not None:
            return resolve(extra)
        full = f"{self.__name__}.{name}"
        if full in MODULES:
            return importlib.import_module(full)
        for source in self._sources:
            module = importlib.import_module(source)
            try:
                return getattr(module, name)
            except AttributeError:
                continue
        raise AttributeError(
            f"module {self.__name__!r} has no attribute {name!r} (Tetrax stands in for jax "
            f"{JAX_VERSION} in this process)"
        )

    def __dir__(self) -> list[str]:
        names = set(EXTRAS.get(self.__name__, {}))
        for source in self._sources:
            names.update(dir(importlib.import_module(source)))
        return sorted(names)


def resolve(target: Any) -> Any:
    """What a table entry means: 'module:attribute', 'module', or the value itself."""
    if not isinstance(target, str):
        return target
    module, _, attribute = target.partition(":")
    value: Any = importlib.import_module(module)
    for part in filter(None, attribute.split(".")):
        value = getattr(value, part)
    return value


class _Loader(importlib.abc.Loader):
    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return StandIn(spec.name, MODULES[spec.name])

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ == "jax":
            module.__version__ = JAX_VERSION  # type: ignore[attr-defined]
            module.__version_info__ = (0, 10, 2)  # type: ignore[attr-defined]


class Finder(importlib.abc.MetaPathFinder):
    """Claims `jax`, `jaxlib` and everything below them."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname in MODULES:
            return importlib.machinery.ModuleSpec(fullname, _Loader(), is_package=True)
        return None


_finder = Finder()


def install() -> None:
    """From now on `import jax` means Tetrax in this process.

    Raises RuntimeError if the real jax has been imported already.
    """
    if installed():
        return
    present = sys.modules.get("jax")
    if present is not None and not isinstance(present, StandIn):
        raise RuntimeError(
            "the real jax is already imported in this process: call tetrax.compat.jax.install() "
            "first"
        )
    sys.meta_path.insert(0, _finder)


def installed() -> bool:
    """Whether `import jax` means Tetrax now."""
    return _finder in sys.meta_path


def uninstall() -> None:
    """Undo `install`; modules that hold on to stand-ins keep them."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    for name in [n for n, m in sys.modules.items() if isinstance(m, StandIn)]:
        del sys.modules[name]
