"""A mug from an STL file is lifted by a finger in its handle, as docs/shapes.md has it, and hangs there."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import trimesh
from documents import write_documented
from scipy.spatial.transform import Rotation

from haptic_bench import experiment
from haptic_bench.analysis.base import analysis_of
from haptic_bench.analysis.verdict import verdict_of
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples
from haptic_sim.geometry.generate import mug
from haptic_sim.parameters import ParameterError

DOCUMENT = Path(__file__).parents[1] / "docs" / "shapes.md"
WEIGHT = 0.3 * 9.81  # [N]
RADIUS, REACH, SPAN, TUBE = 0.04, 0.03, 0.05, 0.006  # of the mug, of its handle, and of the handle's tube [m]
FINGER = 0.006  # radius [m]


@pytest.fixture(scope="module")
def lift(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of the documentation beside a mug in millimeters."""
    folder = tmp_path_factory.mktemp("stranger")
    write_documented(DOCUMENT, "lift", folder)
    vertices, faces = mug(radius=RADIUS, reach=REACH, span=SPAN, handle=TUBE, sides=32)
    trimesh.Trimesh(1e3 * vertices, faces, process=False).export(folder / "mug.stl")
    return folder / "lift.yaml"


def load(path: Path, *settings: str) -> Trial:
    (trial,) = experiment.load(str(path), settings)
    return trial


@dataclass(frozen=True)
class Lift:
    """A trial that was simulated in memory, and its rows after a time."""

    trial: Trial
    samples: Samples

    @classmethod
    def of(cls, path: Path, *settings: str) -> Lift:
        trial = load(path, *settings)
        return cls(trial, analysis_of(trial.experiment).run_unrecorded(trial))

    def after(self, time: float) -> np.ndarray:
        rows: np.ndarray = self.samples["time"] > time
        return rows

    def mug(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Origin (N, 3) and rotation (N, 3, 3) of the mug, and its center of mass (N, 3) [m]."""
        q = np.stack([self.samples[f"q{k}"] for k in range(7)], axis=1)
        R = Rotation.from_quat(q[rows, 3:]).as_matrix()
        return q[rows, :3] - R @ q[0, :3], R, q[rows, :3]  # at the start its origin is that of the world

    def finger(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Middle (N, 3) [m] and direction (N, 3) of the finger."""
        pose = self.samples.pose("tool")[rows]
        return pose[:, :3], Rotation.from_quat(pose[:, 3:]).as_matrix()[:, :, 2]

    def within_handle(self, rows: np.ndarray) -> np.ndarray:
        """Where the finger's axis is in the plane of the handle, in radii of its opening (N,)."""
        origin, R, _ = self.mug(rows)
        place, axis = self.finger(rows)
        p, d = (np.einsum("nji,nj->ni", R, vector) for vector in (place - origin, axis))
        p = p - d * (p[:, 1] / d[:, 1])[:, None]
        beside = np.hypot((p[:, 0] - RADIUS) / (REACH - TUBE), (p[:, 2] - 0.045) / (0.5 * SPAN - TUBE))
        return np.where(p[:, 0] > RADIUS, beside, np.inf)

    def lowest(self, rows: np.ndarray) -> float:
        """Height of the mug's lowest point over the table [m]."""
        vertices, _ = mug(radius=RADIUS, reach=REACH, span=SPAN, handle=TUBE, sides=32)
        origin, R, _ = self.mug(rows)
        return float((origin[:, 2] + (vertices @ R.transpose(0, 2, 1))[:, :, 2].min(axis=1)).min())


def check(lift: Lift) -> None:
    hanging = lift.after(2.98)
    samples = lift.samples
    assert np.ptp(samples["time"][hanging]) > 2.0
    assert lift.lowest(hanging) > 0.01
    force = np.stack([samples[f"env_f{axis}"][hanging] for axis in "xyz"], axis=1).mean(axis=0)
    assert force[2] == pytest.approx(-WEIGHT, rel=0.02)
    assert np.abs(force[:2]).max() < 0.02 * WEIGHT
    assert lift.within_handle(lift.after(0.9)).max() < 1.0
    _, _, center = lift.mug(hanging)
    place, axis = lift.finger(hanging)
    assert np.abs(axis[:, 2]).max() < 0.05  # the finger is level
    assert np.all(center[:, 2] < place[:, 2] - 0.03)
    assert abs((center - place)[:, 0].mean()) < 0.002
    # The energy of gravity, motion and springs is what the hand has given less what was dissipated, and the rest is
    # reported; the display gives the hand none.
    assert verdict_of(lift.trial, samples).failure == ""
    assert np.abs(samples["energy_numerical"]).max() < 0.01 * samples["energy_injected"].max()
    raised = samples["energy_potential"][-1] - samples["energy_potential"][0]
    assert raised == pytest.approx(WEIGHT * (center[-1, 2] - lift.mug(samples["time"] == 0.0)[2][0, 2]), rel=1e-6)


@pytest.mark.exhaustive
@pytest.mark.parametrize("shape", [{"as": "field", "error": 2e-4}, {"as": "pieces"}, {"as": "automatic"}])
@pytest.mark.parametrize("method", ["impulse_augmented", "constraint"])
def test_the_mug_hangs_on_the_finger(lift: Path, shape: dict[str, object], method: str) -> None:
    settings = [f"scene.bodies.mug.shapes[0].{key}={value}" for key, value in shape.items()]
    found = Lift.of(lift, f"environment.method={method}", *settings)
    (mesh,) = found.trial.meshes
    assert mesh["as"] == ("field" if shape["as"] == "automatic" else shape["as"])
    check(found)


@pytest.mark.exhaustive
def test_it_hangs_beside_the_middle_of_the_finger(lift: Path) -> None:
    check(Lift.of(lift, "operator.path=[[0.1,0,0,0],[0.9,0,0.05,0],[2.9,0,0.05,0.1]]"))


ASIDE = ["scene.bodies.mug.shapes[0].as=hull", "scene.bodies.finger.position=[0.1,-0.06,0.045]"]  # read at once
LIGHT = "scene.bodies.finger.inertia=null"


def test_what_holds_the_finger_loosely_is_reported_at_the_start(lift: Path) -> None:
    document = experiment.read_document(lift)
    holding = ("operator.turn_stiffness", "controller.stiffness")

    def reported(*settings: str) -> list[str]:
        (trial,) = experiment.load_document(document, lift, [*ASIDE, *settings])
        return [note for note in trial.notes if note.startswith(holding)]

    assert reported() == []
    assert reported(LIGHT) == [
        "controller.stiffness = 0.0390625 N m/rad in rotation: 1/64 of the default, as the tool has only 1.8e-06 "
        "kg m^2 there; a larger inertia of its body, or a higher rate, allows more"
    ]
    assert reported("operator.turn_stiffness=0", "operator.turn_damping=0") == []  # as it was asked for
    for name in ("turn_stiffness", "turn_damping"):
        del document["operator"][name]
    assert reported() == [
        "operator.turn_stiffness = 0 N m/rad: the arm does not keep the tool from turning, which contacts do; give "
        "operator.turn_stiffness and operator.turn_damping"
    ]


def test_an_arm_that_would_shake_a_light_finger_is_refused(lift: Path) -> None:
    with pytest.raises(
        ParameterError, match=r"^operator\.turn_damping = 0\.05 N m s/rad: the sampled arm diverges"
    ) as no:
        load(lift, *ASIDE, LIGHT, "operator.turn_damping=0.05")
    found = re.search(r"recommended, for a margin: (\S+);", str(no.value))
    assert found is not None
    load(lift, *ASIDE, LIGHT, found[1])
