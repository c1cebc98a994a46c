"""What the package's own code must not do: run data as code, load by name, or build queries from text."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import laser

PACKAGE = Path(laser.__file__).parent
_MODULES = {"pickle", "cPickle", "_pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "code", "runpy"}
_LOADERS = {"importlib", "imp", "pkgutil"}
_CALLS = {"eval", "exec", "compile", "__import__", "execfile", "input"}
_QUERIES = {"execute", "executemany", "executescript"}

# They look for packages that are no dependency, by names that are written in the file: the harness for Docker's, the
# local model for its weights, the doctor for extras. The font is a file of the package.
_MAY_IMPORT_BY_NAME = {
    "testing/finding.py",
    "integrations/minilm.py",
    "prompt/doctor.py",
    "compaction/snapcompact/font.py",
}


def findings(source: str, name: str) -> list[str]:
    """What a source does of the above, with lines."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            for module in (full.partition(".")[0] for full in names):
                metadata_only = isinstance(node, ast.ImportFrom) and node.module == "importlib.metadata"
                if module in _MODULES or (module in _LOADERS and name not in _MAY_IMPORT_BY_NAME and not metadata_only):
                    found.append(f"{name}:{line}: imports {module}")
        elif isinstance(node, ast.Call):
            called = node.func
            if isinstance(called, ast.Name) and called.id in _CALLS:
                found.append(f"{name}:{line}: calls {called.id}")
            if isinstance(called, ast.Attribute) and called.attr in _QUERIES and node.args and _is_built(node.args[0]):
                found.append(f"{name}:{line}: builds a query from text")
            if isinstance(called, ast.Attribute) and called.attr in {"loads", "load"} and _root(called) == "yaml":
                found.append(f"{name}:{line}: loads YAML")
            found += (
                f"{name}:{line}: starts a shell"
                for keyword in node.keywords
                if keyword.arg == "shell" and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value)
            )
            if (
                isinstance(called, ast.Name)
                and called.id == "import_module"
                and not isinstance(node.args[0], ast.Constant)
            ):
                found.append(f"{name}:{line}: imports by a name that is not written there")
    return found


def _root(node: ast.Attribute) -> str:
    inner = node.value
    return inner.id if isinstance(inner, ast.Name) else ""


def _is_built(query: ast.expr) -> bool:
    if isinstance(query, ast.JoinedStr):
        parts = [part for part in query.values if isinstance(part, ast.FormattedValue)]
        head = query.values[0]
        # A pragma takes no parameters: whole numbers, formatted as such, and names of the module's own may go in.
        pragma = isinstance(head, ast.Constant) and str(head.value).startswith("PRAGMA ")
        return bool(parts) and not pragma
    if isinstance(query, ast.BinOp):
        return True
    return isinstance(query, ast.Call) and isinstance(query.func, ast.Attribute) and query.func.attr == "format"


def test_no_code_comes_from_data() -> None:
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 100
    found = [
        finding for path in files for finding in findings(path.read_text(), str(path.relative_to(PACKAGE).as_posix()))
    ]
    assert found == []


@pytest.mark.parametrize(
    "planted",
    [
        "import pickle",
        "from pickle import loads",
        "import importlib",
        "from importlib import import_module",
        "def f(x):\n    return eval(x)",
        "exec('1')",
        "__import__(name)",
        "c.execute(f'SELECT * FROM t WHERE a = {x}')",
        "c.execute('SELECT ' + x)",
        "c.execute('SELECT {}'.format(x))",
        "subprocess.run(x, shell=True)",
        "import yaml\nyaml.load(x)",
    ],
)
def test_each_of_them_would_be_found(planted: str) -> None:
    assert findings(planted, "planted.py")
