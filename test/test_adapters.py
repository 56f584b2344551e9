"""Workarounds for other packages are in the adapters that give their reason; nothing of other packages is replaced."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from conftest import ROOT

from haptic_sim.installed import PACKAGE_NAMES

FILES = [path for package in PACKAGE_NAMES for path in sorted((ROOT / package).rglob("*.py"))]
MIDDLEWARE = "haptic_ros/middleware/"
LIBRARIES = "haptic_drivers/devices/"  # C libraries of vendors, by their documented interface
SIGNALS = "haptic_bench/set_up/failures.py"  # ends a program at a signal before anything is imported
NUMBA = ("haptic_sim/kernels/", "haptic_sim/packed.py")  # see numba_inside.py
VISER = "haptic_view/guarded_server.py"
NAMED_TUPLE = {"_asdict", "_replace", "_fields", "_field_defaults"}
HOOKS = {"threading.excepthook", "sys.argv", "sys.stderr", "sys.dont_write_bytecode"}
"""What a program may set by the documentation of Python."""


@cache
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


def found(*adapters: str) -> Iterator[tuple[str, ast.AST]]:
    """Each node of our files, but for those of adapters, with its place."""
    for path in FILES:
        name = str(path.relative_to(ROOT))
        if not name.startswith(adapters):
            for node in nodes(path):
                yield f"{name}:{getattr(node, 'lineno', 0)}", node


def imports(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def test_only_adapters_call_c_functions() -> None:
    wrong = [place for place, node in found(MIDDLEWARE, LIBRARIES) if "ctypes" in imports(node)]
    assert wrong == []


def test_only_adapters_end_a_process_without_destructors() -> None:
    calls = (one for one in found(MIDDLEWARE, SIGNALS) if isinstance(one[1], ast.Attribute))
    assert [place for place, node in calls if getattr(node, "attr", "") == "_exit"] == []


def test_only_adapters_import_private_modules() -> None:
    for place, node in found(MIDDLEWARE, VISER, *NUMBA):
        for name in imports(node):
            private = name.startswith("rclpy.impl") or any(one.startswith("_") for one in name.split("."))
            assert not private or name.startswith(("__future__", *PACKAGE_NAMES)), f"{place}: {name}"


@pytest.mark.exhaustive
def test_only_adapters_use_private_attributes_of_others() -> None:
    """Private to others is a name that no file of ours defines, and the handle of an object of rclpy."""
    ours: set[str] = set()
    for _, node in found():
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            ours.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            ours.add(node.id if isinstance(node, ast.Name) else node.attr)
    ours -= {"_handle", "_name"}  # of a C library, too
    for place, node in found(MIDDLEWARE, VISER, LIBRARIES, SIGNALS, *NUMBA):
        if isinstance(node, ast.Attribute):
            owned = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            private = node.attr.startswith("_") and not node.attr.startswith("__") and node.attr not in NAMED_TUPLE
            assert owned or not private or node.attr in ours, f"{place}: {ast.unparse(node)}"
            assert node.attr not in ("publish_raw", "take_message"), f"{place}: {ast.unparse(node)}"


def test_nothing_of_another_package_is_replaced() -> None:
    for path in FILES:
        foreign = set()
        for node in nodes(path):
            if isinstance(node, ast.Import | ast.ImportFrom) and not imports(node)[0].startswith(PACKAGE_NAMES):
                foreign |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        for node in nodes(path):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
                owner: ast.AST = node
                while isinstance(owner, ast.Attribute):
                    owner = owner.value
                replaced = isinstance(owner, ast.Name) and owner.id in foreign
                assert not replaced or ast.unparse(node) in HOOKS, f"{path}:{node.lineno}: {ast.unparse(node)}"
