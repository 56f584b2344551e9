"""`haptics zwidth`: its files, as other programs read them, and what it refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from test_cli import call

from haptic_bench.commands import zwidth
from haptic_control.passivity.zwidth import ZWidth, ZWidthParameters, measure

DEVICE = ("zwidth", "--rate", "1000", "--device-mass", "0.1", "--device-damping", "3", "--quiet")
GRID = ("--stiffness", "500", "6500", "6", "--damping", "0.1", "2.9", "5")


@pytest.mark.long
@pytest.mark.drawn
def test_it_writes_what_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measured: list[ZWidth] = []

    def remembered(given: ZWidthParameters, *how: Any) -> ZWidth:
        assert given == ZWidthParameters(rate=1000, device_mass=0.1, device_damping=3, hand="adversarial",
                                         stiffness=(500, 6500, 6), damping=(0.1, 2.9, 5))  # fmt: skip
        measured.append(measure(given, *how))
        return measured[-1]

    monkeypatch.setattr(zwidth, "measure", remembered)
    out = tmp_path / "z"
    assert call(*DEVICE, *GRID, "--hand", "adversarial", "--out", str(out)) == 0
    said = capsys.readouterr().out
    (found,) = measured
    with open(out / "zwidth.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["stiffness", "damping", "stable", "verdict", "power", "required_damping"]
    assert [row["stable"] for row in rows] == [str(int(verdict != 2)) for verdict in found.verdict.ravel()]
    assert {row["verdict"] for row in rows} == {"passive", "active"}
    for row in rows:
        assert float(row["required_damping"]) == pytest.approx(float(row["stiffness"]) / 2000 + float(row["damping"]))
        assert (float(row["power"]) > 0.0) is (row["stable"] == "0")
    summary = json.loads((out / "zwidth.json").read_text())
    assert summary["stiffness"] == [500, 6500, 6] and summary["hand"] == "adversarial" and summary["mass"] is None
    assert summary["cells"] == summary["as_theory"] == 30 and summary["theory"] == "BROWN (8)"
    assert summary["stable"] == sum(row["stable"] == "1" for row in rows)
    assert f"{summary['stable']} of 30 couplings are passive" in said
    for K, B in summary["boundary"]:
        assert pytest.approx(3.0 - K / 2000, abs=1e-3) == B
    svg = (out / "zwidth.svg").read_text()
    assert "simulated boundary" in svg and "BROWN (8), b = 3 N s/m" in svg


@pytest.mark.long
@pytest.mark.drawn
def test_passive_hands_and_quantisation(tmp_path: Path) -> None:
    out = tmp_path / "z"
    grid = ("--stiffness", "5000", "80000", "6", "--damping", "10", "100", "5")
    assert call(*DEVICE, *grid, "--hand", "passive", "--resolution", "1e-5", "--out", str(out)) == 0
    with open(out / "zwidth.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["verdict"] for row in rows} >= {"oscillates", "unstable"}
    assert all((row["ripple"] == "") is (row["verdict"] == "unstable") or row["ripple"] for row in rows)
    summary = json.loads((out / "zwidth.json").read_text())
    assert summary["oscillating"] == sum(row["verdict"] == "oscillates" for row in rows)
    assert summary["largest_stiffness"] < 80000 and summary["theory"] == "poles of the loop with the hand"
    assert "limit cycle of quantisation" in (out / "zwidth.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--rate", "0"), "--rate = 0 Hz: must be > 0 Hz"),
        (("--device-mass", "-1"), "--device-mass = -1 kg: must be > 0 kg"),
        (("--device-damping", "0"), "--device-damping = 0 N s/m: must be > 0 N s/m"),
        (("--mass", "0"), "--mass = 0 kg: must be > 0 kg"),
        (("--integrator", "4"), "--integrator = 4: must be <= 3"),
        (("--delay", "-1"), "--delay = -1 ticks: must be >= 0 ticks"),
        (("--resolution", "nan"), "--resolution = nan: must be finite"),
        (("--resolution", "0.001"), "--resolution = 0.001 m: must be at most a tenth of the amplitude (0.001 m)"),
        (("--stiffness", "9", "1", "5"), "--stiffness = [9, 1, 5]: from 9 to 1: must ascend from 0 or more"),
        (("--damping", "0", "1", "1"), "--damping = [0, 1, 1]: has 1 values: must have 2 to 2000"),
        (("--hand", "soft"), "--hand = soft: must be 'none', 'relaxed', 'firm', 'clamp', 'passive' or 'adversarial'"),
    ],
)
def test_bad_input_is_refused(
    arguments: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*DEVICE, *arguments, "--out", str(tmp_path / "z")) == 2
    assert capsys.readouterr().err == f"haptics: {said}\n"
    assert not (tmp_path / "z").exists()


def test_options_that_are_missing_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("zwidth", "--rate", "1000", "--out", str(tmp_path / "z")) == 2
    said = capsys.readouterr().err
    assert "--device-mass: missing" in said and "--device-damping: missing" in said
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    assert call(*DEVICE, "--out", str(tmp_path / "full")) == 2
    assert "is not empty" in capsys.readouterr().err
