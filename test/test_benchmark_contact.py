"""The benchmark of the contact methods: its scenes have the contacts they claim, with MuJoCo as with us."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import pytest

from benchmarks import contact as benchmark_contact
from benchmarks.contact import (
    METHODS,
    MUJOCO,
    MuJoCo,
    Ours,
    Scene,
    Table,
    corner,
    feet,
    growth,
    tower,
    wall,
)

SCENES = [corner(), corner(0.5), feet(1), feet(2), feet(5), tower(1), tower(3), wall((3, 2))]


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: f"{scene.name}-{scene.contacts}")
def test_scenes_rest_on_the_contacts_they_claim(scene: Scene) -> None:
    for runner in (MuJoCo(scene), Ours(scene, "impulse_augmented", {})):
        for _ in range(400):
            runner.step()
        assert runner.contacts == scene.contacts, runner


@pytest.mark.parametrize("count", [1, 6])
def test_every_step_of_the_impact_scene_is_an_impact(count: int) -> None:
    scene = feet(count, impact=True)
    ours, theirs = Ours(scene, "impulse_augmented", {}), MuJoCo(scene)
    for _ in range(3):
        ours.put_back()
        theirs.put_back()
        np.testing.assert_allclose(theirs._data.qvel[2], -0.5, atol=0.03)  # that of the origin: it turns
        ours.step()
        theirs.step()
        assert ours.contacts == theirs.contacts == count
        # as separated as restitution 0.3 makes the deepest foot
        assert ours._state.twist[2] > 0.0


def test_bodies_move_as_in_mujoco_while_nothing_touches() -> None:
    scene = feet(3, impact=True)
    ours, theirs = Ours(scene, "penalty", {}), MuJoCo(scene)
    body = ours._body
    body.q[2] += 1.0
    body.refresh()
    theirs._data.qpos[2] += 1.0
    for _ in range(50):
        ours.step()
        theirs.step()
    assert ours.contacts == theirs.contacts == 0
    mujoco.mj_kinematics(theirs._model, theirs._data)
    mujoco.mj_comPos(theirs._model, theirs._data)
    centre = theirs._data.body("body").xipos
    np.testing.assert_allclose(body.q[:3], centre, atol=1e-4)
    x, y, z, w = body.q[3:7]
    np.testing.assert_allclose(theirs._data.qpos[3:7], [w, x, y, z], atol=1e-4)


@pytest.mark.long
@pytest.mark.exhaustive
def test_rows_are_well_formed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(benchmark_contact, "ROUNDS", 1)
    monkeypatch.setattr(benchmark_contact, "TURN", 5)
    monkeypatch.setattr(benchmark_contact, "SETTLE", 5)

    def row(name: str, value: float, unit: str, target: str, met: bool | None) -> dict[str, Any]:
        return {"name": name, "value": value, "unit": unit, "target": target, "met": met}

    table = Table(row)
    table.measure(feet(2))
    assert [r["name"] for r in table.rows] == [f"feet, 2 contacts: {name}" for name in (*METHODS, MUJOCO)]
    for one in table.rows:
        figures = one["figures"]
        assert one["value"] == figures["tight_p50"] > 0.0
        assert figures["paced_p99"] >= figures["paced_p50"] > 0.0
        expected = figures["tight_p50"] / table.rows[-1]["value"]
        assert figures["tight_over_mujoco"] == pytest.approx(expected)
    table.measure(feet(benchmark_contact.MOST_LEMKE + 1), ["constraint, Lemke", "penalty"])
    assert [r["name"] for r in table.rows[-2:]] == ["feet, 65 contacts: penalty", "feet, 65 contacts: MuJoCo"]
    table.limit("x", 2.0, "us", 1.0)
    assert table.rows[-1] == row("x", 2.0, "us", "<= 1", False)


def test_growth_is_that_of_the_upper_half() -> None:
    n = np.array([1, 2, 4, 8, 16, 32, 64])
    assert growth(n, np.where(n < 8, 1.0, n / 8.0) ** 1.5) == pytest.approx(1.5)
