"""Parts of other packages: registered, listed, run, replayed, and refused as ours are."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from conftest import ROOT, Haptics, answer

from haptic_bench import experiment, run
from haptic_bench.commands import command_line
from haptic_bench.commands.command_line import KINDS
from haptic_bench.recording.samples import MessageStore
from haptic_bench.replay.resimulation import resimulate
from haptic_bench.running.offline import simulate
from haptic_control.parameters import CONTROLLERS, ControllerParameters
from haptic_drivers.hardware import HardwareDeviceParameters
from haptic_drivers.parameters import AnyDeviceParameters, DeviceContext
from haptic_robot.adapters import ADAPTERS
from haptic_sim import parts
from haptic_sim.messages import FORCE, DeviceCommand
from haptic_sim.parameters import ParameterError, Parameters

OWN = ROOT / "examples" / "own_parts"
SPRING = "lab_parts.controller:SaturatingSpringParameters"
WALL = str(OWN / "own_wall.yaml")


def install(folder: Path, name: str = "lab_parts", version: str = "0.1.0", more: str = "") -> Path:
    """The example package in a folder, as pip leaves it: its modules, and the metadata that say what it registers."""
    shutil.copytree(OWN / "lab_parts", folder / "lab_parts", dirs_exist_ok=True)
    lines: list[str] = []
    for line in (OWN / "pyproject.toml").read_text().partition('[project.entry-points."')[2].splitlines():
        group = line.removeprefix('[project.entry-points."').removesuffix('"]')
        lines.append(f"[{group}]" if line.endswith("]") else line.replace('"', ""))
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "RECORD").write_text("lab_parts/__init__.py,,\n")
    (info / "entry_points.txt").write_text("\n".join(lines) + more)
    return folder


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process: what is registered is read again."""
    parts._all_registered.cache_clear()
    for group in parts.groups().values():
        monkeypatch.setattr(group, "_loaded", {})
    for module in [name for name in sys.modules if name.partition(".")[0] == "lab_parts"]:
        monkeypatch.delitem(sys.modules, module)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the example package, which is found as one on PYTHONPATH is."""
    folder = install(tmp_path / "packages")
    monkeypatch.setenv(parts.USERS_PATH, str(folder))
    monkeypatch.setattr(sys, "path", [*sys.path])
    forget(monkeypatch)
    yield folder
    parts._all_registered.cache_clear()


class FurtherDevice(Parameters):
    """A section with a device."""

    device: AnyDeviceParameters


def document(**changes: Any) -> dict[str, Any]:
    return yaml.safe_load(Path(WALL).read_text()) | {"name": "own_wall", "duration": 0.05} | changes


def problem(**changes: Any) -> str:
    with pytest.raises(ParameterError) as error:
        experiment.load_document(document(**changes), Path(WALL))
    return str(error.value)


def test_the_kinds_of_the_command_line_are_those_that_are_declared() -> None:
    assert set(KINDS) == parts.groups().keys() | {ADAPTERS.name}


def test_every_part_of_this_package_is_registered_and_can_be_loaded() -> None:
    for group in parts.groups().values():
        entries = group.entries()
        assert entries and {one.package for one in entries.values()} == {"haptics"}
        for name in entries:
            assert group.load(name)


def test_every_class_of_a_kind_is_registered() -> None:
    for group in parts.groups().values():
        if not isinstance(group, parts.Kind):
            continue
        for name in group.entries():
            group.find(name)
        registered = {group.find(name) for name in group.entries()}
        concrete = {one for one in _below(group.base) if "type" in vars(one).get("__annotations__", {})}
        ours = {one for one in concrete if one.__module__.startswith("haptic_")}
        assert {one for one in ours if not one.__name__.startswith("_")} == registered  # `_`: of objects of a program


def _below(base: type) -> Iterator[type]:
    for one in base.__subclasses__():
        yield one
        yield from _below(one)


def test_setup_cfg_is_what_setuptools_reads_of_it() -> None:
    read = pytest.importorskip("setuptools.config.setupcfg").read_configuration(ROOT / "setup.cfg")
    groups = read["options"]["entry_points"]
    found: dict[str, dict[str, str]] = {}
    for group, entry in parts._of_checkout():
        found.setdefault(group, {})[entry.name] = entry.value
    wanted = {
        group: dict(map(str.strip, line.split("=")) for line in lines)  # type: ignore[misc]
        for group, lines in groups.items()
        if group.startswith("haptics.")
    }
    assert found == wanted
    assert {one.version for _, one in parts._of_checkout()} == {read["metadata"]["version"]}


def test_a_part_of_another_package_is_found_by_its_name(installed: Path) -> None:
    entry = CONTROLLERS.entries()["saturating_spring"]
    assert entry == ("saturating_spring", SPRING, "lab_parts", "0.1.0")
    (trial,) = experiment.load_document(document(), Path(WALL))
    assert trial.experiment.packages == {"lab_parts": "0.1.0"}
    assert type(trial.experiment.controller).__name__ == "SaturatingSpringParameters"
    assert trial.experiment.model_dump(mode="json")["controller"]["type"] == "saturating_spring"


@pytest.mark.exhaustive
def test_a_class_needs_no_registration(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(next(installed.glob("*.dist-info")))
    forget(monkeypatch)
    assert "saturating_spring" not in CONTROLLERS.entries()
    changes = {
        "controller": {"type": SPRING},
        "operator": {"type": "lab_parts.operator:RampParameters", "force": [1, 0, 0]},
        "device": {"type": "lab_parts.device:StageParameters"},
        "scene": {"type": "lab_parts.scene:BallBeforeWallParameters"},
        "local_model": {"type": "lab_parts.local_model:SpringPlaneParameters"},
        "contact": {"friction": {"model": "lab_parts.friction:StribeckParameters"}},
        "environment": {"method": "lab_parts.contact_method:SoftContactParameters"},
        "analysis": "lab_parts.analysis:ANALYSIS",
    }
    (trial,) = experiment.load_document(document(**changes), Path(WALL))
    dumped = trial.experiment.model_dump(mode="json")
    assert dumped["controller"]["type"] == SPRING and dumped["analysis"] == "lab_parts.analysis:ANALYSIS"
    assert trial.experiment.packages == {"lab_parts": ""}
    again = experiment.load_document(dumped, Path(WALL))[0].experiment
    assert again == trial.experiment


def test_nodes_find_a_class_without_registration(
    haptics: Callable[..., Haptics], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = install(tmp_path / "packages")
    shutil.rmtree(next(folder.glob("*.dist-info")))
    monkeypatch.setenv("HAPTICS_PYTHONPATH", str(folder))
    changes = {
        "duration": 0.01,
        "controller": {"type": SPRING},
        "operator": {"type": "lab_parts.operator:RampParameters", "force": [1, 0, 0]},
        "device": {"type": "lab_parts.device:StageParameters"},
        "scene": {"type": "lab_parts.scene:BallBeforeWallParameters"},
        "contact": {},
        "analysis": "trial",
    }
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(document(**changes)))
    run = haptics("run", str(tmp_path / "own.yaml"), "--mode", "lockstep", "--out", str(tmp_path / "trial"))
    assert run.wait() == 0, run.err


@pytest.mark.parametrize(
    ("controller", "said"),
    [
        ({"stifness": 3}, "controller.stifness: unknown key; did you mean stiffness?"),
        ({"stiffness": -3}, "controller.stiffness = -3 N/m: must be > 0 N/m"),
        ({"stiffness": 1e7}, "controller.stiffness = 1e+07 N/m, controller.damping = 20 N s/m: the sampled loop"),
        ({"type": "saturating_sprin"}, "controller.type = saturating_sprin: must be one of 'four_channel'"),
        ({"type": "nowhere:X"}, "controller.type = nowhere:X: nowhere:X cannot be imported: ModuleNotFoundError"),
        ({"type": "os:getcwd"}, "is not one of the controllers; must be derived from haptic_control.parameters"),
        ({"type": 3}, "controller.type = 3: must be one of"),
    ],
)
def test_wrong_keys_are_refused_as_ours_are(installed: Path, controller: dict[str, Any], said: str) -> None:
    assert said in problem(controller={"type": "saturating_spring"} | controller)


@pytest.mark.parametrize(
    ("device", "said"),
    [
        ({"mas": [1, 1, 1]}, "device.mas: unknown key; did you mean mass?"),
        ({"mass": [1, 0, 1]}, "device.mass[1] = 0: must be > 0"),
        ({"offset": [1, 2]}, ""),
        ({"mass": [1e-3, 1, 1]}, "the sampled loop at rate = 1000 Hz diverges"),
        (
            {"type": "stag"},
            "device.type = stag: must be one of 'inertial', 'admittance', 'pantograph', 'hardware', 'external'",
        ),
    ],
)
def test_wrong_keys_of_a_device_are_refused_as_ours_are(installed: Path, device: dict[str, Any], said: str) -> None:
    changed = {"type": "stage"} | device
    if said:
        assert said in problem(device=changed)
    else:
        assert experiment.load_document(document(device=changed), Path(WALL))


def test_the_stage_follows_its_closed_form_and_every_limit_holds_for_it(installed: Path) -> None:
    """Along x: m dv/dt = F - b v, with v = F/b (1 - (1 + T b/m)^-k) after k implicit steps from rest."""
    (trial,) = experiment.load_document(document(), Path(WALL))
    device = trial.experiment.device
    assert device.limits is device and len(device.wrench_limit) == 6
    built = device.build(DeviceContext(1000.0, trial.hand)).device
    push, command = np.array([1.0, -2.0, 0.5, 0.1, 0.2, 0.3]), DeviceCommand()
    command.mode = FORCE
    for _ in range(400):
        assert built.apply_command(command, push, 1e-3) == 0
    velocity = push[:3] / device.damping * (1.0 - (1.0 + 1e-3 * device.damping / np.array(device.mass)) ** -400)
    assert built.twist == pytest.approx([*velocity, 0, 0, 0], rel=1e-9)
    command.wrench[:] = 100.0
    assert built.apply_command(command, push, 1e-3) == 1
    assert built.rendered == pytest.approx(device.wrench_limit)


def test_a_package_is_written_that_is_the_example_under_another_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command_line.main(["new", "my_parts"]) == 0
    written = {str(path.relative_to(tmp_path / "my_parts")) for path in (tmp_path / "my_parts").rglob("*.*")}
    known = {str(path.relative_to(OWN)) for path in OWN.rglob("*.*") if "__pycache__" not in path.parts}
    assert {name.replace("my_parts", "lab_parts") for name in written} == known
    for name in written:
        text = (tmp_path / "my_parts" / name).read_text()
        assert "lab_parts" not in text
        assert text.replace("my_parts", "lab_parts") == (OWN / name.replace("my_parts", "lab_parts")).read_text()
    assert command_line.main(["new", "my_parts"]) == 2
    assert command_line.main(["new", "my-parts"]) == 2
    said = capsys.readouterr().err
    assert "package my_parts: File exists; choose another name or folder" in said
    assert "package my-parts: must be a name of Python, as my_parts" in said


def test_two_packages_of_one_name_are_named(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = "\n[haptics.controllers]\nsaturating_spring = elsewhere:Other\n"
    other = installed / "other_parts-2.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other_parts\nVersion: 2.0\n")
    (other / "entry_points.txt").write_text(more)
    forget(monkeypatch)
    said = problem()
    assert all(part in said for part in ("lab_parts as " + SPRING, "other_parts as elsewhere:Other", "uninstall"))


def test_a_part_that_cannot_be_imported_is_an_error_where_it_is_used(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (installed / "lab_parts" / "operator.py").write_text("raise RuntimeError('no licence')\n")
    forget(monkeypatch)
    assert "lab_parts.operator:RampParameters cannot be imported: RuntimeError: no licence" in problem()
    push = {"type": "constant", "wrench": [1, 0, 0, 0, 0, 0]}
    assert experiment.load_document(document(operator=push), Path(WALL))


def test_a_machine_without_memory_is_no_fault_of_a_part(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (installed / "lab_parts" / "operator.py").write_text("raise MemoryError\n")
    forget(monkeypatch)
    with pytest.raises(MemoryError):
        problem()


def test_a_name_that_is_not_the_type_is_refused(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = next(installed.glob("*.dist-info")) / "entry_points.txt"
    points.write_text(f"[haptics.controllers]\nspring = {SPRING}\n")
    forget(monkeypatch)
    said = problem(controller={"type": "spring"})
    assert "has type = saturating_spring; must be spring, the name by which it is registered" in said


def test_a_controller_that_builds_none_is_said() -> None:
    class NothingParameters(ControllerParameters):
        type: str = "nothing"

    with pytest.raises(TypeError, match="is not a controller"):
        NothingParameters().build(1000.0)


def test_the_package_of_a_driver_of_hardware_is_recorded(installed: Path) -> None:
    data = yaml.safe_load((ROOT / "config" / "devices" / "haply_2diy.yaml").read_text())
    for module, packages in (("haply_2diy", {}), ("lab_parts.device", {"lab_parts": "0.1.0"})):
        device = HardwareDeviceParameters.model_validate(data | {"name": "mine", "type": "hardware", "module": module})
        assert parts.packages_of(FurtherDevice(device=device)) == packages


@pytest.mark.exhaustive
def test_a_local_model_of_another_package_is_verified_message_by_message(installed: Path) -> None:
    """Simulated again from the recorded inputs: the same bits; and its wrench is that of the spring."""
    changes = {"environment": {"rate": 60}, "local_model": {"type": "spring_plane", "stiffness": 2000}}
    (trial,) = experiment.load_document(document(duration=0.3, **changes), Path(WALL))
    trial, store = trial.in_mode("offline"), MessageStore()
    simulate(trial, store)
    verdict = resimulate(trial, store.messages, whole=True)
    assert verdict.compared > 1000 and not verdict.difference and not verdict.unverified
    state, most = trial.tool_sizes.tool_state(), 0.0
    for data in store.messages["tool_state"]:
        state.load(data)
        most = max(most, -state.wrench[0])
    assert most > 0.5


@pytest.mark.exhaustive
@pytest.mark.long
def test_a_package_of_parts_runs_in_every_mode_and_is_replayed(
    haptics: Callable[..., Haptics], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = install(tmp_path / "packages")
    monkeypatch.setenv("HAPTICS_PYTHONPATH", str(folder))
    short = ("--duration", "0.3", "--set", "rate=500")
    for mode in ("offline", "lockstep", "realtime"):
        missed = ("--set", "health.missed_share=1", "--set", "health.undecided_share=1")
        run = haptics("run", WALL, "--mode", mode, *short, *missed, "--out", str(tmp_path / mode))
        assert run.wait() == 0, run.err
    offline, lockstep = (tmp_path / mode for mode in ("offline", "lockstep"))
    assert (offline / "samples.csv").read_bytes() == (lockstep / "samples.csv").read_bytes()
    summary = json.loads((offline / "summary.json").read_text())
    assert {"felt_force", "beyond"} <= summary["metrics"].keys()
    assert [claim["holds"] for claim in summary["claims"]] == [True]
    replay = haptics("replay", str(lockstep), "--verify")
    assert replay.wait() == 0 and "identical" in replay.out
    for kind, name in (("controllers", "saturating_spring"), ("contact_methods", "soft_contact")):
        listed = haptics("list", kind)
        assert listed.wait() == 0 and name in listed.out and "lab_parts 0.1.0" in listed.out
    checked = haptics("check", "spring_plane")
    assert checked.wait() == 0 and "failed" not in checked.out, checked.out + checked.err
    local = ("--set", "local_model.type=full", "--set", "environment.rate=60")
    checked = haptics("check", "soft_contact", *local)
    assert checked.wait() == 0 and "failed" not in checked.out, checked.out + checked.err
    checked = haptics("check", "stage")
    assert checked.wait() == 0 and "failed" not in checked.out, checked.out + checked.err
    assert "passed  the same bits offline and in lockstep" in checked.out
    monkeypatch.setenv("HAPTICS_PYTHONPATH", "")
    gone = haptics("replay", str(lockstep), "--verify")
    assert gone.wait() == 2
    assert "packages.lab_parts = 0.1.0: the package is not there; install it" in gone.err


@pytest.mark.exhaustive
def test_pip_installs_the_example_as_the_tests_do(tmp_path: Path) -> None:
    shutil.copytree(OWN, tmp_path / "source")
    arguments = ("install", "-q", "--no-deps", "--no-build-isolation", "--target", str(tmp_path / "target"))
    subprocess.run([sys.executable, "-m", "pip", *arguments, str(tmp_path / "source")], check=True)
    ours = install(tmp_path / "packages")
    found = [
        {(point.group, point.name, point.value) for one in importlib.metadata.distributions(path=[str(folder)])
         for point in one.entry_points}
        for folder in (tmp_path / "target", ours)
    ]  # fmt: skip
    assert found[0] == found[1] and len(found[0]) == 8


def test_a_kind_is_listed() -> None:
    for kind in KINDS:
        listed = answer("list", kind)
        assert listed.status == 0 and f"haptics.{kind}" in listed.out


def test_the_parts_of_a_kind_are_listed_as_json(installed: Path) -> None:
    for kind in KINDS:
        listed = answer("list", kind, "--json")
        entries = parts.groups()[kind].entries()
        found = json.loads(listed.out)
        assert listed.status == 0 and [one["name"] for one in found] == list(entries)
        assert all(one.keys() == {"name", "module", "package", "version"} for one in found)
    controllers = {one["name"]: one for one in json.loads(answer("list", "controllers", "--json").out)}
    assert controllers["saturating_spring"] == {
        "name": "saturating_spring",
        "module": "lab_parts.controller",
        "package": "lab_parts",
        "version": "0.1.0",
    }
    assert controllers["direct"]["package"] == "haptics"
    assert controllers["direct"]["module"] == "haptic_control.direct"


@pytest.mark.parametrize("named", [(), ("corner_peg",)])
def test_json_is_for_kinds_of_parts(named: tuple[str, ...]) -> None:
    refused = answer("list", *named, "--json")
    assert refused.status == 2 and "--json: is for a kind of parts; give one of controllers, operators" in refused.err


def test_a_replay_with_another_version_of_a_package_says_so(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(document(duration=0.02), out=tmp_path / "trial")
    same = answer("replay", str(tmp_path / "trial"), "--verify")
    assert same.status == 0 and "packages" not in same.err
    (installed / "lab_parts-0.1.0.dist-info").rename(installed / "lab_parts-0.2.0.dist-info")
    metadata = installed / "lab_parts-0.2.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("0.1.0", "0.2.0"))
    importlib.invalidate_caches()
    forget(monkeypatch)
    other = answer("replay", str(tmp_path / "trial"), "--verify")
    assert other.status == 0 and "identical" in other.out
    assert "packages.lab_parts = 0.1.0: version 0.2.0 is installed; results may differ" in other.err
