"""runtime_wheel: build the small wheel of what loads, checks and runs compiled models.

python -m rcompiler.tools.runtime_wheel --out=dist     dist/rcompiler_runtime-0.1.0-py3-none-any.whl

It is made of modules of this very package, and needs numpy only. It may be installed beside the
compiler: its modules lie in a folder of their own, `rcompiler_runtime`, which a module
`rcompiler.py` makes the package `rcompiler`. Where the folder `rcompiler` of the compiler lies
beside that module, Python prefers the folder.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from rcompiler.runtime.container import replacing
from rcompiler.support.installed import PACKAGE, RUNTIME
from rcompiler.tools._command import Command
from rcompiler.tools._wheel import package_facts, wheel, wheel_name

FOLDER = RUNTIME.replace("-", "_")
# What people call, and what its functions import: late, so that not everybody has to load it.
_ROOTS = (
    *("rcompiler", "rcompiler.__main__", "rcompiler.model"),
    *("rcompiler.tools.rc_run", "rcompiler.tools.doctor"),
    *("rcompiler.driver.signing", "rcompiler.viz.measured", "rcompiler.schedule_text"),
    "rcompiler.session.inference_session",
    *("rcompiler.bucketed", "rcompiler.composite_model"),
    *("rcompiler.packed", "rcompiler.pool"),
)
_WHOLE = ("runtime", "checker")
_EXTRAS = ("cuda", "sign")  # of those of the package
_STARTER = f'''"""Makes the folder beside this file the package rcompiler: its runtime alone."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

_home = Path(__file__).with_name("{FOLDER}")
_spec = spec_from_file_location(
    "rcompiler", _home / "__init__.py", submodule_search_locations=[str(_home)]
)
sys.modules["rcompiler"] = module_from_spec(_spec)
_spec.loader.exec_module(sys.modules["rcompiler"])
if __name__ == "__main__":
    from rcompiler.__main__ import main

    sys.exit(main())
'''


def _run(options: argparse.Namespace) -> int:
    facts = package_facts(
        name=RUNTIME,
        summary="What loads, checks and runs models that rcompiler has compiled",
        packages=("numpy",),
        extras=_EXTRAS,
        scripts={"rc-run": "rcompiler.tools.rc_run:main"},
    )
    data = wheel(facts, runtime_files())
    path = Path(options.out, wheel_name(facts))
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write(data)
    print(f"{path}: {len(data) / 1e3:.0f} kB")
    return 0


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", default="dist", metavar="FOLDER", help="default: dist")


def runtime_files() -> dict[str, bytes]:
    """What the wheel installs: contents by path."""
    paths = [*map(_file, _needed()), PACKAGE / "py.typed"]
    paths += PACKAGE.glob("device/records/*.json")
    ours = {
        f"{FOLDER}/{path.relative_to(PACKAGE).as_posix()}": path.read_bytes()
        for path in paths
        if path is not None
    }
    return {"rcompiler.py": _STARTER.encode(), **ours}


def _needed() -> set[str]:
    """Our modules that running needs, by dotted name: the roots, and what any of them imports
    when it is loaded.
    """
    todo = [*_ROOTS, *(name for folder in _WHOLE for name in _modules_of(folder))]
    found: set[str] = set()
    while todo:
        name = todo.pop()
        path = _file(name)
        if name in found or path is None:
            continue
        found.add(name)
        todo += [name.rpartition(".")[0], *_imported(path)]
    return found


def _modules_of(folder: str) -> Iterator[str]:
    for path in (PACKAGE / folder).rglob("*.py"):
        yield ".".join(("rcompiler", *path.relative_to(PACKAGE).with_suffix("").parts))


def _file(name: str) -> Path | None:
    """Of a module of ours; None for other names."""
    top, *parts = name.removesuffix(".__init__").split(".")
    if top != "rcompiler":
        return None
    path = PACKAGE.joinpath(*parts)
    places = [path / "__init__.py", *([path.with_suffix(".py")] if parts else [])]
    return next((place for place in places if place.is_file()), None)


def _imported(path: Path) -> Iterator[str]:
    """What loading a module imports; names that are no modules are among it."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


main = Command(__name__, __doc__, _options, _run, writes=())

if __name__ == "__main__":
    sys.exit(main())
