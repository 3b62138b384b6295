"""`--plugin`: your own modules are imported before a command runs, so that it knows what they register."""

import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

PLUGINS_VARIABLE = "PURSUIT_PLUGINS"
"""Names plugins for every command, with the separator of PATH between them."""


def load_plugins(names: Sequence[str]) -> None:
    """Import the plugins that the environment names, and then these."""
    from_environment = filter(None, os.environ.get(PLUGINS_VARIABLE, "").split(os.pathsep))
    for name in dict.fromkeys([*from_environment, *names]):
        load_plugin(name)


def load_plugin(name: str) -> None:
    """Import a Python file by its path or a module by its name, once; raises ValueError saying what is wrong."""
    is_file = name.endswith(".py") or os.sep in name
    if is_file and not Path(name).is_file():
        raise ValueError(f"There is no plugin file {name}: give the path of a Python file, or the name of a module.")
    try:
        if is_file:
            _import_file(Path(name).resolve())
        else:
            importlib.import_module(name)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and not is_file and f"{name}.".startswith(f"{error.name}."):
            raise ValueError(
                f"There is no module '{name}' to import as a plugin: install its package, or give the path of its file."
            ) from None
        message = error.msg if isinstance(error, SyntaxError) else error
        raise ValueError(
            f"The plugin {name} cannot be imported: {type(error).__name__}: {message} ({_place(error)})."
        ) from error


def _import_file(path: Path) -> None:
    module_name = str(path)  # no module of another package has such a name
    if module_name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ValueError("it is not a Python file")
    module = sys.modules[module_name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[module_name]
        raise


def _place(error: Exception) -> str:
    """The line of the plugin at which its import failed."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"line {error.lineno} of {error.filename}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename != __file__ and "importlib" not in frame.filename
    ]
    if not frames:
        return "before its first line"
    # The first frame is the plugin's own, and the last one in the same file is nearest to the error.
    last = [frame for frame in frames if frame.filename == frames[0].filename][-1]
    return f"line {last.lineno} of {last.filename}"
