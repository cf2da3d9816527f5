"""The rules that keep the code base readable, checked on its syntax trees."""

from __future__ import annotations

import ast
import dataclasses
import functools
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "tetrax"

# Lowest first. A module imports from its own layer or from those before it; inside a layer the
# modules and packages may use each other as long as there is no cycle.
LAYERS: tuple[tuple[str, ...], ...] = (
    (
        "errors",
        "config",
        "_lazy",
        "_settings_without_effect",
        "tracebacks",
        "dtypes",
        "pytree",
        "tree",
        "tree_util",
    ),
    ("ir",),
    ("tracing",),
    ("runtime",),
    ("ops",),
    ("transforms",),
    ("compiler",),
    ("higher_order",),
    (
        *("lax", "numpy", "scipy", "random", "nn", "image", "flatten_util", "debug", "profiler"),
        *("segment", "sharding", "padding", "export", "interop", "distributed"),
    ),
    ("experimental",),
    ("compat",),
)
LAYER_OF = {unit: index for index, layer in enumerate(LAYERS) for unit in layer}

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 80

# Put together here so that this file does not hold them.
FORBIDDEN_WORDS = tuple(
    "".join(pieces)
    for pieces in (
        ("py", "pi.org"),
        ("python", "hosted.org"),
        ("npm", "js."),
        ("crates", ".io"),
        ("conda", ".anaconda"),
        ("proxy.", "golang"),
        ("/work", "/"),
        ("/tmp", "/brief"),
    )
)
TEXT_SUFFIXES = {
    ".py",
    ".md",
    ".toml",
    ".txt",
    ".cfg",
    ".yml",
    ".yaml",
    ".json",
    ".c",
    ".h",
    ".sh",
    "",
}


@functools.cache
def sources() -> tuple[Path, ...]:
    return tuple(sorted(PACKAGE.rglob("*.py")))


@dataclasses.dataclass
class Facts:
    """What the tests below ask of one file, collected in one walk over its syntax tree."""

    docstring: str | None
    lines: int
    imports: list[tuple[int, str]]  # line, dotted name; relative imports resolved
    imports_in_functions: list[tuple[int, str]]  # line, name of the function
    functions: list[tuple[int, str, int]]  # line, name, number of lines


@functools.cache
def facts(path: Path) -> Facts:
    text = path.read_text()
    tree = ast.parse(text, str(path))
    collected = Facts(ast.get_docstring(tree), len(text.splitlines()), [], [], [])
    collect(tree, ("tetrax", *path.relative_to(PACKAGE).parent.parts), None, collected)
    return collected


def collect(node: ast.AST, package: tuple[str, ...], function: str | None, into: Facts) -> None:
    """Add what stands below `node`, in `function`, of a module in `package`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue  # holds neither imports nor function definitions
        inside = function
        if isinstance(child, (ast.Import, ast.ImportFrom)):
            into.imports += [(child.lineno, name) for name in imported_names(child, package)]
            if function is not None:
                into.imports_in_functions.append((child.lineno, function))
        elif isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inside = child.name
            length = (child.end_lineno or child.lineno) - child.lineno + 1
            into.functions.append((child.lineno, child.name, length))
        collect(child, package, inside, into)


def imported_names(node: ast.Import | ast.ImportFrom, package: tuple[str, ...]) -> list[str]:
    """Return the dotted names of the modules that an import statement names."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    base = package[: len(package) - node.level + 1] if node.level else ()
    module = ".".join((*base, *((node.module,) if node.module else ())))
    return [f"tetrax.{alias.name}" for alias in node.names] if module == "tetrax" else [module]


def unit_of(path: Path) -> str:
    """Return the module or package directly under tetrax that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def units_imported(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (line, unit) for what a file imports from Tetrax, its own unit left out."""
    for line, name in facts(path).imports:
        parts = name.split(".")
        if parts[0] == "tetrax" and len(parts) > 1 and parts[1] != unit_of(path):
            yield line, parts[1]


def place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def report(problems: list[str]) -> None:
    assert not problems, "\n".join(problems)


def layered_sources() -> Iterator[Path]:
    """Yield the files under the layer rule: all but the one that fills the seams."""
    return (path for path in sources() if path != PACKAGE / "__init__.py")


def test_every_module_has_a_layer():
    unknown = {unit_of(path) for path in layered_sources()} - set(LAYER_OF)
    assert not unknown, f"Add {sorted(unknown)} to LAYERS in {Path(__file__).name}."


def test_imports_point_to_lower_layers():
    problems = []
    for path in layered_sources():
        for line, unit in units_imported(path):
            if unit not in LAYER_OF:
                problems.append(f"{place(path, line)} imports tetrax.{unit}, which has no layer")
            elif LAYER_OF[unit] > LAYER_OF.get(unit_of(path), -1):
                problems.append(f"{place(path, line)} imports tetrax.{unit}, a higher layer")
    report(problems)


def test_no_cycle_between_the_units_of_a_layer():
    graph: dict[str, set[str]] = {}
    for path in layered_sources():
        graph.setdefault(unit_of(path), set()).update(unit for _, unit in units_imported(path))

    def visit(unit: str, trail: tuple[str, ...]) -> None:
        assert unit not in trail, f"Import cycle: {' -> '.join((*trail, unit))}"
        if unit not in done:
            for other in graph.get(unit, ()):
                visit(other, (*trail, unit))
            done.add(unit)

    done: set[str] = set()
    for unit in graph:
        visit(unit, ())


def test_no_import_inside_a_function():
    report(
        [
            f"{place(path, line)} imports inside {function}"
            for path in sources()
            for line, function in facts(path).imports_in_functions
        ]
    )


def test_jax_is_never_imported():
    report(
        [
            f"{place(path, line)} imports {name}"
            for path in sources()
            for line, name in facts(path).imports
            if name.split(".")[0] in ("jax", "jaxlib")
        ]
    )


def test_files_are_short():
    report(
        [
            f"{place(path, 1)} has {facts(path).lines} lines; split it by family"
            for path in sources()
            # Tables of data, files without a function, may be longer.
            if facts(path).lines >= MAX_FILE_LINES and facts(path).functions
        ]
    )


def test_functions_are_short():
    report(
        [
            f"{place(path, line)} {name} has {length} lines"
            for path in sources()
            for line, name, length in facts(path).functions
            if length >= MAX_FUNCTION_LINES
        ]
    )


def test_modules_say_what_they_are_for():
    report(
        [
            f"{place(path, 1)} has no docstring"
            for path in sources()
            if facts(path).lines and not facts(path).docstring
        ]
    )


def project_files() -> list[Path]:
    """Return the project's text files: those git tracks, or all outside hidden folders."""
    try:
        listed = subprocess.run(
            ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        files = [ROOT / name for name in listed]
    except (OSError, subprocess.CalledProcessError):
        files = [
            path
            for folder in ("src", "tests", "scripts", "examples", "benchmarks", "docs")
            for path in (ROOT / folder).rglob("*")
        ]
    return [path for path in files if path.is_file() and path.suffix in TEXT_SUFFIXES]


def test_no_forbidden_words():
    problems = []
    for path in project_files():
        text = path.read_text(errors="replace")
        problems += [
            f"{path.relative_to(ROOT)} contains {word!r}"
            for word in FORBIDDEN_WORDS
            if word in text
        ]
    report(problems)


def test_every_folder_is_in_the_architecture_page():
    page = ROOT / "ARCHITECTURE.md"
    if not page.exists():
        pytest.skip("there is no ARCHITECTURE.md")
    text = page.read_text()
    folders = {
        path.parent.relative_to(PACKAGE).as_posix() for path in sources() if path.parent != PACKAGE
    }
    missing = sorted(folder for folder in folders if f"{folder.split('/')[-1]}/" not in text)
    assert not missing, f"ARCHITECTURE.md does not name {missing}"
