"""The borders of the house: one-way imports, walls around libraries, sizes, broad excepts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
VOCABULARY = {
    *("messages", "mcp_servers", "forms", "processes", "progress", "survey", "events", "errors", "protocols", "codec"),
}
MAY_IMPORT: dict[str, set[str]] = {
    "messages": set(),
    "errors": set(),
    "forms": set(),
    "mcp_servers": set(),
    "processes": set(),
    "progress": set(),
    "survey": set(),
    "speech": set(),
    "globs": set(),
    "events": {"messages", "forms", "processes", "progress", "errors"},
    "protocols": {"messages", "progress", "survey", "events", "errors"},
    "codec": {"messages", "events", "errors"},
    "config": {"errors"},
    "workspace": {"errors", "globs"},
    "core": {"messages", "forms", "processes", "events", "errors", "protocols", "globs"},
    "tools": {"mcp_servers", "messages", "errors", "protocols", "workspace", "config", "globs"},
    "prompt": {"messages", "errors", "protocols", "workspace", "config"},
    "model": {"messages", "events", "errors", "protocols", "config"},
    "runtime": {"progress", "survey", "events", "errors", "protocols", "config"},
    "store": {"messages", "events", "errors", "protocols", "codec", "config"},
    "commands": VOCABULARY | {"core", "config"},
    "tui": VOCABULARY | {"core", "commands", "config"},
    "headless": VOCABULARY | {"core", "commands", "config"},
    "console": {
        "mcp_servers",
        "errors",
        "progress",
        "survey",
        "events",
        "protocols",
        "config",
        "commands",
        "prompt",
        "runtime",
        "speech",
    },
    "wiring": VOCABULARY
    | {
        "console",
        "config",
        "workspace",
        "core",
        "tools",
        "prompt",
        "model",
        "runtime",
        "store",
        "commands",
        "tui",
        "headless",
        "speech",
    },
    "cli": {"errors", "wiring", "headless", "console", "speech"},
    "__main__": {"cli"},
}
WALLS = {
    "textual": {"tui"},
    "rich": {"tui"},
    "openai": {"model"},
    "tiktoken": {"model"},
    "mcp": {"tools.mcp"},
    "mcp_types": {"tools.mcp"},
    "anyio": {"tools.mcp"},
    "argcomplete": {"console.completion"},
    "git": {"workspace"},
    "huggingface_hub": {"runtime.hub"},
    "pynvml": {"runtime.hardware"},
    "tree_sitter": {"tools.splitting", "tools.syntax"},
    "tree_sitter_bash": {"tools.syntax"},
    "charset_normalizer": {"workspace.encoding"},
    "pyjson5": {"model"},
    "subprocess": {"runtime.process", "tools.terminal", "tools.sandbox", "workspace"},
    "yaml": {"prompt.frontmatter"},
}
LAZY_IMPORTS = {"wiring", "cli"}
LINES = 400
FUNCTION_LINES = 60
BROAD_EXCEPT = {"core/dispatch.py": 2, "tui/pump.py": 1, "cli.py": 1}


def modules() -> Iterator[tuple[str, str, ast.Module]]:
    """(path below agent/, dotted name below agent, tree)"""
    for path in sorted((ROOT / "agent").rglob("*.py")):
        rel = path.relative_to(ROOT / "agent").as_posix()
        name = rel.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        yield rel, name, ast.parse(path.read_text(encoding="utf-8"))


def imported(tree: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):  # imports inside functions and under TYPE_CHECKING count too
        if isinstance(node, ast.Import):
            yield from ((a.name, node.lineno) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, "imports are absolute"
            assert node.module
            yield node.module, node.lineno


def layer(name: str) -> str:
    return name.split(".", 1)[0]


@pytest.mark.parametrize(("rel", "name", "tree"), list(modules()), ids=lambda v: v if isinstance(v, str) else "")
def test_a_module_imports_only_what_its_layer_may(rel: str, name: str, tree: ast.Module) -> None:
    me = layer(name)
    if name == "__init__":
        return
    assert me in MAY_IMPORT, f"{rel}: a new layer needs its rule here"
    wrong = [
        f"{rel}:{line} imports {module}"
        for module, line in imported(tree)
        if module.startswith("agent.")
        and (other := layer(module.removeprefix("agent."))) != me
        and other not in MAY_IMPORT[me]
    ]
    assert not wrong


@pytest.mark.parametrize(("rel", "name", "tree"), list(modules()), ids=lambda v: v if isinstance(v, str) else "")
def test_a_library_is_imported_only_behind_its_wall(rel: str, name: str, tree: ast.Module) -> None:
    wrong = [
        f"{rel}:{line} imports {module}"
        for module, line in imported(tree)
        if (walls := WALLS.get(module.split(".", 1)[0]))
        and not any(name == w or name.startswith(w + ".") for w in walls)
    ]
    assert not wrong


@pytest.mark.parametrize(("rel", "name", "tree"), list(modules()), ids=lambda v: v if isinstance(v, str) else "")
def test_files_functions_and_broad_excepts_stay_small(rel: str, name: str, tree: ast.Module) -> None:
    lines = (ROOT / "agent" / rel).read_text(encoding="utf-8").count("\n")
    assert lines <= LINES, f"{rel} has {lines} lines: what does it do that its name does not say?"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            size = (node.end_lineno or node.lineno) - node.lineno + 1
            assert size <= FUNCTION_LINES, f"{rel}:{node.lineno} {node.name} has {size} lines"
            if layer(name) not in LAZY_IMPORTS:
                inside = [n.lineno for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom)]
                assert not inside, f"{rel}:{inside} imports inside a function"
    broad = sum(
        isinstance(n, ast.ExceptHandler)
        and not (isinstance(n.body[-1], ast.Raise) and n.body[-1].exc is None)  # cleaning up and raising again is fine
        and (n.type is None or (isinstance(n.type, ast.Name) and n.type.id in {"Exception", "BaseException"}))
        for n in ast.walk(tree)
    )
    assert broad <= BROAD_EXCEPT.get(rel, 0), f"{rel} has {broad} broad excepts"


def test_modules_import_each_other_without_a_cycle() -> None:
    graph = {
        "agent." + name: {m for m, _ in imported(tree) if m.startswith("agent.")}
        for _, name, tree in modules()
        if layer(name) not in LAZY_IMPORTS
    }
    done: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, " -> ".join([*path, name])
        if name not in done:
            for other in graph.get(name, ()):
                visit(other, (*path, name))
            done.add(name)

    for name in graph:
        visit(name, ())
