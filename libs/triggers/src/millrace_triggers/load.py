"""Loads the class that a trigger names: from the trigger folder, or one file below it, and nowhere else."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

_ARCHIVES = (".zip", ".whl")


class NoClass(Exception):
    """There is no such class; ``str()`` says why."""


def load_class(folder: Path, file: Path | None, class_name: str) -> type:
    """``class_name``: ``package.module:Class``. ``file``: a module (``.py``) or an archive of them.

    :raises NoClass: if it is not there, is not a class, or comes from anywhere else.
    """
    module_name, _, name = class_name.partition(":")
    root = (folder if file is None else file).resolve()
    module = _from_file(root, module_name) if root.suffix == ".py" else _from_path(root, module_name)
    found = getattr(module, name, None)
    if not isinstance(found, type):
        raise NoClass(f"{module_name} in {root.name} has no class {name}")
    if found.__module__ == module_name or _below(root, sys.modules.get(found.__module__)):
        return found
    raise NoClass(f"{class_name} comes from {found.__module__}, which is not in {root.name}")


def _from_path(root: Path, name: str) -> ModuleType:
    if root.is_file() and root.suffix not in _ARCHIVES:
        raise NoClass(
            f"{root.name} is neither a module nor an archive of modules: its name must end in .py, "
            ".zip or .whl"
        )
    if not root.exists():
        raise NoClass(f"{root} does not exist")
    sys.path.insert(0, str(root))
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise NoClass(f"there is no module {name} in {root}") from None
        raise
    if not _below(root, module):
        raise NoClass(f"the module {name} is not in {root}: classes are loaded only from there")
    return module


def _from_file(root: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, root)
    if spec is None or spec.loader is None or not root.is_file():
        raise NoClass(f"{root} does not exist")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _below(root: Path, module: ModuleType | None) -> bool:
    """Whether a module was loaded from below ``root``; a module in an archive has a path that begins
    with the archive's."""
    place = getattr(module, "__file__", None)
    if place is None:
        return False
    # links that the folder's owner has put there count as part of it
    return Path(place).is_relative_to(root)
