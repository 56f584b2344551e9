"""`haptics passivity`: its fields and files, as other programs read them, and what it refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_cli import call

from haptic_control.passivity.coupling import ratio_map

COUPLING = ("passivity", "coupling", "--stiffness", "1000", "--damping", "2", "--rate", "1000", "--device-damping", "3")
T = 1e-3  # [s]
FIELDS = (
    "alpha beta required_damping ratio worst_frequency stable passive margin minimum_mass minimum_mass_equation_17 "
    "required_friction quantisation_power"
)


def fields(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert call(*arguments, "--json") == 0
    return dict(json.loads(capsys.readouterr().out))


def test_the_wall_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = fields(capsys, *COUPLING)
    assert " ".join(found) == FIELDS
    assert found["required_damping"] == pytest.approx(2.5) and found["ratio"] == pytest.approx(1.0)
    assert found["margin"] == pytest.approx(0.5) and found["worst_frequency"] == pytest.approx(500.0)
    assert found["alpha"] == 0.0 and found["beta"] == 2.0
    assert found["stable"] is True and found["passive"] is True
    assert fields(capsys, *COUPLING[:-1], "2.4")["passive"] is False


def test_a_mass_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = fields(capsys, *COUPLING, "--mass", "0.01", "--integrator", "2")
    assert found["alpha"] == pytest.approx(0.1)
    assert found["ratio"] == pytest.approx(4.0 / (4.0 - 0.1 * 5.0))  # at half of the rate
    assert found["minimum_mass"] is None
    assert found["minimum_mass_equation_17"] is None  # which is for integrator 3 without a delay
    assert fields(capsys, *COUPLING)["minimum_mass_equation_17"] == pytest.approx(0.002857)
    assert fields(capsys, *COUPLING, "--delay", "1")["minimum_mass_equation_17"] is None
    light = fields(capsys, *COUPLING, "--mass", "0.001", "--integrator", "3")
    assert light["stable"] is False and light["passive"] is False
    marginal = fields(capsys, *COUPLING[:5], "0", *COUPLING[6:], "--mass", "0.01", "--integrator", "2")
    assert marginal["stable"] is False and marginal["required_damping"] is None and marginal["beta"] == 0.0


def test_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*COUPLING) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == "required_damping           2.5 N s/m" and lines[-1] == "passive"
    assert call(*COUPLING[:-1], "2") == 0
    assert capsys.readouterr().out.endswith("not passive: the device lacks 0.5 N s/m of damping\n")


def test_quantisation_in_json_and_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a wall (K + 2 B/T) resolution/2 of dry friction, without which its power is F^2 / (4 margin)."""
    found = fields(capsys, *COUPLING, "--resolution", "1e-5")
    assert found["required_friction"] == pytest.approx(0.025) and found["passive"] is False
    assert found["quantisation_power"] == pytest.approx(0.025**2 / 2.0) and found["margin"] == pytest.approx(0.5)
    assert fields(capsys, *COUPLING)["required_friction"] == 0.0
    rough = fields(capsys, *COUPLING, "--resolution", "1e-5", "--device-friction", "0.026")
    assert rough["passive"] is True and rough["quantisation_power"] == 0.0
    assert fields(capsys, *COUPLING[:-1], "2.4", "--resolution", "1e-5")["quantisation_power"] is None
    same = ("--coupling", "[[3000,-2000],[1]]", "--resolution", "1e-5")
    rest = ("passivity", "coupling", "--rate", "1000", "--device-damping", "3")
    assert fields(capsys, *rest, *same)["required_friction"] == pytest.approx(0.025)
    assert call(*COUPLING, "--resolution", "1e-5") == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "passive, but for quantisation, which supplies at most 0.000313 W: it requires 0.025 N of dry friction"
    )
    assert call(*COUPLING[:3], "[1000,1000]", *COUPLING[4:], "--resolution", "1e-5") == 2
    assert "--resolution: is for one direction" in capsys.readouterr().err


@pytest.mark.exhaustive
@pytest.mark.long
def test_gains_for_a_device_with_dry_friction(capsys: pytest.CaptureFixture[str]) -> None:
    device = ("--device-damping", "3", "--rate", "1000")
    free = fields(capsys, "passivity", "tune", *device)
    assert free["required_friction"] == 0.0
    told = fields(capsys, "passivity", "tune", *device, "--resolution", "1e-5")
    assert told["required_friction"] == pytest.approx(1.5 * told["stiffness"] * 2e-5 / 2)  # K + 2 B/T = 3 K
    assert told["stiffness"] == free["stiffness"]
    bound = fields(capsys, "passivity", "tune", *device, "--resolution", "1e-5", "--device-friction", "0.01")
    assert bound["required_friction"] == pytest.approx(0.008) and bound["stiffness"] == pytest.approx(0.008 / 1.5e-5)
    assert bound["required_damping"] == pytest.approx(1.5 * T * bound["stiffness"])
    light = ("--mass", "0.005", "--resolution", "1e-5", "--device-friction", "0.02")
    found = fields(capsys, "passivity", "tune", *device, *light)
    gains = ("--stiffness", str(found["stiffness"]), "--damping", str(found["damping"]))
    checked = fields(capsys, "passivity", "coupling", *gains, *device, *light)
    assert checked["passive"] is True and checked["required_friction"] <= 0.016 * (1 + 1e-9)


@pytest.mark.parametrize(
    "changed, said",
    [
        (("--rate", "0"), "--rate = 0 Hz: must be > 0 Hz"),
        (("--rate", "nan"), "--rate = nan: must be finite"),
        (("--stiffness", "-1"), "--stiffness = -1 N/m: must be >= 0 N/m"),
        (("--damping", "-0.5"), "--damping = -0.5 N s/m: must be >= 0 N s/m"),
        (("--device-damping", "-2"), "--device-damping = -2 N s/m: must be >= 0 N s/m"),
        (("--mass", "0"), "--mass = 0 kg: must be > 0 kg"),
        (("--integrator", "4"), "--integrator = 4: must be <= 3"),
        (("--delay", "1.5"), "--delay = 1.5: must be a whole number"),
        (("--stiffness", "stiff"), "--stiffness = stiff: must be a number"),
    ],
)
def test_bad_values_are_one_line(changed: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*COUPLING, *changed) == 2
    assert capsys.readouterr().err == f"haptics: {said}\n"


def test_matrices_have_a_worst_direction(capsys: pytest.CaptureFixture[str]) -> None:
    command = ("passivity", "coupling", "--rate", "1000", "--device-damping", "3", "--damping", "2")
    found = fields(capsys, *command, "--stiffness", "[[100,0],[0,1000]]", "--mass", "0.01", "--integrator", "2")
    alone = fields(capsys, *COUPLING, "--mass", "0.01", "--integrator", "2")
    assert found["scale"] == pytest.approx(alone["required_damping"] / 3.0)
    assert found["worst_direction"] == pytest.approx([0.0, 1.0]) and found["passive"] is True
    for bad, said in (
        ("[[1,2],[0,1]]", "--stiffness: [0][1] = 2 and [1][0] = 0: must be symmetric"),
        ("[1,-1]", "--stiffness: has the eigenvalue -1: must be positive semidefinite"),
        ("[[1,2]]", "--stiffness: has the shape (1, 2): must be a square matrix of finite numbers"),
        ("[a]", "--stiffness: a: must be a finite number up to 1e+12"),
        ("[", "--stiffness [: must be a list of numbers, or of lists of them"),
    ):
        assert call(*command, "--stiffness", bad) == 2
        assert capsys.readouterr().err == f"haptics: {said}\n"


def test_any_transfer_functions(capsys: pytest.CaptureFixture[str]) -> None:
    command = ("passivity", "coupling", "--rate", "1000", "--device-damping", "3")
    same = fields(capsys, *COUPLING, "--mass", "0.01", "--integrator", "2")
    found = fields(capsys, *command, "--coupling", "[[3000,-2000],[1]]", "--environment", "[[0,1e-4],[1,-2,1]]")
    for name in ("required_damping", "worst_frequency", "stable", "passive", "margin"):
        assert found[name] == pytest.approx(same[name], rel=1e-6)
    assert found["required_damping_passive_environment"] == pytest.approx(2.5)
    for bad, said in (
        ("[[1],[0,1]]", "--environment: denominator [0.0, 1.0]: is not proper (its output precedes its input): the "
         "coefficient of z^0 must not be 0"),
        ("[1,2]", "--environment [1,2]: must be [NUM,DEN], two lists of coefficients of z^0, z^-1, ..."),
    ):  # fmt: skip
        assert call(*COUPLING, "--environment", bad) == 2
        assert capsys.readouterr().err == f"haptics: {said}\n"
    assert call(*COUPLING, "--environment", "[[1],[1]]", "--mass", "1") == 2
    assert capsys.readouterr().err == "haptics: --environment, --mass: give one of them\n"


@pytest.mark.long
def test_tuned_gains_are_passive(capsys: pytest.CaptureFixture[str]) -> None:
    device = ("--device-damping", "3", "--rate", "1000", "--mass", "0.005")
    found = fields(capsys, "passivity", "tune", *device)
    gains = ("--stiffness", str(found["stiffness"]), "--damping", str(found["damping"]))
    assert fields(capsys, "passivity", "coupling", *gains, *device)["passive"] is True
    assert found["largest_stiffness"] == 6000.0 and found["largest_damping"] == 3.0
    assert call("passivity", "tune", *device) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("--stiffness 1600 --damping 1.6")
    assert call("passivity", "tune", "corner_peg", "--device-damping", "3") == 0
    assert "K = 3072 N/m" in capsys.readouterr().out  # 2 b rate, at the 512 Hz of the experiment


@pytest.mark.long
@pytest.mark.parametrize(
    "arguments, said",
    [
        (("corner_peg",), "corner_peg: device.damping = null states none; give --device-damping"),
        (("rolling_disk",), "rolling_disk: device.type = none has no damping of its own; give --device-damping"),
        (("--device-damping", "3"), "--rate: missing (Servo rate, 1/T)"),
        (("--device-damping", "0", "--rate", "1"), "--device-damping = 0 N s/m: must be > 0 N s/m"),
        (
            ("--device-damping", "1", "--rate", "1", "--mass", "1", "--integrator", "1", "--beta", "0.99"),
            "--beta = 0.99: no stiffness is passive; of the table there are: 1.3, 1.6, 2, 3, 4",
        ),
        (("--device-damping", "1", "--rate", "1", "--share", "1.5"), "--share = 1.5: must be <= 1"),
    ],
)
def test_a_device_that_cannot_be_tuned(
    arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("passivity", "tune", *arguments) == 2
    assert capsys.readouterr().err == f"haptics: {said}\n"


@pytest.mark.long
def test_the_device_of_an_experiment_is_tuned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "damped.yaml"
    text = (Path(__file__).resolve().parents[1] / "config/experiments/static_wall.yaml").read_text()
    path.write_text(text.replace("device:\n", "device:\n  damping: [2.5, 0.01]\n"))
    found = fields(capsys, "passivity", "tune", str(path))
    assert found["largest_damping"] == 2.5 and found["largest_stiffness"] == 2 * 2.5 * 512.0
    # semi-implicit Euler, as the tool of the experiment, has no minimum mass
    assert found["minimum_mass"] is None
    assert fields(capsys, "passivity", "tune", str(path), "--integrator", "3")["minimum_mass"] > 0.0
    assert fields(capsys, "passivity", "tune", str(path), "--device-damping", "1")["largest_damping"] == 1.0
    gains = "  type: four_channel\n  stiffness: [1000, 1000, 1]\n  damping: [40, 40, 0.04]\n"  # which are not chosen
    undamped = text.replace("device:\n", "device:\n  damping: [1.0e-6, 1.0e-6]\n")
    path.write_text(undamped.replace("  type: four_channel\n", gains))
    assert call("validate", str(path)) == 2 and "is not passive" in capsys.readouterr().err
    assert fields(capsys, "passivity", "tune", str(path))["largest_damping"] == 1e-6  # better gains are asked for
    path.write_text(text.replace("device:\n", "device:\n  damping: [0, 0.01]\n"))
    assert call("passivity", "tune", str(path)) == 2
    assert "device.damping[0] = 0 N s/m: nothing is passive without damping" in capsys.readouterr().err
    path.write_text(text.replace("device:\n", "device:\n  damping: much\n"))
    assert call("passivity", "tune", str(path)) == 2
    assert "device.damping = much" in capsys.readouterr().err


def test_options_that_are_missing_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert call("passivity") == 2
    assert "coupling|tune|map" in capsys.readouterr().err
    assert call("passivity", "coupling", "--rate", "100") == 2
    assert "--device-damping: missing" in capsys.readouterr().err
    assert call("passivity", "coupling", "--rate", "100", "--device-damping", "1") == 2
    assert capsys.readouterr().err.splitlines() == [
        "haptics: --stiffness: missing (Stiffness K of the virtual coupling)",
        "haptics: --damping: missing (Damping B of the virtual coupling)",
    ]


@pytest.mark.drawn
def test_the_map_writes_what_the_analysis_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "map"
    grid = ("--alpha", "0", "1", "5", "--beta", "0.1", "3.1", "7")
    assert call("passivity", "map", "--integrator", "3", "--out", str(out), *grid) == 0
    with open(out / "map.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["alpha", "beta", "ratio", "stable"] and len(rows) == 35
    for row in rows:
        ratio, stable = ratio_map(np.array([float(row["alpha"])]), np.array([float(row["beta"])]), 3)
        assert float(row["ratio"]) == pytest.approx(float(ratio[0]), rel=1e-9)
        assert row["stable"] == str(int(stable[0]))
    assert {row["stable"] for row in rows} == {"0", "1"}
    svg = (out / "map.svg").read_text()
    assert svg.lstrip().startswith("<?xml") and "ratio 1, exact" in svg and "equation 16" in svg
    assert call("passivity", "map", "--out", str(out)) == 2
    assert "is not empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    "grid, said",
    [
        (("--alpha", "1", "0", "5"), "--alpha = [1, 0, 5]: from 1 to 0: must ascend from 0 or more"),
        (("--beta", "0", "1", "1"), "--beta = [0, 1, 1]: has 1 values: must have 2 to 2000"),
        (("--integrator", "0"), "--integrator = 0: must be >= 1"),
    ],
)
def test_grids_are_checked(
    grid: tuple[str, ...], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("passivity", "map", "--out", str(tmp_path / "map"), *grid) == 2
    assert capsys.readouterr().err == f"haptics: {said}\n"
    assert not (tmp_path / "map").exists()


@pytest.mark.parametrize("integrator", ["1", "2", "3"])
def test_a_range_without_a_curve_is_drawn_too(integrator: str, tmp_path: Path) -> None:
    grid = ("--alpha", "5", "6", "3", "--beta", "0", "0.1", "3")
    assert call("passivity", "map", "--integrator", integrator, "--out", str(tmp_path / "map"), *grid) == 0
