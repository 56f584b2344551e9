"""xacro: what its tags and expressions stand for, and that a file runs no code and takes bounded time and memory."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import haptic_sim
from haptic_sim.parameters import ParameterError
from haptic_sim.scenes import ModelSource
from haptic_sim.worlds.file_trees import ModelFileError
from haptic_sim.worlds.model_files import load_trees, read_document
from haptic_sim.worlds.packages import Packages
from haptic_sim.worlds.xacro import expand
from haptic_sim.worlds.xacro_expressions import Budget, ExpressionError, evaluate
from haptic_sim.worlds.xml_files import read_xml, text_of


def expanded(folder: Path, content: str, **args: Any) -> str:
    """What a document of this content stands for, as a text."""
    path = folder / "x.xacro"
    path.write_text(f'<robot xmlns:xacro="http://wiki.ros.org/xacro">{content}</robot>')
    return text_of(expand(path, read_xml(path), args, Packages(path)))


def value(text: str, **names: Any) -> Any:
    from haptic_sim.worlds.xacro_expressions import NAMES

    return evaluate(text, {**NAMES, **names}, Budget())


# Tags; the results are those of the xacro of ROS 2


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('<xacro:property name="a" value="2"/><l x="${a*3}" y="${a}0" z="$${a}"/>', '<l x="6" y="20" z="${a}" />'),
        ('<xacro:property name="a" value="${b+1}"/><xacro:property name="b" value="2"/><l x="${a}"/>', '<l x="3" />'),
        ('<xacro:property name="a" default="1"/><xacro:property name="a" default="2"/><l x="${a}"/>', '<l x="1" />'),
        ('<xacro:if value="${1 &lt; 2}"><l/></xacro:if><xacro:unless value="true"><m/></xacro:unless>', "<l />"),
        (
            '<xacro:macro name="m" params="a b:=2 *c **d"><l x="${a+b}"><xacro:insert_block name="c"/>'
            '<xacro:insert_block name="d"/></l></xacro:macro><xacro:m a="1"><o p="1"/><q><r/><s/></q></xacro:m>',
            '<l x="3"><o p="1" /><r /><s /></l>',
        ),
        (
            '<xacro:property name="b" value="7"/><xacro:macro name="m" params="b:=^|2 c:=^|2"><l x="${b}" y="${c}"/>'
            "</xacro:macro><xacro:m/>",
            '<l x="7" y="2" />',
        ),
        (
            '<xacro:macro name="m" params="n"><l x="${n}"/><xacro:if value="${n &gt; 1}"><xacro:m n="${n - 1}"/>'
            '</xacro:if></xacro:macro><xacro:m n="3"/>',
            '<l x="3" /><l x="2" /><l x="1" />',
        ),
        (
            '<xacro:macro name="m"><xacro:property name="a" value="5" scope="parent"/></xacro:macro><xacro:m/>'
            '<l x="${a}"/>',
            '<l x="5" />',
        ),
        ("<xacro:element xacro:name=\"${'li' + 'nk'}\" x=\"1\"/>", '<link x="1" />'),
        ('<l><xacro:attribute name="x" value="${2*3}"/></l>', '<l x="6" />'),
        ('<xacro:property name="b"><o/><p/></xacro:property><xacro:insert_block name="b"/>', "<o /><p />"),
        ('<xacro:macro name="m"><l/></xacro:macro><xacro:call macro="m"/>', "<l />"),
        ('<xacro:arg name="a" default="3"/><l x="$(arg a)" y="${xacro.arg(\'b\')}"/>', '<l x="3" y="4" />'),
        ('<l x="${[i * i for i in range(4) if i != 2]}"/>', '<l x="[0, 1, 9]" />'),
        ('<l x="${\'a b\'.split()[1]}" y="${dict(k=1).k}" z="${\'%.2f\' % pi}"/>', '<l x="b" y="1" z="3.14" />'),
        ('<l x="${radians(180) == pi}" y="${python.sum([1, 2])}" z="${max(1, 2.5)}"/>', '<l x="True" y="3" z="2.5" />'),
    ],
)
def test_tags_stand_for_what_xacro_says(tmp_path: Path, content: str, expected: str) -> None:
    args = {"b": "4"} if "'b'" in content else {}
    content = f'<xacro:arg name="b" default="0"/>{content}' if args else content
    assert expanded(tmp_path, content, **args) == f"<robot>{expected}</robot>"


def test_files_are_included_beside_each_other_and_names_can_be_kept_apart(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    (folder / "part.xacro").write_text(
        '<robot><xacro:property name="size" lazy_eval="false" '
        "value=\"${xacro.load_yaml('size.yaml')['wheel']['angle']}\"/>"
        '<xacro:macro name="wheel" params="n"><l n="${n}" size="${size}" dir="$(dirname)"/></xacro:macro></robot>'
    )
    (folder / "size.yaml").write_text("wheel: {angle: !degrees 180, angle2: 1, angle2: 2}\n")
    text = expanded(tmp_path, '<xacro:include filename="parts/part.xacro" ns="p"/><xacro:p.wheel n="${p.size}"/>')
    assert text == f'<robot><l n="{math.pi}" size="{math.pi}" dir="{tmp_path}" /></robot>'
    text = expanded(tmp_path, '<xacro:include filename="parts/*.xacro"/><xacro:wheel n="1"/>')
    assert 'size="' in text
    assert expanded(tmp_path, '<xacro:include filename="none.xacro" optional="true"/>') == "<robot />"


def test_arguments_reach_a_world_by_load_and_by_its_file(tmp_path: Path) -> None:
    part = '<inertial><mass value="$(arg mass)"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    (tmp_path / "a.urdf.xacro").write_text(
        '<robot name="$(arg name)" xmlns:xacro="http://wiki.ros.org/xacro"><xacro:arg name="name" default="r"/>'
        f'<xacro:arg name="mass" default="1"/><link name="base"/><link name="tip">{part}</link><joint name="j" '
        'type="continuous"><parent link="base"/><child link="tip"/><axis xyz="0 1 0"/></joint></robot>'
    )
    model = haptic_sim.load(tmp_path / "a.urdf.xacro", args={"mass": 2.5})
    assert model.pinocchio.inertias[1].mass == 2.5 and "a/tip" in model.bodies
    scene = {"files": {"f": {"path": "a.urdf.xacro", "args": {"mass": 3}}}, "tool": "f/tip"}
    assert haptic_sim.Model(scene, folder=tmp_path).pinocchio.inertias[1].mass == 3.0
    with pytest.raises(ParameterError, match=r"args\.mas: unknown; did you mean mass\? \(known: name, mass\)"):
        haptic_sim.load(tmp_path / "a.urdf.xacro", args={"mas": 3})
    (tmp_path / "b.urdf").write_text('<robot name="r"><link name="a"/></robot>')
    with pytest.raises(ModelFileError, match="args: mass: only a xacro file has arguments"):
        load_trees(ModelSource(tmp_path / "b.urdf", {"mass": 1}), None)


# Packages


def test_packages_are_found_in_given_folders_above_the_file_and_by_ament(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("given/one", "checkout_of_two/urdf", "prefix/share/three", "gazebo/four"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "checkout_of_two" / "package.xml").write_text("<package><name>two</name></package>")
    monkeypatch.setenv("AMENT_PREFIX_PATH", str(tmp_path / "prefix"))
    monkeypatch.setenv("GZ_SIM_RESOURCE_PATH", str(tmp_path / "gazebo"))
    path = tmp_path / "checkout_of_two" / "urdf" / "x.xacro"
    packages = Packages(path, [tmp_path / "given"])
    expected = ("given/one", "checkout_of_two", "prefix/share/three", "gazebo/four")
    assert [packages.find(name) for name in ("one", "two", "three", "four")] == [tmp_path / one for one in expected]
    assert packages.find("..") is None and packages.find("five") is None
    assert packages.locate("package://two/urdf") == tmp_path / "checkout_of_two" / "urdf"
    assert Packages(path, [tmp_path / "given" / "one"]).find("one") is None  # it has no package.xml: not by its name
    path.write_text('<robot name="r" xmlns:xacro="x"><l x="$(find five)"/></robot>')
    with pytest.raises(ModelFileError, match=r"\$\(find five\): there is no such package; looked for in .*packages"):
        read_document(ModelSource(path))


def test_a_mesh_of_a_package_that_is_not_there_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "x.urdf"
    path.write_text(
        '<robot name="r"><link name="a"><collision><geometry><mesh filename="package://arm/a.stl"/></geometry>'
        "</collision></link></robot>"
    )
    with pytest.raises(ModelFileError, match=r"mesh package://arm/a\.stl: there is no package arm; looked for in"):
        load_trees(path, None)
    (tmp_path / "arm").mkdir()
    with pytest.raises(ModelFileError, match=f"mesh package://arm/a.stl: is not in {tmp_path}/arm"):
        load_trees(path, None)


def test_robots_by_name_need_their_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys
    from types import ModuleType

    with pytest.raises(ParameterError, match=r"path = robot://Ur 5: Ur 5: must be a name of robot_descriptions"):
        haptic_sim.load("robot://Ur 5")
    monkeypatch.setitem(sys.modules, "robot_descriptions", None)
    with pytest.raises(ParameterError, match=r"path = robot://ur5e: robots by name need .* pip install robot_desc"):
        haptic_sim.load("robot://ur5e")
    package, one = ModuleType("robot_descriptions"), ModuleType("robot_descriptions.ur5e_description")
    path = tmp_path / "one.urdf"
    path.write_text(Path(__file__).parents[1].joinpath("examples", "arm.urdf").read_text())
    vars(one)["URDF_PATH"] = str(path)
    monkeypatch.setitem(sys.modules, "robot_descriptions", package)
    monkeypatch.setitem(sys.modules, "robot_descriptions.ur5e_description", one)
    assert "one/lower" in haptic_sim.load("robot://ur5e").bodies
    scene = {"files": {"f": {"path": "robot://ur5e_description"}}, "tool": "f/lower"}
    assert "f/lower" in haptic_sim.Model(scene).bodies


# Bad input


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('<l x="${a}"/>', r", line 1: ${a}: unknown name a"),
        ('<l x="${1 +}"/>', r"${1 +}: not an expression: invalid syntax"),
        ('<l x="${1/0}"/>', r"${1/0}: division by zero"),
        ('<l x="${1"/>', r"${1: ${ is not closed"),
        ("<xacro:m/>", "xacro:m: unknown macro"),
        ('<xacro:macro name="m" params="a"/><xacro:m/>', "xacro:m: needs the parameter a"),
        ('<xacro:macro name="m" params="a"/><xacro:m b="1"/>', "xacro:m: unknown parameter b"),
        ('<xacro:macro name="m" params="*a"/><xacro:m/>', "xacro:m: needs an element for its parameter *a"),
        ('<xacro:macro name="m"/><xacro:m><l/></xacro:m>', "xacro:m: has no parameter for the element <l>"),
        ('<xacro:macro name="m"><xacro:m/></xacro:macro><xacro:m/>', "has more than 250 nested elements and macros"),
        (
            '<xacro:macro name="m"><xacro:m/><xacro:m/></xacro:macro><xacro:m/>',
            "has more than 250 nested elements and macros",
        ),
        ('<xacro:include filename="x.xacro"/>', "xacro:include x.xacro: files include each other"),
        ('<xacro:include filename="y.xacro"/>', "y.xacro: there is no such file"),
        ('<xacro:property name="a" value="${b}"/><xacro:property name="b" value="${a}"/><l x="${a}"/>', "a -> b -> a"),
        ('<xacro:if value="maybe"/>', "maybe is maybe: must be true or false"),
        ('<l x="$(arg a)"/>', "$(arg a): not given; give it in `args`"),
        ('<l x="$(env NO_SUCH_VARIABLE)"/>', "the environment has no such variable"),
        ('<l x="$(rm)"/>', "$(rm): must be find, arg, env, optenv, dirname, cwd or eval"),
        ('<xacro:insert_block name="a"/>', "xacro:insert_block a: there is no such block"),
        ("<l x=\"${xacro.load_yaml('no.yaml')}\"/>", "no.yaml: cannot be read: No such file or directory"),
        ("<l x=\"${xacro.fatal('too', 'small')}\"/>", "too small"),
    ],
)
def test_what_cannot_be_is_refused_with_its_line(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(ModelFileError) as caught:
        expanded(tmp_path, content)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "().__class__.__bases__[0].__subclasses__()",
        "open('/etc/passwd').read()",
        "'{0.__class__}'.format(1)",
        "'{:1000000000}'.format(1)",
        "(lambda: 1)()",
        "[x for x in (1).__class__.__mro__]",
        "eval('1')",
        "exec('1')",
        "getattr(1, 'real')",
        "globals()",
        "10**10**10",
        "2**(2**40)",
        "9**9**9**9",
        "'a' * 10**9",
        "10**9 * 'a'",
        "[0] * 10**9",
        "range(10**9)",
        "'%1000000000d' % 1",
        "'%*d' % (10**9, 1)",
        "round(5, -10**9)",
        "[a for a in range(10**4) for b in range(10**4)]",
        "map(range, [10**5] * 1000)",
        "'x'.join(['y' * 1000] * 1000)",
        "sum([[1], [2]], [])",
        "(-8) ** (1/3)",
        "-" * 5000 + "1",
        "(" * 300 + "1" + ")" * 300,
        "1" + "+1" * 100,
        "'a'.replace('a', 'b' * 10)",
        "f'{1:1000000000}'",
        "{1, 2}",
        "(x := 1)",
        "x\0y",
        "b'1'",
        "1j",
        "...",
        "print('a')",
        "sorted([1, 'a'])",
        "int('9' * 5000)",
        "str(len)",
        "max",
    ],
)
def test_expressions_run_no_code_and_are_bounded(text: str, tmp_path: Path) -> None:
    if text == "max":  # a value that is no text
        with pytest.raises(ModelFileError, match="a function is not a text"):
            expanded(tmp_path, '<l x="${max}"/>')
        return
    with pytest.raises(ExpressionError):
        value(text)


def test_lists_and_texts_that_double_are_bounded(tmp_path: Path) -> None:
    doubled = "".join(f'<xacro:property name="a{k + 1}" value="${{[a{k}, a{k}]}}"/>' for k in range(60))
    with pytest.raises(ModelFileError, match="more than 100000 characters or entries"):
        expanded(tmp_path, f'<xacro:property name="a0" value="${{[1]}}"/>{doubled}<l x="${{a60 == a59}}"/>')
    texts = "".join(f'<xacro:property name="a{k + 1}" value="${{a{k}}}${{a{k}}}"/>' for k in range(60))
    with pytest.raises(ModelFileError, match=r"take more than|more than 100000"):
        expanded(tmp_path, f'<xacro:property name="a0" value="xx"/>{texts}<l x="${{a60}}"/>')


@pytest.mark.exhaustive
def test_macros_that_multiply_are_bounded(tmp_path: Path) -> None:
    macros = "".join(
        f'<xacro:macro name="m{k + 1}">{f"<xacro:m{k}/>" * 10}</xacro:macro>' for k in range(12)
    )  # 10^12 elements
    with pytest.raises(ModelFileError, match="is expanded by more than 200000 elements"):
        expanded(tmp_path, f'<xacro:macro name="m0"><l/></xacro:macro>{macros}<xacro:m12/>')
    empty = macros.replace("<l/>", "")
    with pytest.raises(ModelFileError, match="more than 200000"):
        expanded(tmp_path, f'<xacro:macro name="m0"/>{empty}<xacro:m12/>')


_NUMBERS = st.one_of(st.integers(-50, 50), st.floats(-50, 50, allow_nan=False).map(lambda x: round(x, 3)))
_EXPRESSIONS = st.recursive(
    _NUMBERS.map(lambda x: f"({x})"),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%", "<", "==", "and", "or"]), inner).map(
            lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
        ),
        st.tuples(inner, inner, inner).map(lambda parts: f"({parts[0]} if {parts[1]} else {parts[2]})"),
        st.tuples(inner, inner).map(lambda parts: f"[{parts[0]}, {parts[1]}][0]"),
        inner.map(lambda part: f"max({part}, abs({part}))"),
    ),
    max_leaves=8,
)


@given(_EXPRESSIONS)
def test_expressions_have_the_values_of_python(text: str) -> None:
    try:
        expected = eval(text, {"__builtins__": {}, "max": max, "abs": abs})
    except ZeroDivisionError:
        with pytest.raises(ExpressionError, match="division by zero"):
            value(text, abs=abs)
        return
    assert value(text, abs=abs) == expected


def test_an_argument_that_is_no_number_is_named_where_it_is_used(tmp_path: Path) -> None:
    arg = '<xacro:arg name="length" default="0.3"/><xacro:property name="l" value="$(arg length)"/>'
    with pytest.raises(ModelFileError) as caught:
        expanded(tmp_path, arg + '<link name="${l/2}"/>', length="abc")
    assert str(caught.value).endswith(
        "${l/2}: unsupported operand type(s) for /: 'str' and 'int': l is the text abc (args of the file: length = abc)"
    )


def test_where_nothing_is_known_no_empty_list_is_shown(tmp_path: Path) -> None:
    for content, said in (
        ("<xacro:nomacro/>", "xacro:nomacro: unknown macro (none is known)"),
        ('<link name="${foo}"/>', "${foo}: unknown name foo (none is known)"),
    ):
        with pytest.raises(ModelFileError) as caught:
            expanded(tmp_path, content)
        assert str(caught.value).endswith(said)


def test_a_macro_that_uses_itself_is_named(tmp_path: Path) -> None:
    content = (
        '<xacro:macro name="a"><xacro:b/></xacro:macro><xacro:macro name="b"><xacro:a/></xacro:macro>'
        '<xacro:macro name="c"><xacro:a/></xacro:macro><xacro:c/>'
    )
    with pytest.raises(ModelFileError, match=r"nested elements and macros: the macro a uses itself, by way of b$"):
        expanded(tmp_path, content)


def test_a_folder_of_packages_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.urdf"
    path.write_text('<robot name="r"><link name="l"/></robot>')
    (tmp_path / "file").write_text("")
    for name in ("gone", "file"):
        with pytest.raises(ModelFileError) as caught:
            read_document(ModelSource(path, {}, (tmp_path, tmp_path / name)))
        must = "must be a folder that has packages in it, or is one"
        assert str(caught.value) == f": packages: {tmp_path / name}: {must}"
