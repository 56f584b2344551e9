"""The wheel and the source distribution: what is in them, what the library needs, and the command without ROS 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT

from haptic_bench.catalogue import catalogue
from haptic_bench.set_up import packages, requirements
from haptic_bench.set_up.programs import this_environment
from haptic_sim.installed import PACKAGE_NAMES

LIBRARY = {bounds.module for bounds in requirements.PACKAGES.values() if not bounds.extra}
"""What `pip install haptics` brings, without extras."""
BROUGHT_BY_IT = {"_cmeel", "annotated_types", "cmeel", "cmeel_pth", "pydantic_core", "typing_extensions"}
BROUGHT_BY_IT |= {"typing_inspection", "eigenpy"}
PROGRAM = """
import sys
import sysconfig

ALLOWED = set({allowed!r}) | set(sys.stdlib_module_names)


class Refuse:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in ALLOWED and not top.startswith("_"):
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Refuse())
import haptic_sim

ball = {{"joint": "free", "mass": 0.5, "position": [0.0, 0.0, 1.0], "shapes": [{{"type": "sphere", "radius": 0.1}}]}}
floor = {{"joint": "fixed", "shapes": [{{"type": "plane"}}]}}
world = haptic_sim.World({{"tool": "ball", "bodies": {{"floor": floor, "ball": ball}}}}, rate=500.0)
world.step([0.0] * 6)
print(world.time)
refused = [name for name in ("matplotlib", "mcap", "rclpy", "sympy", "trimesh") if name in sys.modules]
assert not refused, refused
try:
    import matplotlib
except ModuleNotFoundError:
    pass
else:
    raise AssertionError("nothing was refused")
"""


def test_a_world_needs_the_packages_of_the_library_alone() -> None:
    allowed = sorted(LIBRARY | BROUGHT_BY_IT | set(PACKAGE_NAMES))
    program = [sys.executable, "-c", PROGRAM.format(allowed=allowed)]
    done = subprocess.run(program, cwd=ROOT, env=os.environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert float(done.stdout) == pytest.approx(0.002)


def test_every_file_of_a_package_is_in_the_wheel() -> None:
    """By the kinds of files that setup.py names."""
    text = (ROOT / "setup.py").read_text()
    for package in PACKAGE_NAMES:
        for path in (ROOT / package).rglob("*"):
            if path.is_file() and path.suffix not in (".py", ".pyc"):
                assert f'"**/*{path.suffix}"' in text or f'"{path.name}"' in text, path


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("sympy.printing", "sympy: needed for constraints that formulas give (the extra `formulas`), and not there: "),
        ("trimesh", "libigl, trimesh: needed for shapes that are meshes, and fields of them (the extra `meshes`), "),
        ("yaml", "pyyaml >=6.0 is needed and not there: python3 -m pip install 'pyyaml>=6.0'"),
        ("elsewhere", ""),
    ],
)
def test_what_an_extra_lacks_is_said_together(monkeypatch: pytest.MonkeyPatch, module: str, said: str) -> None:
    monkeypatch.setattr(requirements, "_found", lambda name, module: (None, ""))
    lines = requirements.lacking(module)
    assert len(lines) == bool(said) and "".join(lines).startswith(said)
    if "extra" in said:
        assert lines[0].count("'") == 2 * len(said.partition(":")[0].split(", "))


def test_nodes_start_without_what_only_some_worlds_need(monkeypatch: pytest.MonkeyPatch) -> None:
    found = requirements._found
    absent = {"libigl", "sympy", "trimesh"}
    monkeypatch.setattr(
        requirements, "_found", lambda name, module: (None, "") if name in absent else found(name, module)
    )
    requirements.check()
    absent.add("mcap")
    with pytest.raises(SystemExit, match=r"mcap >=1\.5 is needed and not there"):
        requirements.check()


def test_doctor_says_what_is_absent_without_ros_and_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings, since trials run offline; what the library needs is a problem, as is an extra that is damaged."""
    absent, damaged = [False, "ModuleNotFoundError: none"], [False, "ImportError: damaged"]
    modules = {bounds.module: [True, bounds.lowest] for bounds in requirements.PACKAGES.values()}
    modules |= {"haptics.msg": absent, "rclpy": absent, "sympy": absent, "igl": damaged, "yaml": absent}
    out = json.dumps({"python": "3.11.2", "modules": modules, "optional": []})

    class Ended:
        status, err = 0, ""

        def __init__(self, *arguments: object):
            self.out = out

        def wait(self, seconds: float) -> Ended:
            return self

    monkeypatch.setattr(packages, "Program", Ended)
    found = {one.name: one.state for one in packages.check_imports(this_environment())}
    assert {name: found[name] for name in ("rclpy", "sympy", "messages")} == dict.fromkeys(
        ("rclpy", "sympy", "messages"), "warn"
    )
    assert found["libigl"] == found["pyyaml"] == "problem"


@pytest.mark.exhaustive
def test_wheel_and_source_distribution_serve_an_empty_environment(tmp_path: Path) -> None:
    """Both are built; the wheel, and what it needs, are installed; an experiment runs in another folder.

    Skipped where the package index cannot be reached.
    """
    source = tmp_path / "source"
    listed = subprocess.run(
        "git ls-files -z -c -o --exclude-standard".split(), cwd=ROOT, capture_output=True, check=True
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        if (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            (source / name).write_bytes((ROOT / name).read_bytes())
    program = "import sys; from setuptools import build_meta as b; b.build_sdist(sys.argv[1])"
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=source, check=True, capture_output=True)
    (sdist,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        members = {name.partition("/")[2] for name in archive.getnames()}
        archive.extractall(tmp_path / "unpacked", filter="data")
    assert {"LICENSE", "README.md", "CHANGELOG.md", "package.xml", "setup.cfg", "msg/ToolState.msg"} <= members
    assert not any(name.startswith(("test/", "docs/")) for name in members)
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    program = program.replace("sdist", "wheel")
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=unpacked, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        inside = archive.namelist()
    shared = {name.partition("/share/haptics/")[2] for name in inside}
    assert {f"config/experiments/{name}.yaml" for name in catalogue()} <= shared
    assert {f"msg/{path.name}" for path in (ROOT / "msg").glob("*.msg")} <= shared
    for package in PACKAGE_NAMES:
        for path in (ROOT / package).rglob("*.py"):
            assert path.relative_to(ROOT).as_posix() in inside

    fresh = tmp_path / "fresh"
    venv.create(fresh, symlinks=True)
    uv = Path(sys.executable).with_name("uv")
    install = [str(uv), "pip", "install", "-q", "--python", str(fresh / "bin" / "python")]
    done = subprocess.run([*install, f"{wheel}[view,mujoco,bags]"], capture_output=True, text=True)
    if done.returncode and any(word in done.stderr for word in ("fetch", "connect", "dns error", "network")):
        pytest.skip(f"the package index was not reached: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    foreign = ("PYTHONPATH", "AMENT_PREFIX_PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in foreign}

    def haptics(*command: str) -> subprocess.CompletedProcess[str]:
        program = [str(fresh / "bin" / "haptics"), *command]
        return subprocess.run(program, env=environment, cwd=elsewhere, capture_output=True, text=True)

    for command in (
        "list",
        "validate incline",
        "run incline --mode offline --duration 0.05 --out trial --quiet",
        "replay trial --verify",
        "report trial",
        "run mujoco_peg --mode offline --duration 0.02 --out contact --quiet",
    ):
        done = haptics(*command.split())
        assert done.returncode == 0, command + done.stdout + done.stderr
    assert (elsewhere / "trial" / "report.html").is_file()
    for command, said in (
        ("run incline --mode realtime --out other", "--mode offline runs a trial without it"),
        ("docs", "the documentation is built in a checkout"),
        ("run rolling_disk --mode offline --out disk", "pip install 'sympy>=1.12'"),
    ):
        done = haptics(*command.split())
        assert done.returncode != 0 and said in done.stderr, command + done.stdout + done.stderr
        assert "Traceback" not in done.stderr
