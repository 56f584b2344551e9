"""The module of a hardware device's driver: of this package, or the user's own on PYTHONPATH."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from conftest import DEADLINE, ROOT
from fake_hardware import DATA, data

from haptic_bench.experiment.loading import find, read_document
from haptic_drivers.devices.parameters import DRIVERS, check_driver
from haptic_sim.parameters import ParameterError

DRIVER = """
from haptic_sim.parameters import Parameters


class Connection(Parameters):
    "Nothing."


def build(device, connection):
    pass
"""


def test_a_driver_that_does_not_exist_is_refused_with_what_is_looked_for(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match=r"no module nobody; must be one of .*haply"):
        check_driver(data(module="nobody"))
    package = tmp_path / "broken_package"
    package.mkdir()
    (package / "__init__.py").write_text("1 +")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        with pytest.raises(ParameterError, match="cannot be imported: SyntaxError"):
            check_driver(data(module="broken_package.device"))


def test_a_driver_is_found_on_the_users_path_after_all_else(tmp_path: Path) -> None:
    package = tmp_path / "users_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "device.py").write_text(DRIVER)
    (tmp_path / "numpy.py").write_text("raise RuntimeError('hides ours')")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", list(sys.path))
        patch.setenv("HAPTICS_PYTHONPATH", str(tmp_path))
        module, _ = check_driver(data(module="users_package.device", connection={}))
        assert module.__name__ == "users_package.device" and sys.path[-1] == str(tmp_path)


def test_a_driver_of_an_installed_package_is_found_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "lab_driver.py").write_text(DRIVER)
    info = tmp_path / "lab_devices-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lab_devices\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[haptics.hardware]\nlab_arm = lab_driver\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", list(sys.path))
        patch.setenv("HAPTICS_PYTHONPATH", str(tmp_path))
        module, _ = check_driver(data(module="lab_arm", connection={}))
        assert module.__name__ == "lab_driver" and DRIVERS.entries()["lab_arm"].package == "lab_devices"
        with pytest.raises(ParameterError, match=r"no module nobody; must be one of haply_2diy, .*, lab_arm, or"):
            check_driver(data(module="nobody"))


@pytest.mark.long
@pytest.mark.skipif(not (ROOT / ".haptics" / "kernels" / "stamp").exists(), reason="the checkout is not prepared")
def test_the_program_finds_a_driver_on_pythonpath_and_names_one_that_is_absent(tmp_path: Path) -> None:
    """As a user starts it."""
    folder = tmp_path / "drivers"
    folder.mkdir()
    (folder / "own_driver.py").write_text(DRIVER)
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(DATA | {"module": "own.driver"}))
    document = read_document(find("static_wall")) | {"device": {"type": "hardware", "name": "own.yaml"}}
    (tmp_path / "wall.yaml").write_text(yaml.safe_dump(document))

    def validate(pythonpath: Path) -> subprocess.CompletedProcess[str]:
        variables = {name: value for name, value in os.environ.items() if name != "HAPTICS_PYTHONPATH"}
        variables["PYTHONPATH"] = str(pythonpath)
        command = [ROOT / "haptics", "validate", "wall.yaml"]
        return subprocess.run(
            command, cwd=tmp_path, env=variables, capture_output=True, text=True, timeout=DEADLINE, check=False
        )

    absent = validate(folder)
    assert absent.returncode == 2 and "Traceback" not in absent.stderr
    assert "device.module = own.driver: there is no module own.driver; must be one of " in absent.stderr
    assert f"PYTHONPATH (which is {folder})" in absent.stderr
    (folder / "own").mkdir()
    (folder / "own_driver.py").rename(folder / "own" / "driver.py")
    found = validate(folder)
    assert found.returncode == 0 and "wall" in found.stdout and "module" not in found.stderr, found.stderr
