"""Pages of the Python interface, from the sources alone: nothing is imported.

Docstrings are Markdown with the sections of Google's style (Args, Returns, ...). A page has the modules of one folder,
each with its public classes, functions and constants.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

PACKAGES = {
    "haptic_sim": "Worlds, contact, constraints, the local model",
    "haptic_control": "Controllers and passivity",
    "haptic_drivers": "Devices and operators",
    "haptic_robot": "Robots in the place of the world",
    "haptic_bench": "Experiments, trials, reports",
    "haptic_study": "Studies with people",
    "haptic_view": "Pictures and the page in the browser",
    "haptic_experiments": "The published experiments",
    "haptic_ros": "What the ROS 2 nodes share",
}
"""The packages that are installed, in the order of their pages, and what they are for."""
OFFERED = ("haptic_sim", "haptic_bench", "haptic_study")
"""Packages that themselves offer names to programs, in `__all__`."""
SECTIONS = ("Args", "Returns", "Yields", "Raises", "Attributes", "Example", "Examples", "Note")
_SECTION = re.compile(rf"^({'|'.join(SECTIONS)}):\s*$")
_ITEM = re.compile(r"^(\*{0,2}[\w.*, ]+):\s+(.*)$")
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def python_pages(root: Path) -> Iterator[tuple[str, str]]:
    """The pages, each as its name and its Markdown.

    Args:
        root: the checkout.
    """
    modules = {package: _modules(root, package) for package in PACKAGES}
    public = {(module, name): package for package in OFFERED for name, module, _ in _offered(root, package)}
    yield "python/index", _index(root, modules)
    for package, folders in modules.items():
        for folder, files in folders.items():
            yield f"python/{folder}", _folder_page(root, folder, files, public)
        listed = "\n".join(folder for folder in folders if folder != package)
        if listed:
            name = f"python/{package}"
            page = _folder_page(root, package, folders[package], public)
            yield name, f"{page}\n```{{toctree}}\n:hidden:\n{listed}\n```\n"


def markdown(text: str) -> str:
    """A docstring as Markdown: its sections become lists, and what could be taken for HTML is escaped."""
    out: list[str] = []
    section = ""
    for line in text.strip().splitlines():
        found = _SECTION.match(line)
        if found:
            section = found[1]
            out += ["", f"**{section}**", ""]
        elif section and line and not line.startswith(" "):
            section = ""
            out += ["", _plain(line)]
        elif section:
            body = line[4:] if line.startswith("    ") else line
            item = _ITEM.match(body)
            if item and section not in ("Example", "Examples", "Note"):
                out.append(f"- `{item[1]}`: {_plain(item[2])}")
            elif body.startswith("    "):
                out.append(f"  {_plain(body.strip())}")
            else:
                out.append(_plain(body))
        else:
            out.append(line if line.startswith("    ") else _plain(line))
    return "\n".join(out)


def _plain(line: str) -> str:
    """A line of prose; what is between backticks is left as it is."""
    parts = line.split("`")
    for i in range(0, len(parts), 2):
        parts[i] = (
            re.sub(r"([<*_\[\]#|$])", r"\\\1", parts[i]) if "**" not in parts[i] else parts[i].replace("<", "\\<")
        )
    return "`".join(parts)


def _modules(root: Path, package: str) -> dict[str, list[Path]]:
    """Files of a package with a docstring, by the dotted name of their folder."""
    found: dict[str, list[Path]] = {package: []}
    for path in sorted((root / package).rglob("*.py")):
        if "__pycache__" not in path.parts and not path.stem.startswith("__main__"):
            found.setdefault(".".join(path.parent.relative_to(root).parts), []).append(path)
    return found


def _module_name(root: Path, path: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _index(root: Path, modules: dict[str, dict[str, list[Path]]]) -> str:
    """The names that the packages offer to programs, and the list of all packages."""
    lines = ["# Python interface", "", "Programs use these names; each is imported from its package.", ""]
    for package in OFFERED:
        lines += [f"## From `{package}`", "", "| name | what it is |", "| --- | --- |"]
        for name, module, definition in _offered(root, package):
            page, summary = module.rpartition(".")[0], (ast.get_docstring(definition) or "").partition("\n")[0]
            lines.append(f"| [`{name}`]({page}.md#{_target(module, definition)}) | {_plain(summary)} |")
        lines.append("")
    lines += ["## All modules", "", "Modules that are not named above may change between versions.", ""]
    lines += ["| package | what is in it |", "| --- | --- |"]
    lines += [f"| [{package}]({package}.md) | {PACKAGES[package]} |" for package in modules]
    return "\n".join(lines) + "\n\n```{toctree}\n:hidden:\n" + "\n".join(modules) + "\n```\n"


def _offered(root: Path, package: str) -> Iterator[tuple[str, str, Definition]]:
    """The names that a package offers to programs, with the module of each and its definition there."""
    tree = _parsed(root, package)
    places = _imports(tree)
    for name in ast.literal_eval(next(one.value for one in tree.body if _assigns(one, "__all__"))):
        module = places[name]
        while (definition := _defined(root, module, name)) is None:  # the module itself imports it
            module = _imports(_parsed(root, module))[name]
        yield name, module, definition


def _assigns(statement: ast.stmt, name: str) -> TypeGuard[ast.Assign]:
    return isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name


def _defined(root: Path, module: str, name: str) -> Definition | None:
    """The class or function of a name in a module, None where it has none."""
    found = (one for one in _parsed(root, module).body if isinstance(one, Definition) and one.name == name)
    return next(found, None)


def _imports(tree: ast.Module) -> dict[str, str]:
    """Names that are imported from modules, with their module."""
    return {
        alias.asname or alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }


def _parsed(root: Path, module: str) -> ast.Module:
    path = root.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))


def _target(module: str, definition: Definition) -> str:
    """Label of a definition; a label does not tell capitals from small letters."""
    kind = "class" if isinstance(definition, ast.ClassDef) else "function"
    return f"{kind}-{module}.{definition.name}".replace("_", "-").replace(".", "-").lower()


class _Qualified(ast.NodeTransformer):
    """Gives the names in annotations their modules, so that they lead to the right class."""

    def __init__(self, module: str, tree: ast.Module):
        own = {one.name for one in tree.body if isinstance(one, ast.ClassDef)}
        own |= {ast.unparse(one.targets[0]) for one in tree.body if isinstance(one, ast.Assign)}
        self._places = _imports(tree) | dict.fromkeys(own, module)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A name, after the module in which it is defined, or from which it is imported."""
        place = self._places.get(node.id)
        return ast.copy_location(ast.Name(f"{place}.{node.id}", node.ctx), node) if place else node

    def signature(self, definition: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Qualify the annotations of a function."""
        arguments = definition.args
        every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
        for one in filter(None, every):
            if one.annotation is not None:
                one.annotation = self.visit(one.annotation)
        if definition.returns is not None:
            definition.returns = self.visit(definition.returns)


def _folder_page(root: Path, folder: str, files: list[Path], public: dict[tuple[str, str], str]) -> str:
    """One page: the modules of a folder; `public` has the packages that offer a module's name to programs."""
    lines = [f"# {folder}", ""]
    for path in files:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        text = ast.get_docstring(tree) or ""
        module = _module_name(root, path)
        if module == folder:
            lines += [markdown(text), ""]
            continue
        if path.stem.startswith("_") or not text:
            continue
        lines += [f"## {module}", "", f"```{{py:module}} {module}\n```", "", markdown(text), ""]
        qualified = _Qualified(module, tree)
        for definition in tree.body:
            if isinstance(definition, Definition) and not definition.name.startswith("_"):
                for one in ast.walk(definition):
                    if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                        qualified.signature(one)
                lines += _entry(module, definition, 3, public.get((module, definition.name), ""))
    return "\n".join(lines) + "\n"


def _entry(module: str, definition: Definition, depth: int, package: str = "") -> list[str]:
    """A class with its fields and methods, or a function; nothing without a docstring.

    It begins with the import by which programs have it, where a package offers it to them.
    """
    text = ast.get_docstring(definition)
    if not text:
        return []
    name = definition.name
    public = [_code(f"from {package} import {name}"), ""] if package else []
    fence = "`" * (10 - depth)
    if isinstance(definition, ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in definition.bases)
        lines = [f"({_target(module, definition)})=", f"{fence}{{py:class}} {name}", f":module: {module}", ""]
        lines += [*public, *([f"Bases: {_code(bases)}", ""] if bases else [])]
        lines += [markdown(text), "", *_fields(definition)]
        for one in definition.body:
            if isinstance(one, Definition) and not isinstance(one, ast.ClassDef) and not one.name.startswith("_"):
                lines += _method(one, depth + 1)
        return [*lines, fence, ""]
    heading = [f"({_target(module, definition)})=", f"{fence}{{py:function}} {name}{_signature(definition)}"]
    return [*heading, f":module: {module}", "", *public, markdown(text), fence, ""]


def _method(definition: ast.FunctionDef | ast.AsyncFunctionDef, depth: int) -> list[str]:
    text = ast.get_docstring(definition)
    if not text:
        return []
    fence = "`" * (10 - depth)
    decorators = {ast.unparse(one).partition("(")[0] for one in definition.decorator_list}
    if decorators & {"property", "cached_property", "functools.cached_property"}:
        returns = f"\n:type: {ast.unparse(definition.returns)}" if definition.returns else ""
        return [f"{fence}{{py:property}} {definition.name}{returns}", "", markdown(text), fence, ""]
    kind = (
        "classmethod" if "classmethod" in decorators else "staticmethod" if "staticmethod" in decorators else "method"
    )
    own = kind != "staticmethod"
    return [f"{fence}{{py:{kind}}} {definition.name}{_signature(definition, own)}", "", markdown(text), fence, ""]


def _fields(definition: ast.ClassDef) -> list[str]:
    """The fields of a class, with what is declared of them or written below them."""
    rows: list[str] = []
    following = [*definition.body[1:], None]
    for one, after in zip(definition.body, following, strict=True):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and not one.target.id.startswith("_"):
            below = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            meaning = " ".join(str(after.value.value).split()) if below else _declared(one.value)
            kind = f"{_code(one.target.id)}: {_code(ast.unparse(one.annotation))}"
            rows.append(f"- {kind}. {_plain(meaning)}" if meaning else f"- {kind}")
    return ["**Fields**", "", *rows, ""] if rows else []


def _declared(value: ast.expr | None) -> str:
    """Meaning, shape and unit of a field of a record or of parameters (haptic_sim/records.py, parameters.py)."""
    if not isinstance(value, ast.Call):
        return ""
    given = [one.value if isinstance(one, ast.Constant) else None for one in value.args]
    meaning = next((one for one in given if isinstance(one, str) and (" " in one or len(given) == 1)), "")
    shape = ", ".join(map(str, given[1:])) if ast.unparse(value.func) in ("array", "shared") else ""
    unit = next((ast.literal_eval(key.value) for key in value.keywords if key.arg == "unit"), "")
    return meaning + (f", ({shape})" if shape else "") + (f" [{unit}]" if unit else "")


def _code(text: str) -> str:
    return f"`{text}`"


def _signature(definition: ast.FunctionDef | ast.AsyncFunctionDef, own: bool = False) -> str:
    """Arguments and result, without the object itself; defaults that are long are left out."""
    arguments = definition.args
    if own:
        first = arguments.posonlyargs or arguments.args
        del first[:1]
    returns = f" -> {ast.unparse(definition.returns)}" if definition.returns else ""
    return f"({ast.unparse(arguments)}){returns}".replace("\n", " ")
