"""Mobility of the bodies that a tool touches: least squares, and bodies whose answer is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import nnls
from world_builder import thesis_material

from haptic_sim.dynamics.scaled import ScaledContacts
from haptic_sim.records import allocate
from haptic_sim.tool.mobility import LOADED, Touched, measure
from haptic_sim.tool.mujoco_surroundings import MujocoSurroundings
from haptic_sim.tool.surroundings import SimulatedSurroundings, WorldSurroundings
from haptic_sim.worlds.building import build
from haptic_sim.worlds.mujoco_files import find_tool
from haptic_sim.worlds.parameters import MujocoParameters, WorldParameters

TOOL, SIZE = 0, 6  # number of the tool's tree; coordinates of each tree


def random_contacts(rng: np.random.Generator, trees: int, count: int) -> tuple[ScaledContacts, np.ndarray]:
    """Contacts of random directions between trees, or with what does not move; separations of touching ones are 0."""
    contacts = ScaledContacts.allocate(count, SIZE * np.arange(trees), np.full(trees, SIZE))
    for i in range(count):
        a, b = rng.choice(np.arange(-1, trees), 2, replace=False)
        if TOOL in (a, b):
            a, b = a + b, TOOL  # the tool is the second
        contacts.tree[i] = a, b
        contacts.W[i] = rng.normal(size=contacts.W[i].shape)
    return contacts, rng.choice([0.0, 0.5 * LOADED, 2.0 * LOADED], count)


def rows(contacts: ScaledContacts, nv: int) -> np.ndarray:
    """Normals of the contacts in all coordinates, by side (C, 2, nv)."""
    found = np.zeros((len(contacts.tree), 2, nv))
    for i, trees in enumerate(contacts.tree):
        for side, tree in enumerate(trees):
            if tree >= 0:
                found[i, side, SIZE * tree : SIZE * (tree + 1)] = contacts.W[i, 0, side]
    return found


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_nearest_change_that_other_contacts_allow(seed: int) -> None:
    """min |x - r|, W x >= 0, with r the response of bodies alone: x = r + W^T p, by non-negative least squares."""
    rng = np.random.default_rng(seed)
    trees, count = 5, 12
    contacts, separation = random_contacts(rng, trees, count)
    nv = SIZE * trees
    u = rng.normal(size=nv)
    touched = allocate(Touched, {"contacts": count, "nv": nv, "trees": trees})
    measure(count, separation, contacts, TOOL, u, touched)
    J = rows(contacts, nv)
    blocks = [j for j in range(count) if TOOL not in contacts.tree[j] and separation[j] <= LOADED]
    W = J[blocks].sum(axis=1)
    for i in range(count):
        np.testing.assert_allclose(touched.closing[i], (J[i].sum(axis=0)) @ u, rtol=1e-12)
        tree = contacts.tree[i, 0]
        if contacts.tree[i, 1] != TOOL or tree < 0:
            assert touched.velocity[i] == touched.mobility[i] == 0.0
            continue
        np.testing.assert_allclose(touched.velocity[i], -J[i, 0] @ u, rtol=1e-12)
        same = [j for j in range(count) if tuple(contacts.tree[j]) == (tree, TOOL)]
        deep = min(separation[j] for j in same) + LOADED
        share = [j for j in same if separation[j] <= deep] if separation[i] <= deep else [i]
        r = J[share, 0].sum(axis=0)
        x = r + (W.T @ nnls(W.T, -r)[0] if blocks else 0.0)
        assert touched.mobility[i] == pytest.approx(max(0.0, J[i, 0] @ x), rel=1e-4, abs=1e-4)


def row_of_boxes(engine: str, gap: float) -> SimulatedSurroundings:
    """The tool, a box of 0.5 kg and one of 1.5 kg in a row along x, and a wall, so far from the last one [m]."""
    if engine == "haptics":
        box: Any = [{"type": "box", "size": [0.04] * 3}]
        bodies = {
            "wall": {"joint": "fixed", "shapes": [{"type": "plane", "normal": [-1, 0, 0], "offset": -0.1 - gap}]},
            "near": {"joint": "free", "mass": 0.5, "position": [0.04, 0, 0], "shapes": box},
            "far": {"joint": "free", "mass": 1.5, "position": [0.08, 0, 0], "shapes": box},
            "tool": {"joint": "free", "mass": 1.0, "shapes": box},
        }
        scene = WorldParameters.model_validate({"gravity": [0, 0, 0], "bodies": bodies, "tool": "tool"})
        return WorldSurroundings(build(scene, Path()), thesis_material(), epsilon=0.005)
    mujoco = pytest.importorskip("mujoco")
    body = '<body name="{}" pos="{} 0 0"><freejoint/><geom type="box" size=".02 .02 .02" mass="{}"/></body>'
    boxes = "".join(body.format(*of) for of in (("near", 0.04, 0.5), ("far", 0.079995, 1.5), ("tool", 0.0, 1.0)))
    model = mujoco.MjModel.from_xml_string(f"""<mujoco><option gravity="0 0 0"/><worldbody>{boxes}
        <geom type="box" size=".1 .1 .1" pos="{0.19999 + gap} 0 0"/></worldbody></mujoco>""")
    data = mujoco.MjData(model)
    return MujocoSurroundings(
        model, data, find_tool(model, data, MujocoParameters(file="-", tool="tool")), epsilon=0.005
    )


@pytest.mark.parametrize("engine", ["haptics", "mujoco"])
@pytest.mark.parametrize(("gap", "mass"), [(0.0, np.inf), (0.01, 0.5 + 1.5)])
def test_what_a_body_rests_against_and_pushes_counts(engine: str, gap: float, mass: float) -> None:
    """In a row the tool moves both; at a wall, nothing. Four contacts share the load."""
    surroundings = row_of_boxes(engine, gap)
    geometry = surroundings.local_geometry()
    surroundings.report(geometry, np.zeros(6))
    assert len(geometry) == 4
    np.testing.assert_allclose(geometry.constraints["mobility"][:4], 4 / mass, rtol=1e-3, atol=1e-5)
