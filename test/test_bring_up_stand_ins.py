"""`haptics bring-up` against the stand-ins for devices and their vendors' libraries, in real time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from bring_up_hands import IDENTITY, HandsAtStand, State, run
from conftest import ROOT
from device_stands import BoardStand, LibraryStand
from driver_checks import library
from fake_haply_2diy import board

from haptic_bench.commands import command_line
from haptic_bench.experiment.devices import read_device
from haptic_drivers.bring_up.steps import PLANE
from haptic_drivers.devices import haply_2diy
from haptic_sim.rotations import matrix

__all__ = ["run"]
QUARTER = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
pytestmark = pytest.mark.exhaustive


def write_data(folder: Path, name: str, connection: dict[str, Any]) -> Path:
    data = yaml.safe_load((ROOT / "config" / "devices" / f"{name}.yaml").read_text(encoding="utf-8"))
    data["connection"] |= connection
    path = folder / f"{name}.yaml"  # a machine with other work stalls for long
    path.write_text(yaml.safe_dump(data | {"watchdog": 1.0, "reading_watchdog": 1.0}), encoding="utf-8")
    return path


@pytest.fixture
def sigma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LibraryStand]:
    stand = LibraryStand("dhd", library("dhd", tmp_path_factory.getbasetemp()))
    yield stand
    stand.close()


def hands_at(stand: LibraryStand, R_BW: np.ndarray = IDENTITY, read: np.ndarray = IDENTITY) -> HandsAtStand:
    """A person at a sigma.7; `read` (3, 3) is what its positions and velocities are multiplied with."""
    A, vendor = stand.axes, stand._library

    def show(state: State) -> None:
        twist = np.concatenate((A @ read @ state.twist[:3], A @ state.twist[3:]))
        vendor.set_state(0, A @ read @ state.p, A @ state.R @ A.T, twist, int(state.button == "pedal"))

    return HandsAtStand(show, stand.force, R_BW)


def test_a_turned_sigma_is_brought_up(
    sigma: LibraryStand, run: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = write_data(tmp_path, "sigma7", sigma.connection), tmp_path / "mine.yaml"
    hands = hands_at(sigma, QUARTER.T)
    status = run(hands, str(file), "--out", str(out), "--log", str(tmp_path / "log"))
    said = capsys.readouterr()
    assert status == 0, said.out + said.err
    assert "stand-in for sigma.7, serial number 1234" in said.out
    assert matrix(np.array(read_device(str(out)).mount[3:])) == pytest.approx(QUARTER, abs=1e-9)
    assert not hands.early
    assert 1.5 < hands.largest.max() <= 2.0 * (1 + 1e-6)
    assert not sigma.force().any()


@pytest.mark.parametrize(
    ("read", "found"),
    [
        (1e3 * IDENTITY, "position: 50: mm, where m is expected"),
        (1e-3 * IDENTITY, "position: 5e-05: km, where m is expected"),
        (np.diag((1.0, -1.0, 1.0)), "position: left-handed axes: right is +y, away is +x, up is +z"),
    ],
)
def test_a_wrong_reading_is_found(
    sigma: LibraryStand,
    read: np.ndarray,
    found: str,
    run: Callable[..., int],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file, out = write_data(tmp_path, "sigma7", sigma.connection), tmp_path / "mine.yaml"
    hands = hands_at(sigma, IDENTITY, read)
    assert run(hands, str(file), "--out", str(out), "--log", str(tmp_path / "log")) == 1
    assert f"stopped: {found}" in capsys.readouterr().err
    assert not hands.largest.any()
    assert not out.exists()


def test_a_haply_2diy_is_brought_up_in_the_plane(
    run: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(haply_2diy, "SILENCE", 5.0)  # a machine that stalls is not what is tested
    with board() as one:
        two = BoardStand(one)
        file, out = write_data(tmp_path, "haply_2diy", two.connection), tmp_path / "mine.yaml"
        hands = HandsAtStand(lambda state: two.put(two.middle - two.home + state.p), two.force, IDENTITY, PLANE)
        status = run(hands, str(file), "--out", str(out), "--log", str(tmp_path / "log"))
        said = capsys.readouterr()
        assert status == 0, said.out + said.err
        assert 0.2 < hands.largest.max() <= 0.1 * 3.0 * (1 + 1e-6)
        assert not hands.early
        assert not two.force().any()


def test_a_device_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, answers = write_data(tmp_path, "haply_2diy", {"port": "/dev/none"}), tmp_path / "answers"
    answers.write_text("", encoding="utf-8")
    given = ["--answers", str(answers), "--out", str(tmp_path / "mine.yaml"), "--log", str(tmp_path / "log")]
    assert command_line.main(["bring-up", str(file), *given]) == 1
    assert "stopped: serial port /dev/none" in capsys.readouterr().err
    assert "serial port /dev/none" in (tmp_path / "log" / "report.txt").read_text(encoding="utf-8")
