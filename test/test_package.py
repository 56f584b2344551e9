"""Imported packages are those declared in package.xml, setup.py and requirements.py."""

from __future__ import annotations

import ast
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import ROOT

from haptic_bench.commands import command_line
from haptic_bench.set_up import requirements
from haptic_sim.installed import PACKAGE_NAMES

OURS = {"haptics", *PACKAGE_NAMES}
KEYS = {  # of rosdep, by the module that is imported, where they are not the same
    "llvmlite": "python3-numba",
    "pinocchio": "pinocchio",
    "transforms3d": "tf_transformations",  # wraps it, so comes with it
} | {
    name: f"python3-{name}"
    for name in (
        "hypothesis",
        "matplotlib",
        "numba",
        "numpy",
        "pydantic",
        "pytest",
        "scipy",
        "setproctitle",
        "sympy",
        "tqdm",
    )
}
KEYS["yaml"] = "python3-yaml"
OF_PIP = {"igl", "mcap", "mujoco", "rosbags", "trimesh", "zstandard"}  # no key, or one that pip installs
PART_OF = {
    "pydantic_core": "pydantic",
    "typing_extensions": "pydantic",
    "dask": "distributed",
    "PIL": "matplotlib",
    "contourpy": "matplotlib",
    "websockets": "viser",
}  # one cannot be without the other
NOT_IMPORTED = {  # run-time dependencies, with the reason
    "ros2launch": "the command `ros2 launch`",
    "rosbag2_storage_mcap": "`ros2 bag` reads our bags with it",
    "rosidl_default_runtime": "whoever exports interfaces names it",
}
IN_NO_REGISTRY = {"crtk_msgs"}  # used where somebody has built it
FOR_CMAKE = {"ament_cmake_pytest", "launch_testing_ament_cmake"}


@cache
def imported(folder: str) -> list[tuple[str, Path]]:
    """First parts of the names of what files in a folder import, without ours and the standard library's."""
    return list(_imported(folder))


def _imported(folder: str) -> Iterator[tuple[str, Path]]:
    files = sorted((ROOT / folder).rglob("*.py"))
    local = {path.stem for path in files} if folder == "test" else set()
    for path in files:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            for name in names:
                first = name.partition(".")[0]
                if first not in OURS | {"benchmarks", "campaign", "stand_ins"} | local | set(sys.stdlib_module_names):
                    yield PART_OF.get(first, first), path


def setup() -> dict[str, Any]:
    """The literal arguments of setup()."""
    tree = ast.parse((ROOT / "setup.py").read_text())
    call = next(
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setup"
    )
    literal = {}
    for keyword in call.keywords:
        try:
            literal[str(keyword.arg)] = ast.literal_eval(keyword.value)
        except ValueError:
            continue
    return literal


def names(listed: list[str]) -> set[str]:
    """Names of distributions, without their bounds."""
    return {entry.partition(">")[0].partition("=")[0] for entry in listed}


def modules(distributions: set[str]) -> set[str]:
    """What is imported of distributions."""
    known = {name: bounds.module for name, bounds in requirements.PACKAGES.items()}
    installed = {name: top for top, owners in metadata.packages_distributions().items() for name in owners}
    return {known.get(name) or installed.get(name, name) for name in distributions}


@pytest.fixture(scope="module")
def declared() -> dict[str, set[str]]:
    """Keys in package.xml by kind."""
    kinds: dict[str, set[str]] = {}
    for element in ElementTree.parse(ROOT / "package.xml").getroot():
        kinds.setdefault(element.tag, set()).add((element.text or "").strip())
    return kinds


def optional() -> set[str]:
    """Modules of setup.py's extras."""
    listed = [*setup()["extras_require"].values()]
    return modules(set().union(*map(names, listed))) - {bounds.module for bounds in requirements.PACKAGES.values()}


@pytest.mark.exhaustive
@pytest.mark.long
def test_package_xml_declares_what_runs(declared: dict[str, set[str]]) -> None:
    run = {name for folder in (*sorted(OURS - {"haptics"}), "launch") for name, _ in imported(folder)}
    needed = {KEYS.get(name, name) for name in run - optional() - OF_PIP - IN_NO_REGISTRY}
    assert declared["exec_depend"] - NOT_IMPORTED.keys() == needed - declared["depend"]
    assert declared["exec_depend"] >= NOT_IMPORTED.keys()


@pytest.mark.exhaustive
@pytest.mark.long
def test_package_xml_declares_what_is_tested_with(declared: dict[str, set[str]]) -> None:
    needed = {KEYS.get(name, name) for name, _ in imported("test") if name not in OF_PIP}
    known = declared["exec_depend"] | declared["depend"]
    of_view = {"viser", "msgspec"}  # of the extra `view`; no key is known
    of_site = {path.stem for path in (ROOT / "docs" / "extensions").glob("*.py")}
    of_exports = {"h5py", "pandas", "pyarrow", "zarr"}  # installed by the test of exports, or skipped
    assert declared["test_depend"] - FOR_CMAKE == needed - known - of_view - of_site - of_exports


def test_package_xml_declares_the_packages_of_the_messages(declared: dict[str, set[str]]) -> None:
    text = (ROOT / "CMakeLists.txt").read_text()
    named = text.partition("DEPENDENCIES ")[2].partition("\n")[0].split()
    assert declared["depend"] == set(named)


def test_setup_py_declares_what_runs_without_ros() -> None:
    ros = {"rclpy", "std_srvs", "rcl_interfaces", "diagnostic_msgs", "launch", "launch_ros", "tf_transformations"}
    ros |= {f"{name}_msgs" for name in ("geometry", "sensor", "std", "tf2", "trajectory", "visualization")}
    run = {name for folder in OURS - {"haptics"} for name, _ in imported(folder)}
    run -= ros | optional() | IN_NO_REGISTRY
    of_extras = [name for name in requirements.EXTRAS if name != requirements.ROS]
    listed = sum((setup()["extras_require"][name] for name in of_extras), setup()["install_requires"])
    assert modules(names(listed)) - optional() == run


def test_every_package_says_that_it_is_typed() -> None:
    packages = [path.parent.name for path in ROOT.glob("haptic_*/__init__.py")]
    assert sorted(packages) == sorted(PACKAGE_NAMES)
    assert all((ROOT / name / "py.typed").is_file() for name in packages)
    assert '"py.typed"' in (ROOT / "setup.py").read_text()


def test_the_citation_names_what_package_xml_names() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    package = ElementTree.parse(ROOT / "package.xml").getroot()
    assert citation["cff-version"] == "1.2.0" and citation["message"]
    assert [author["name"] for author in citation["authors"]] == [one.text for one in package.iter("maintainer")]
    for key in ("version", "license"):
        assert citation[key] == package.findtext(key)


def test_the_versions_that_are_asked_for_at_the_start_are_those_of_setup_py() -> None:
    extras = setup()["extras_require"]
    for extra in ("", *(name for name in requirements.EXTRAS if name != requirements.ROS)):
        listed = {f"{name}{bounds}" for name, bounds in requirements.PACKAGES.items() if bounds.extra == extra}
        declared = set(extras[extra] if extra else setup()["install_requires"])
        assert {one for one in declared if names([one]) & requirements.PACKAGES.keys()} == listed
        assert extra or declared == listed


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ("1.10.14", "pydantic 1.10.14 found (/usr/lib), >=2.6 needed: python3 -m pip install 'pydantic>=2.6'"),
        (None, "pydantic >=2.6 is needed and not there: python3 -m pip install 'pydantic>=2.6'"),
    ],
)
def test_what_is_lacking_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch, version: str | None, said: str) -> None:
    found = requirements._found
    monkeypatch.setattr(
        requirements,
        "_found",
        lambda name, module: (version, "/usr/lib") if name == "pydantic" else found(name, module),
    )
    assert requirements.unmet() == [said]
    with pytest.raises(SystemExit, match=f"^haptics: {said}$".replace("(", r"\(").replace(")", r"\)")):
        requirements.check()


def test_nothing_is_lacking_here() -> None:
    assert requirements.unmet() == []


def test_the_command_line_names_what_is_too_old_before_it_does_anything(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What needs no package of others is answered all the same."""
    found = requirements._found
    monkeypatch.setattr(
        requirements, "_found", lambda name, module: ("1.10.14", "/usr") if name == "pydantic" else found(name, module)
    )
    monkeypatch.setattr(command_line, "_function", lambda name: pytest.fail("was called"))
    said = "haptics: pydantic 1.10.14 found (/usr), >=2.6 needed: python3 -m pip install 'pydantic>=2.6'"
    with pytest.raises(SystemExit) as ended:
        command_line.main(["run", "corner_peg", "--out", str(tmp_path / "out")])
    assert ended.value.code == said
    assert command_line.main(["list"]) == 0


def test_the_command_line_names_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = requirements._found
    monkeypatch.setattr(
        requirements, "_found", lambda name, module: (None, "") if name == "pyyaml" else found(name, module)
    )

    def imported(name: str) -> None:
        raise ModuleNotFoundError("No module named 'yaml'", name="yaml")

    monkeypatch.setattr(command_line, "_function", imported)
    monkeypatch.setattr(sys, "prefix", "/checkout/.haptics/venv")
    assert command_line.main(["validate", "corner_peg"]) == 1
    said = (
        "haptics: pyyaml >=6.0 is needed and not there: python3 -m pip install 'pyyaml>=6.0'\n"
        "haptics: if the environment of the checkout is damaged: remove /checkout/.haptics/venv and start again\n"
    )
    assert capsys.readouterr().err == said
