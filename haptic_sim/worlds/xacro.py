"""xacro: macros over XML files, expanded without running their Python.

All tags of ROS 2's xacro are understood: `xacro:property` (value, default, block, scope, lazy), `arg`, `include` (with
a namespace, too), `macro` (parameters with defaults, `^`, blocks), `call`, `insert_block`, `if`, `unless`, `element`
and `attribute`; and the substitutions `${expression}`, `$(find PACKAGE)`, `$(arg NAME)`, `$(env NAME)`,
`$(optenv NAME DEFAULT)`, `$(dirname)`, `$(cwd)` and `$(eval expression)`. Expressions are those of
`haptic_sim.worlds.xacro_expressions`.
"""

from __future__ import annotations

import contextlib
import glob
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from haptic_sim.inputs import InputError, check_path, read_text, read_yaml, shown
from haptic_sim.parameters import did_you_mean, listed
from haptic_sim.worlds.file_trees import ModelFileError
from haptic_sim.worlds.packages import Packages
from haptic_sim.worlds.xacro_expressions import NAMES, Budget, ExpressionError, Namespace, OperandError, evaluate
from haptic_sim.worlds.xml_files import INCLUDES, MOST_ELEMENTS, MOST_FILES, Element, at, read_xml

PREFIX = "xacro:"
NESTED = 250  # nested elements and macros
UNITS = {
    "!radians": 1.0,
    "!degrees": math.pi / 180.0,
    "!meters": 1.0,
    "!millimeters": 1e-3,
    "!foot": 0.3048,
    "!inches": 0.0254,
}
"""Tags of numbers in YAML files, and what these are multiplied by."""
_TOKEN = re.compile(r"(\$\$+)([{(])|\$\{([^}]*)\}|\$\(([^)]*)\)|([^$]+|\$)", re.DOTALL)
_DEFAULT = r"\$\{.*?\}|\$\(.*?\)|(?:'.*?'|\".*?\"|[^\s'\"]+)+|"
_PARAMETER = re.compile(rf"\s*([^\s:=]+?)\s*:?=\s*(\^\|?)?({_DEFAULT})(?:\s+|$)(.*)", re.DOTALL)


def is_xacro(path: Path, root: Element) -> bool:
    """Whether a document is one of xacro."""
    return path.suffix == ".xacro" or any(str(element.tag).startswith(PREFIX) for element in root.iter())


def expand(path: Path, root: Element, args: Mapping[str, Any], packages: Packages) -> Element:
    """The document that a xacro file stands for.

    Args:
        path: of the file.
        root: of its document.
        args: values of its `xacro:arg`.
        packages: finds the packages that it names.

    Raises:
        ModelFileError: it cannot be expanded; names file and line.
    """
    return _Expansion(path, args, packages).document(root)


class _MissingError(ExpressionError):
    """A file or an argument is missing, which another argument may provide."""


class _Scope(dict[str, Any]):
    """Names with their values, and those of the scope outside; properties are evaluated when they are first used."""

    def __init__(self, expansion: _Expansion, outside: _Scope | None = None, *, namespace: bool = False):
        super().__init__()
        self._expansion, self.outside, self.namespace = expansion, outside, namespace
        self._lazy: set[str] = set()

    def __contains__(self, name: object) -> bool:
        if super().__contains__(name):
            return True
        return name in NAMES or name == "xacro" if self.outside is None else name in self.outside

    def __iter__(self) -> Iterator[str]:
        yield from (name for name in super().__iter__() if not name.startswith("*"))
        yield from () if self.outside is None else self.outside

    def __getitem__(self, name: str) -> Any:
        if not super().__contains__(name):
            if self.outside is not None:
                return self.outside[name]
            return self._expansion.functions if name == "xacro" else NAMES[name]
        value = super().__getitem__(name)
        if name in self._lazy:
            with self._expansion.resolving(name):
                value = _literal(self._expansion.text(value, self))
            super().__setitem__(name, value)
            self._lazy.discard(name)
        return value

    def set(self, name: str, value: Any, *, lazy: bool = False) -> None:
        """Give a name a value, or a text that is evaluated when it is first used."""
        value = _literal(value)
        super().__setitem__(name, value)
        self._lazy.discard(name)
        if lazy and isinstance(value, str):
            self._lazy.add(name)

    def remove(self, name: str) -> None:
        """Take a name out of this scope and those outside."""
        self.pop(name, None)
        if self.outside is not None:
            self.outside.remove(name)

    def top(self) -> _Scope:
        """The outermost scope."""
        return self if self.outside is None else self.outside.top()

    def caller(self) -> _Scope | None:
        """The scope of what called the macro of this one."""
        scope = self.outside
        while not self.namespace and scope is not None and scope.namespace:
            scope = scope.outside
        return scope


@dataclass
class _Macro:
    """Macro: its element and its parameters, each with whether the caller's value is taken, and its default."""

    body: Element
    parameters: dict[str, tuple[bool, str | None]]


@dataclass
class _Names:
    """Names known at a place of a document: properties, macros, and included files with names of their own."""

    properties: _Scope
    macros: dict[str, _Macro]
    spaces: dict[str, _Names] = field(default_factory=dict)

    def inner(self) -> _Names:
        """Names of the content of a macro: it can use those around it, and add its own."""
        return _Names(_Scope(self.properties._expansion, self.properties), dict(self.macros), dict(self.spaces))

    def macro(self, name: str) -> tuple[_Macro, _Names] | None:
        """A macro and the names that it is expanded in; None if there is none."""
        if name in self.macros:
            return self.macros[name], self
        space, _, rest = name.partition(".")
        return self.spaces[space].macro(rest) if rest and space in self.spaces else None


class _Expansion:
    """Goes through the elements of a document and makes those that they stand for."""

    def __init__(self, path: Path, args: Mapping[str, Any], packages: Packages):
        self._packages = packages
        self._args = {name: _written(value) for name, value in args.items()}
        self._given, self._declared = set(args), dict[str, str]()
        self._budget, self._files, self._read, self._made, self._depth = Budget(), [path], 0, 0, 0
        self._resolving: list[str] = []
        self._calls: list[str] = []  # macros that are being expanded, from the outside in
        self._here: Element | None = None
        self.functions = Namespace(
            load_yaml=self._load_yaml,
            abs_filename=lambda name: str(self._beside(name)),
            dotify=lambda value: value,
            arg=self._arg,
            tokenize=lambda text, sep=",; ", skip_empty=True: [
                part for part in re.split(f"[{re.escape(sep)}]", text) if part or not skip_empty
            ],
            fatal=self._fatal,
            **dict.fromkeys(("message", "warning", "error", "print_location"), lambda *texts, **how: ""),
        )

    def document(self, root: Element) -> Element:
        """The document of the file."""
        try:
            names = _Names(_Scope(self), {})
            made = self._element(root, names, last=True)  # its attributes use arguments that its content declares
        except ExpressionError as error:
            self._refuse(str(error), error, args=isinstance(error, _MissingError))
        except RecursionError as error:
            self._refuse("is too deep", error)
        if unknown := self._unknown():
            raise ModelFileError(*unknown)
        return made

    def _refuse(self, problem: str, cause: BaseException | None = None, *, args: bool = False) -> NoReturn:
        """Raise an error at the element that is being expanded, which may come from wrong `args`."""
        where = at(self._here) if self._here is not None else ": "
        known = listed([f"{name} = {value}" if len(value) < 30 else name for name, value in self._declared.items()], 12)
        raise ModelFileError(
            *(self._unknown() if args else ()),
            f"{where}{problem}{f' (args of the file: {known})' if args and known else ''}",
        ) from cause

    def _unknown(self) -> list[str]:
        """A line for each argument that the file has not declared."""
        names = sorted(self._given - self._declared.keys())
        return [f": args.{name}: unknown{did_you_mean(name, list(self._declared))}" for name in names]

    def _fatal(self, *texts: Any) -> NoReturn:
        raise ExpressionError(" ".join(map(str, texts)))

    # Elements

    def _element(self, source: Element, names: _Names, tag: str = "", *, last: bool = False) -> Element:
        """An element that is none of xacro's, its attributes evaluated before its content or `last`."""
        made = Element(tag or source.tag)
        made.line, made.file = source.line, source.file
        if last:
            self._content(source, names, made)
        self._here = source
        for key, value in source.attrib.items():
            if not key.startswith((PREFIX, "xmlns:xacro")):
                made.set(key, _written(self.text(value, names.properties)))
        if source.text and source.text.strip():
            made.text = _written(self.text(source.text, names.properties))
        if not last:
            self._content(source, names, made)
        return made

    def _content(self, source: Element, names: _Names, made: Element) -> None:
        """Append what the elements in `source` stand for to `made`."""
        self._depth += 1
        if self._depth > NESTED:
            self._refuse(f"has more than {NESTED} nested elements and macros{self._recursion()}")
        for child in source:
            assert isinstance(child, Element)
            self._here = child
            self._made += 1
            if self._made > MOST_ELEMENTS:
                self._refuse(f"is expanded by more than {MOST_ELEMENTS} elements and macros")
            tag = str(child.tag)
            if tag.startswith(PREFIX):
                self._directive(child, tag.removeprefix(PREFIX), names, made)
            else:
                made.append(self._element(child, names))
        self._depth -= 1

    def _recursion(self) -> str:
        """Text that names a macro which uses itself, and by way of which others; empty if none does."""
        last = self._calls[-1] if self._calls else ""
        before = [i for i, name in enumerate(self._calls) if name == last]
        if len(before) < 2:
            return ""
        circle = self._calls[before[-2] : before[-1]]
        first = min(circle, key=self._calls.index)
        others = [name for name in circle if name != first]
        return f": the macro {first} uses itself" + (f", by way of {listed(others, 8)}" if others else "")

    def _directive(self, child: Element, name: str, names: _Names, made: Element) -> None:
        match name:
            case "property":
                self._property(child, names.properties)
            case "arg":
                self._declare(child, names.properties)
            case "macro":
                self._macro(child, names)
            case "include":
                self._include(child, names, made)
            case "insert_block":
                self._insert(child, names, made)
            case "if" | "unless":
                if self._truth(self._needed(child, "value"), names.properties) is (name == "if"):
                    self._content(child, names, made)
            case "element":
                tag = _written(self.text(self._needed(child, "xacro:name"), names.properties))
                if not re.fullmatch(r"[A-Za-z_][\w.:-]*", tag):
                    self._refuse(f"xacro:element: {shown(tag)} is not a name of an element")
                made.append(self._element(child, names, tag))
            case "attribute":
                key, value = (self.text(self._needed(child, key), names.properties) for key in ("name", "value"))
                made.set(_written(key), _written(value))
            case "call":
                called = _written(self.text(self._needed(child, "macro"), names.properties))
                self._call(child, called.removeprefix(PREFIX), names, made, ("macro",))
            case _:
                self._call(child, name, names, made)

    def _needed(self, element: Element, key: str) -> str:
        if (value := element.get(key)) is None:
            self._refuse(f"<{element.tag}> needs {key}")
        return value

    def _truth(self, text: str, scope: _Scope) -> bool:
        value = self.text(text, scope)
        if not isinstance(value, str):
            return bool(value)
        if value.lower() in ("true", "false"):
            return value.lower() == "true"
        with contextlib.suppress(ValueError):
            return bool(int(value))
        self._refuse(f"{shown(text)} is {shown(value)}: must be true or false")

    def _property(self, element: Element, scope: _Scope) -> None:
        name = _written(self.text(self._needed(element, "name"), scope))
        if not name.isidentifier() or name.startswith("__"):
            self._refuse(f"xacro:property {shown(name)}: must be named by letters, digits and _")
        value, default = element.get("value"), element.get("default")
        if self._truth(element.get("remove", "false"), scope):
            scope.remove(name)
            return
        if value is None and default is not None:
            if name in scope:
                return
            value = default
        block = value is None
        lazy = not block and self._truth(element.get("lazy_eval", "true"), scope)
        target: _Scope | None = scope
        if place := element.get("scope"):
            target, lazy = scope.top() if place == "global" else scope.caller(), False
            if place not in ("global", "parent"):
                self._refuse(f"xacro:property {name}: scope = {shown(place)}: must be parent or global")
        if target is None:
            return  # there is no scope outside
        if value is None:
            target.set(f"**{name}", element)
        else:
            target.set(name, value if lazy else self.text(value, scope), lazy=lazy)

    def _declare(self, element: Element, scope: _Scope) -> None:
        name = self._needed(element, "name")
        if name not in self._args:
            if (default := element.get("default")) is None:
                self._declared.setdefault(name, "(to be given)")
                return
            self._args[name] = _written(self.text(default, scope))
        self._declared[name] = self._args[name]

    def _macro(self, element: Element, names: _Names) -> None:
        name, rest = self._needed(element, "name").removeprefix(PREFIX), element.get("params", "").strip()
        parameters: dict[str, tuple[bool, str | None]] = {}
        while rest:
            if match := _PARAMETER.match(rest):
                parameters[match[1]], rest = (bool(match[2]), match[3] or None), match[4].strip()
            else:
                parameter, *others = rest.split(None, 1)
                parameters[parameter], rest = (False, None), "".join(others)
        names.macros[name] = _Macro(element, parameters)

    def _call(self, element: Element, name: str, names: _Names, made: Element, leave_out: tuple[str, ...] = ()) -> None:
        """Append what a macro stands for."""
        found = names.macro(name)
        if found is None:
            self._refuse(f"xacro:{shown(name)}: unknown macro{did_you_mean(name, list(names.macros), 8)}")
        macro, around = found
        inner = around.inner()
        missing = dict(macro.parameters)
        for key, value in element.attrib.items():
            if key in leave_out:
                continue
            if key not in missing:
                self._refuse(f"xacro:{name}: unknown parameter {key}{did_you_mean(key, list(macro.parameters))}")
            del missing[key]
            inner.properties.set(key, self.text(value, names.properties))
        holder = Element(element.tag)
        holder.line, holder.file = element.line, element.file
        self._content(element, names, holder)
        blocks = list(holder)
        for key in [key for key in missing if key.startswith("*")]:
            if not blocks:
                self._refuse(f"xacro:{name}: needs an element for its parameter {key}")
            inner.properties.set(key, blocks.pop(0))
            del missing[key]
        if blocks:
            self._refuse(f"xacro:{name}: has no parameter for the element <{blocks[0].tag}>")
        for key, (forward, text) in missing.items():
            if forward and key in names.properties:
                inner.properties.set(key, names.properties[key])
            elif text is None:
                self._refuse(f"xacro:{name}: needs the parameter {key}")
            else:
                inner.properties.set(key, self.text(text, names.properties))
        self._calls.append(name)
        self._content(macro.body, inner, made)
        self._calls.pop()
        self._here = element

    def _insert(self, element: Element, names: _Names, made: Element) -> None:
        name = self._needed(element, "name")
        for key in (f"**{name}", f"*{name}"):
            if key in names.properties:
                block = names.properties[key]
                if key.startswith("**"):
                    self._content(block, names, made)
                else:
                    made.append(self._element(block, names))
                return
        self._refuse(f"xacro:insert_block {shown(name)}: there is no such block")

    # Files

    def _include(self, element: Element, names: _Names, made: Element) -> None:
        given = _written(self.text(self._needed(element, "filename"), names.properties))
        path, optional = self._beside(given), self._truth(element.get("optional", "false"), names.properties)
        paths = [Path(found) for found in sorted(glob.glob(str(path)))] if re.search("[*[?]", given) else [path]
        if space := element.get("ns"):
            space = _written(self.text(space, names.properties))
            inside = _Names(_Scope(self, names.properties, namespace=True), {})
            names.spaces[space] = inside
            names.properties.set(space, inside.properties)
        else:
            inside = names
        for one in paths:
            if len(self._files) > INCLUDES or any(_same(one, other) for other in self._files):
                self._refuse(f"xacro:include {shown(given)}: files include each other")
            self._read += 1
            if self._read > MOST_FILES:
                self._refuse(f"xacro:include: more than {MOST_FILES} files")
            if not one.exists():
                if optional:
                    continue
                self._refuse(f"xacro:include {shown(str(one))}: there is no such file", args=True)
            try:
                root = read_xml(one, str(one))
            except ModelFileError as error:
                self._refuse(f"xacro:include {one}{error}", error)
            self._files.append(one)
            self._content(root, inside, made)
            self._files.pop()
            self._here = element

    def _beside(self, name: str) -> Path:
        """A file that the current one names."""
        try:
            return check_path(os.path.join(self._files[-1].parent, name))
        except InputError as error:
            raise ExpressionError(f"the path {shown(name)}: {error}") from error

    def _load_yaml(self, name: str) -> Any:
        path = self._beside(_written(name))

        def unit(factor: float) -> Any:
            return lambda text: float(evaluate(text, NAMES, self._budget)) * factor

        try:
            return read_yaml(read_text(path), {tag: unit(factor) for tag, factor in UNITS.items()}, repeated=True)
        except InputError as error:
            raise _MissingError(f"load_yaml {path}: {error}") from error

    def _arg(self, name: str) -> str:
        if name not in self._args:
            raise _MissingError(f"$(arg {shown(name)}): not given; give it in `args`, as {{{shown(name)}: ...}}")
        return self._args[name]

    # Texts

    def text(self, text: str, scope: _Scope) -> Any:
        """The value of a text with its substitutions: typed, if it is a single one."""
        if "$" not in text:
            return text
        parts: list[Any] = []
        for match in _TOKEN.finditer(text):
            dollars, brace, expression, extension, plain = match.groups()
            if dollars is not None:
                parts.append(dollars[1:] + brace)
            elif expression is not None:
                parts.append(self._value(_written(self.text(expression, scope)), scope))
            elif extension is not None:
                parts.append(self._substitution(_written(self.text(extension, scope)), scope))
            elif plain == "$" and text[match.end() :][:1] in ("{", "("):
                self._refuse(f"{shown(text, 100)}: ${text[match.end()]} is not closed")
            else:
                parts.append(plain)
        if len(parts) == 1:
            return parts[0]
        whole = "".join(map(_written, parts))
        self._budget.spend(len(whole))
        return whole

    def _value(self, expression: str, scope: _Scope) -> Any:
        try:
            return evaluate(expression, scope, self._budget)
        except ExpressionError as error:
            by_args = isinstance(error, _MissingError | OperandError)
            self._refuse(f"${{{shown(expression, 100)}}}: {error}", error, args=by_args)

    def _substitution(self, text: str, scope: _Scope) -> Any:
        kind, _, rest = text.strip().partition(" ")
        rest = rest.strip()
        match kind:
            case "arg":
                return self._arg(rest)
            case "find":
                if (folder := self._packages.find(rest)) is None:
                    self._refuse(f"$(find {shown(rest)}): there is no such package; {self._packages.searched()}")
                return str(folder)
            case "dirname":
                return str(self._files[-1].parent)
            case "cwd":
                return os.getcwd()
            case "env" | "optenv":
                name, _, default = rest.partition(" ")
                if name not in os.environ and kind == "env":
                    self._refuse(f"$(env {shown(name)}): the environment has no such variable")
                return os.environ.get(name, default.strip())
            case "eval":
                inner = _Scope(self, scope)
                for name, value in {**self._args, "arg": self._arg}.items():
                    inner.set(name, value)
                return self._value(rest, inner)
        self._refuse(f"$({shown(text, 60)}): must be find, arg, env, optenv, dirname, cwd or eval")

    @contextmanager
    def resolving(self, name: str) -> Iterator[None]:
        """While the value of a property is found."""
        if name in self._resolving:
            chain = " -> ".join([*self._resolving[self._resolving.index(name) :], name])
            self._refuse(f"properties depend on each other: {chain}")
        self._resolving.append(name)
        yield
        self._resolving.pop()


def _same(one: Path, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _written(value: Any) -> str:
    """A value as a text in a document."""
    if isinstance(value, Element) or callable(value):
        raise ExpressionError("a block or a function is not a text")
    return str(value)


def _literal(value: Any) -> Any:
    """A text that is a number or a truth value as such; quotes around a text keep it a text."""
    if not isinstance(value, str):
        return value
    if len(value) >= 2 and value[0] == value[-1] == "'":
        return value[1:-1]
    if "_" in value or len(value) > 400:
        return value
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(value)
    return {"true": True, "True": True, "false": False, "False": False}.get(value, value)
