"""The shape of the package: sizes of files and functions, no import cycles, no private names in tests."""

import ast
import re
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))
LONGEST_FILE, LONGEST_BODY = 400, 42  # lines; of a function without its docstring


def bodies(path):
    """Every function of a file with the number of lines of its body, without the docstring and nested functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            yield node.name, node.end_lineno - body[0].lineno + 1 if body else 0


def test_no_file_and_no_function_is_too_long():
    files = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES}
    functions = {f"{path.relative_to(ROOT)}:{name}": n for path in SOURCES for name, n in bodies(path)}
    assert {name: n for name, n in files.items() if n > LONGEST_FILE} == {}
    assert {name: n for name, n in functions.items() if n > LONGEST_BODY} == {}


def test_no_module_imports_itself_through_others():
    graph = grimp.build_graph("intarsia", cache_dir=None)
    for module in sorted(graph.modules):
        for imported in graph.find_modules_directly_imported_by(module):
            chain = graph.find_shortest_chain(importer=imported, imported=module)
            assert chain is None, (module, *chain)


def test_a_test_that_imports_a_private_name_says_why():
    private = re.compile(r"from intarsia[\w.]* import .*\b_[a-z]\w*(?!.*#)")
    found = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for line in path.read_text().splitlines()
        if private.search(line)
    ]
    assert found == []
