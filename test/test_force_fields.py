"""Fields of force and virtual fixtures: closed forms, energies, what hands feel, switching, and what is refused."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

import numpy as np
import pytest
from conftest import sampled
from scipy.spatial.transform import Rotation

from haptic_sim import World
from haptic_sim.fields import distances, targets
from haptic_sim.fields.law import FieldParameters
from haptic_sim.geometry.shapes import (
    BoxParameters,
    CapsuleParameters,
    CylinderParameters,
    PlaneParameters,
    SphereParameters,
)
from haptic_sim.kernels import kernel
from haptic_sim.parameters import ParameterError, quantity

MASS = 0.2  # [kg]
RATE = 1000.0  # [Hz]


def ball(**keys: Any) -> dict[str, Any]:
    return {"joint": "free", "mass": MASS, "shapes": [{"type": "sphere", "radius": 0.03}]} | keys


def world(fields: dict[str, Any], *, rate: float = RATE, **scene: Any) -> World:
    bodies = scene.pop("bodies", {"ball": ball(**scene.pop("start", {}))})
    keys = {"bodies": bodies, "tool": "ball", "gravity": [0, 0, 0], "fields": fields} | scene
    return World(keys, rate=rate, environment={"method": "penalty"})


def run(one: World, steps: int, wrench: Any = None) -> None:
    for _ in range(steps):
        one.step(wrench)


def total(one: World) -> float:
    energy = one.energy
    return energy["kinetic"] + energy["potential"] + energy["elastic"]


# Laws


def test_viscous_field_slows_a_ball_as_the_implicit_rule_does() -> None:
    one = world({"oil": {"type": "viscous", "damping": 3.0}}, start={"velocity": [0.5, -0.2, 0.1, 0, 0, 0]})
    run(one, 200)
    expected = np.array([0.5, -0.2, 0.1]) * (1.0 + 3.0 / (RATE * MASS)) ** -200
    assert one.twist[:3] == pytest.approx(expected, rel=1e-12)
    assert expected == pytest.approx(np.array([0.5, -0.2, 0.1]) * math.exp(-3.0 / MASS * 0.2), rel=0.03)
    book = one.fields["oil"]
    assert book["dissipated"] == pytest.approx(0.5 * MASS * 0.3 * (1.0 - (1.0 + 15e-3) ** -400), rel=1e-9)
    assert abs(one.energy["numerical"]) < 1e-15


def test_rotation_slows_in_a_viscous_field() -> None:
    inertia = 0.4 * MASS * 0.03**2
    one = world(
        {"oil": {"type": "viscous", "damping": 0.0, "turn_damping": 1e-4}}, start={"velocity": [0, 0, 0, 0, 0, 7.0]}
    )
    run(one, 300)
    assert one.twist[5] == pytest.approx(7.0 * (1.0 + 1e-4 / (RATE * inertia)) ** -300, rel=1e-9)


def test_fall_in_a_viscous_field_ends_at_the_terminal_velocity() -> None:
    """m g = b v whatever the period is."""
    for damping in (20.0, 2e4):
        one = world({"oil": {"type": "viscous", "damping": damping}}, gravity=[0, 0, -9.81])
        run(one, 200)
        assert one.twist[2] == pytest.approx(-MASS * 9.81 / damping, rel=1e-6)


def test_flow_takes_a_ball_with_it_and_supplies_what_it_takes() -> None:
    one = world({"river": {"type": "flow", "velocity": [0.3, 0, 0], "damping": 5.0}})
    run(one, 1000)
    assert one.twist[0] == pytest.approx(0.3, rel=1e-9)
    book = one.fields["river"]
    # half of what the medium supplies, m u^2, is dissipated (to the first order in the period: b T / 2 m of it)
    assert book["supplied"] == pytest.approx(MASS * 0.09, rel=1e-9)
    assert book["dissipated"] == pytest.approx(0.5 * MASS * 0.09, rel=1e-6)


def test_turning_flow_has_the_velocity_of_a_rigid_body() -> None:
    spin, centre, at = np.array([0.1, -0.4, 2.0]), np.array([0.02, 0.01, -0.05]), np.array([0.1, 0.2, 0.3])
    field = {"type": "flow", "spin": spin.tolist(), "centre": centre.tolist(), "velocity": [0, 0, 0.1], "damping": 4.0}
    one = world({"whirl": field}, start={"position": at.tolist()})
    one.step()
    medium = np.array([0, 0, 0.1]) + np.cross(spin, at - centre)
    assert one.wrench[:3] == pytest.approx(4.0 * medium / (1.0 + 4.0 / (RATE * MASS)), rel=1e-9)


def test_spring_has_the_frequency_of_the_trapezoidal_rule() -> None:
    """m + T^2 k / 4 swings in the leapfrog: tan(w T / 2) = T / 2 sqrt(k / m)."""
    k = 2e4
    one = world({"spring": {"type": "spring", "point": [0, 0, 0], "stiffness": k}}, start={"position": [0.01, 0, 0]})
    x = []
    for _ in range(400):
        x.append(one.pose[0])
        one.step()
    frequency = 2.0 * RATE * math.atan(0.5 / RATE * math.sqrt(k / MASS))
    # it starts half a step after its velocity is 0
    expected = 0.01 * np.cos(frequency * np.arange(400) / RATE)
    lag = np.sin(frequency * np.arange(400) / RATE)
    fit = np.linalg.lstsq(np.stack([expected, lag], axis=1), np.array(x), rcond=None)
    assert np.abs(np.stack([expected, lag], axis=1) @ fit[0] - x).max() < 1e-10


def test_magnet_pulls_the_most_at_its_distance_and_needs_8_3_f_d_to_leave() -> None:
    field = {"type": "magnetic", "to": {"type": "point", "point": [0, 0, 0]}, "largest_force": 2.0, "distance": 0.02}
    forces = {}
    for d in (0.001, 0.015, 0.02, 0.025, 0.2):
        one = world({"magnet": field}, start={"position": [d, 0, 0]}, rate=20000.0)
        one.step()
        forces[d] = -one.wrench[0]
        assert one.fields["magnet"]["stored"] < 8.0 / 3.0 * 2.0 * 0.02
    assert forces[0.02] == pytest.approx(2.0, rel=1e-4) == max(forces.values())
    assert forces[0.001] == pytest.approx(0.001 * 16.0 / 9.0 * 2.0 / 0.02, rel=3e-3)
    far = world({"magnet": field}, start={"position": [50.0, 0, 0]})
    far.step()
    assert far.fields["magnet"]["stored"] == pytest.approx(8.0 / 3.0 * 2.0 * 0.02, rel=1e-5)


TURN = Rotation.from_euler("xyz", [0.7, -0.3, 0.4])
SHAPES = {
    "sphere": SphereParameters(radius=0.05),
    "box": BoxParameters(size=(0.1, 0.06, 0.08)),
    "capsule": CapsuleParameters(radius=0.03, length=0.08),
    "cylinder": CylinderParameters(radius=0.04, length=0.07),
    "plane": PlaneParameters(normal=(0.2, -0.4, 2.0), offset=0.01),
}


@pytest.mark.parametrize("name", SHAPES)
def test_distances_are_exact_and_normals_their_gradient(name: str) -> None:
    """|grad d| = 1, and the point d away along the normal is on the surface, as the distance itself says."""
    shape = SHAPES[name].model_copy(update={"position": (0.01, 0.02, -0.03), "rotation": (0.7, -0.3, 0.4)})
    numbers = distances.shape_numbers(shape, None, "", outside=True)
    rng = np.random.default_rng(20264)
    for p in rng.uniform(-0.1, 0.1, (200, 3)):
        d, *n = distances.signed_distance(numbers, 0, *p)
        assert np.linalg.norm(n) == pytest.approx(1.0, abs=1e-12)
        assert distances.signed_distance(numbers, 0, *(p - d * np.array(n)))[0] == pytest.approx(0.0, abs=1e-12)
        step = 1e-7 * rng.normal(size=3)
        change = distances.signed_distance(numbers, 0, *(p + step))[0] - d
        if abs(change - step @ n) > 1e-9:  # at an edge, where the distance has a bend
            assert abs(change) <= np.linalg.norm(step) * (1.0 + 1e-6)


def test_spline_passes_through_its_points_and_misses_the_curve_by_little() -> None:
    angle = np.linspace(0.0, 2.0 * math.pi, 40, endpoint=False)
    circle = np.stack([0.1 * np.cos(angle), 0.1 * np.sin(angle), 0.0 * angle], axis=1)
    curve = targets.CurveTargetParameters(points=tuple(map(tuple, circle.tolist())), closed=True)
    line = curve.polyline()
    assert np.abs(np.linalg.norm(line, axis=1) - 0.1).max() < 2e-5
    numbers = curve.numbers(None, "")
    found = np.array(
        [targets.find_distance(numbers, 0, np.array([0.13 * math.cos(a), 0.13 * math.sin(a), 0.04])) for a in angle]
    )
    assert found[:, 0] == pytest.approx(0.05, abs=2e-5)


# Fixtures


def test_forbidden_region_pushes_out_one_sided_and_with_a_bounded_force() -> None:
    wall = {"type": "forbidden", "shape": {"type": "plane"}, "stiffness": 800.0, "damping": 0.0, "largest_force": 3.0}
    for z, force in ((0.002, 0.0), (-0.002, 1.6), (-0.01, 3.0), (-0.1, 3.0)):
        one = world({"wall": wall}, start={"position": [0.1, 0.2, z]}, rate=20000.0)
        one.step()
        assert one.wrench[:3] == pytest.approx([0.0, 0.0, force], rel=1e-3, abs=1e-12)
        depth = -min(z, 0.0)
        stored = 0.4e3 * depth**2 if depth < 3 / 800 else 3.0 * (depth - 0.5 * 3.0 / 800)
        assert one.fields["wall"]["stored"] == pytest.approx(stored, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("shape", sampled(["sphere", "box", "capsule", "cylinder"], "box"))
@pytest.mark.parametrize("keep", ["outside", "inside"])
def test_fixtures_keep_a_ball_where_it_may_be_and_add_no_energy(shape: str, keep: str) -> None:
    """Thrown at random, with the damper of the fixture alone: kinetic and stored energy never rise."""
    rng = np.random.default_rng(7)
    keys = SHAPES[shape].model_dump() | {"position": [0.01, 0.0, 0.02], "rotation": [0.3, 0.2, 0.1]}
    field = {"type": "forbidden", "shape": keys, "keep": keep, "stiffness": 2000.0, "damping": 3.0}
    for _ in range(4):
        start = rng.normal(size=3)
        start *= 0.12 / np.linalg.norm(start) if keep == "outside" else 0.01 / np.linalg.norm(start)
        velocity = -4.0 * start if keep == "outside" else 40.0 * start
        one = world({"fixture": field}, start={"position": start.tolist(), "velocity": [*velocity.tolist(), 0, 0, 0]})
        supplied = before = None
        for _ in range(400):
            one.step()
            supplied = total(one) if supplied is None else supplied
            assert total(one) <= supplied * 1.02
            before = one.energy["numerical"] if before is None else before
        assert one.energy["numerical"] < 0.01 * supplied
        assert one.energy["damping"] >= 0.0


def test_guide_conserves_energy_along_a_curve_but_for_the_order_of_the_period() -> None:
    points = [[0.1 * math.sin(0.5 * i), 0.03 * i - 0.1, 0.02 * math.cos(i)] for i in range(8)]
    guide = {"type": "guide", "along": {"type": "curve", "points": points}, "damping": 0.0, "stiffness": 300.0}
    worst = []
    for rate in (1000.0, 2000.0):
        one = world(
            {"guide": guide}, start={"position": [0.02, 0.01, 0.03], "velocity": [0.1, 0.3, 0, 0, 0, 0]}, rate=rate
        )
        energies = []
        for _ in range(int(rate)):
            one.step()
            energies.append(total(one))
        worst.append(np.ptp(energies) / energies[0])
    assert worst[0] < 0.1
    assert worst[1] < 0.7 * worst[0]


def test_force_of_a_guide_is_minus_the_gradient_of_its_energy_and_continuous_up_to_its_reach() -> None:
    guide = {
        "type": "guide",
        "along": {"type": "curve", "points": [[-1, 0, 0], [1, 0, 0]], "between": "lines"},
        "stiffness": 1000.0,
        "damping": 0.0,
        "largest_force": 4.0,
        "reach": 0.02,
        "edge": 0.008,
    }

    def at(d: float) -> tuple[float, float]:
        one = world({"guide": guide}, start={"position": [0.3, d, 0]}, rate=20000.0)
        one.step()
        return -float(one.wrench[1]), one.fields["guide"]["stored"]

    distance = np.linspace(0.0, 0.024, 49)
    found = np.array([at(d) for d in distance])
    assert np.abs(np.diff(found[:, 0])).max() <= 1001.0 * (distance[1] - distance[0])
    middle = 0.5 * (found[1:, 0] + found[:-1, 0])
    assert np.diff(found[:, 1]) / np.diff(distance) == pytest.approx(middle, abs=0.13)
    assert found[distance >= 0.02, 0] == pytest.approx(0.0, abs=1e-12)
    assert found[:, 0].max() == pytest.approx(4.0, rel=1e-3)


def test_force_jumps_at_the_medial_axis_by_twice_the_force_at_most() -> None:
    slot = {"type": "forbidden", "shape": {"type": "box", "size": [0.02, 0.3, 0.3]}, "stiffness": 500.0, "damping": 0.0}
    forces = []
    for x in (-1e-9, 1e-9):
        one = world({"slot": slot}, start={"position": [x, 0, 0]}, rate=20000.0)
        one.step()
        forces.append(float(one.wrench[0]))
    assert forces[1] - forces[0] == pytest.approx(2.0 * 500.0 * 0.01, rel=1e-3)


def test_fixture_never_pulls_a_ball_that_leaves() -> None:
    wall = {"type": "forbidden", "shape": {"type": "plane"}, "stiffness": 100.0, "damping": 50.0}
    one = world({"wall": wall}, start={"position": [0, 0, -0.01], "velocity": [0, 0, 2.0, 0, 0, 0]})
    for _ in range(30):
        one.step()
        assert one.wrench[2] >= -1e-12


# Stability


@pytest.mark.parametrize("rate", [200.0, 1000.0])
def test_one_spring_conserves_energy_at_any_stiffness_that_is_allowed(rate: float) -> None:
    most = 0.99 * 4.0 * MASS * rate**2
    start = {"position": [0.01, 0, 0.01], "velocity": [1, 1, 1, 0, 0, 0]}
    one = world({"spring": {"type": "spring", "point": [0, 0, 0], "stiffness": most}}, start=start, rate=rate)
    run(one, 500)
    assert total(one) > 0.0 and abs(one.energy["numerical"]) < 1e-9 * total(one)


@pytest.mark.parametrize("rate", [200.0, 1000.0])
def test_stiff_fields_on_a_light_body_together_are_stable_at_the_largest_stiffness(rate: float) -> None:
    most = 0.495 * 4.0 * MASS * rate**2
    fields = {
        "spring": {"type": "spring", "point": [0, 0, 0], "stiffness": most, "damping": 1e4},
        "guide": {
            "type": "guide",
            "along": {"type": "surface", "shape": {"type": "plane"}},
            "stiffness": most,
            "largest_force": 1e4,
        },
        "oil": {"type": "viscous", "damping": 1e5, "turn_damping": 100.0},
    }
    one = world(fields, start={"position": [0.01, 0, 0.01], "velocity": [1, 1, 1, 20, 30, 10]}, rate=rate)
    supplied = None
    for _ in range(500):
        one.step()
        supplied = total(one) if supplied is None else supplied
        assert total(one) <= supplied * 1.5


def test_two_springs_on_one_body_conserve_what_the_leapfrog_does() -> None:
    field = {"type": "spring", "stiffness": 0.45 * 4.0 * MASS * RATE**2}
    one = world(
        {"a": {**field, "point": [0, 0, 0]}, "b": {**field, "point": [0.01, 0, 0]}}, start={"position": [0.02, 0, 0]}
    )
    largest = max((one.step() or abs(one.pose[0] - 0.005)) for _ in range(2000))
    assert largest < 0.05


def test_a_stiffness_beyond_the_rate_is_refused_with_the_largest_that_would_do() -> None:

    with pytest.raises(
        ParameterError,
        match=r"fields.spring: its stiffness of 9e.05 N/m on ball .* together at most 7.92e.05 N/m",
    ):
        world({"spring": {"type": "spring", "point": [0, 0, 0], "stiffness": 9e5}})


# Regions and switching


def test_region_ends_a_field_and_conserves_energy_at_its_edge() -> None:
    field = {
        "type": "spring",
        "point": [0, 0, 0],
        "stiffness": 40.0,
        "region": {"type": "sphere", "radius": 0.05},
        "edge": 0.02,
    }
    one = world({"spring": field}, start={"position": [-0.1, 0.01, 0], "velocity": [0.8, 0, 0, 0, 0, 0]}, rate=4000.0)
    energies = []
    for _ in range(1200):
        one.step()
        energies.append(total(one))
    assert one.pose[0] > 0.08
    assert np.ptp(energies) < 0.01 * energies[0]
    assert energies[-1] == pytest.approx(energies[0], rel=1e-3)


def test_viscous_region_slows_only_within() -> None:
    field = {"type": "viscous", "damping": 4.0, "region": {"type": "box", "size": [0.1, 1, 1], "position": [0.1, 0, 0]}}
    one = world({"oil": field}, start={"velocity": [0.5, 0, 0, 0, 0, 0]})
    run(one, 99)
    assert one.pose[0] < 0.0501 and one.twist[0] == 0.5
    run(one, 300)
    assert one.twist[0] < 0.3


def test_switching_a_loaded_spring_is_supplied_energy() -> None:
    spring = {"type": "spring", "point": [0.03, 0, 0], "stiffness": 200.0, "active": [[0.1, 0.3]], "fade": 0.02}
    one = world({"spring": spring})
    run(one, 100)
    assert one.energy["elastic"] == 0.0 and one.pose[0] == 0.0
    run(one, 150)
    book = one.fields["spring"]
    assert 0.0 < book["switched"] <= 0.5 * 200.0 * 0.03**2 * 1.001
    assert one.energy["injected"] == pytest.approx(book["switched"], rel=1e-12)
    assert total(one) == pytest.approx(book["switched"] + one.energy["numerical"], rel=1e-9)
    run(one, 100)
    after = one.fields["spring"]
    assert one.energy["elastic"] == 0.0
    assert one.energy["kinetic"] == pytest.approx(after["switched"] + one.energy["numerical"], rel=1e-9)
    assert abs(one.energy["numerical"]) < 0.15 * book["switched"]


def test_a_program_switches_fields_which_fade() -> None:
    one = world({"push": {"type": "spring", "point": [1, 0, 0], "stiffness": 10.0, "fade": 0.01}})
    one.step()
    assert one.wrench[0] == pytest.approx(10.0, rel=1e-3)
    one.switch({"push": 0.0})
    forces = []
    for _ in range(12):
        one.step()
        forces.append(float(one.wrench[0]))
    assert forces[:10] == pytest.approx([9.0 - i for i in range(10)], abs=2e-2)
    assert forces[10:] == [0.0, 0.0]
    with pytest.raises(ParameterError, match=r"fields\.pusch: unknown field; did you mean push\?"):
        one.switch({"pusch": 0.5})
    with pytest.raises(ParameterError, match=r"fields\.push = 2: must be from 0 to 1"):
        one.switch({"push": 2.0})


# Bodies and hands


def arm() -> dict[str, Any]:
    bodies: dict[str, Any] = {}
    parent = "world"
    for i in range(3):
        bodies[f"link{i}"] = {
            "joint": "revolute",
            "parent": parent,
            "axis": [0, 0, 1],
            "position": [0.2 if i else 0.0, 0, 0],
            "angle": 0.6,
            "mass": 1.0,
            "centre_of_mass": [0.1, 0, 0],
            "inertia": [0.002, 0.01, 0.01],
        }
        parent = f"link{i}"
    return bodies


def test_field_on_a_link_accelerates_it_as_its_wrench_does() -> None:
    """The same force by a program, at the origin of the link, leads to the same motion."""
    force = np.array([0.3, 0.5, 0.0])
    far = 1e4
    given = {
        "type": "spring",
        "point": (force * far).tolist(),
        "stiffness": 1.0 / far,
        "body": "link1",
        "at": [0, 0, 0],
    }
    one = world({"pull": given}, bodies=arm(), tool="link2")
    other = world({}, bodies=arm(), tool="link2")
    for _ in range(200):
        one.step()
        other.step(wrenches={"link1": [*force, 0, 0, 0]})
    for name in arm():
        assert one.bodies[name].quaternion == pytest.approx(other.bodies[name].quaternion, abs=1e-4)
    # what the hand feels accelerates it as the field does: the wrench of a field on another link
    assert np.abs(one.wrench).max() > 0.05


def test_field_on_another_body_is_not_felt_and_books_close() -> None:
    bodies = {"ball": ball(), "other": ball(position=[0.5, 0, 0])}
    one = world(
        {"spring": {"type": "spring", "body": "other", "point": [0.5, 0.1, 0], "stiffness": 30.0}}, bodies=bodies
    )
    run(one, 300)
    assert one.wrench.tolist() == [0.0] * 6 and one.pose[0] == 0.0
    assert one.bodies["other"].velocity[1] != 0.0
    energy = one.energy
    left = total(one) - 0.5 * 30.0 * 0.01 - energy["injected"] + energy["damping"] - energy["numerical"]
    assert left == pytest.approx(0.0, abs=1e-12)


def test_hand_feels_a_field_at_an_off_centre_point_with_its_torque() -> None:
    start = {"position": [0.1, 0, 0]}
    one = world(
        {"s": {"type": "spring", "point": [0.1, 0.05, 0.02], "stiffness": 20.0, "at": [0.03, 0, 0]}}, start=start
    )
    one.step()
    force = 20.0 * np.array([-0.03, 0.05, 0.02])
    assert one.wrench[:3] == pytest.approx(force, rel=1e-2, abs=1e-3)
    assert one.wrench[3:] == pytest.approx(np.cross([0.03, 0, 0], one.wrench[:3]), abs=1e-12)


def test_state_of_a_world_holds_its_fields() -> None:
    fields = {"s": {"type": "spring", "point": [0.1, 0, 0], "stiffness": 50.0, "active": [[0.02, 0.08]], "fade": 0.05}}
    one = world(fields)
    run(one, 40)
    state = one.state
    run(one, 60)
    first, book = one.pose.tobytes(), one.fields
    one.state = state
    run(one, 60)
    assert one.pose.tobytes() == first and one.fields == book


# Laws of others


@kernel
def swirl(place, keys, answer):
    """A push across the radius, which no energy is stored for."""
    answer.push[0], answer.push[1] = -keys[0] * place.position[1], keys[0] * place.position[0]


class SwirlParameters(FieldParameters):
    """A push about the axis z."""

    LAW: ClassVar[Any] = swirl
    type: Literal["swirl"] = "swirl"
    size: float = quantity(unit="N/m", description="Push by the distance from the axis")


@kernel
def broken(place, keys, answer):
    answer.force[0] = math.nan


class BrokenParameters(FieldParameters):
    """No numbers."""

    LAW: ClassVar[Any] = broken
    type: Literal["broken"] = "broken"


def test_a_law_of_another_package_supplies_what_it_pushes() -> None:
    one = world({"swirl": {"type": "test_force_fields:SwirlParameters", "size": 3.0}}, start={"position": [0.1, 0, 0]})
    run(one, 199)
    supplied = one.fields["swirl"]["supplied"]
    one.step()  # energies are those at the beginning of the last step
    assert one.energy["injected"] == pytest.approx(supplied, rel=1e-12)
    assert one.energy["injected"] > 1e-4
    assert abs(one.energy["numerical"]) < 1e-12 + 1e-9 * one.energy["injected"]


def test_what_is_not_finite_is_no_field() -> None:
    one = world({"broken": {"type": "test_force_fields:BrokenParameters"}}, start={"velocity": [0.1, 0, 0, 0, 0, 0]})
    run(one, 10)
    assert one.twist[0] == 0.1 and one.wrench.tolist() == [0.0] * 6


# Bad input


@pytest.mark.parametrize(
    ("field", "text"),
    [
        (
            {"type": "viscous", "damping": 1.0, "body": "bal"},
            r"scene\.fields\.f\.body = bal: unknown body; did you mean ball\?",
        ),
        (
            {"type": "viscous", "damping": 1.0, "body": "floor"},
            r"fields\.f\.body = floor: is fixed; must be a body that moves",
        ),
        ({"type": "viscous"}, r"fields\.f\.damping: missing"),
        ({"type": "viscus", "damping": 1.0}, r"fields\.f\.type = viscus: must be one of 'viscous'"),
        ({"type": "viscous", "damping": -1.0}, r"fields\.f\.damping = -1 N s/m: must be >= 0 N s/m"),
        ({"type": "viscous", "damping": 1.0, "active": []}, r"active = .*: needs at least one interval"),
        (
            {"type": "viscous", "damping": 1.0, "active": [[0.2, 0.1]]},
            r"fields\.f\.active\[0\]\[1\] = 0\.1 s: must be after",
        ),
        ({"type": "guide", "along": {"type": "curve", "points": [[0, 0, 0]]}}, r"points.*: has 1 points: must have 2"),
        (
            {"type": "guide", "along": {"type": "curve", "points": [[0, 0, 0], [0, 0, 0]]}},
            r"points\[1\]: must be farther",
        ),
        (
            {"type": "guide", "along": {"type": "surface", "shape": {"type": "plane"}}, "reach": 0.001},
            r"reach = 0\.001 m: must be larger",
        ),
        (
            {"type": "guide", "side": "inside", "along": {"type": "curve", "points": [[0, 0, 0], [1, 0, 0]]}},
            r"side = inside: is for along\.type = surface",
        ),
    ],
)
def test_bad_input_is_named_with_a_remedy(field: dict[str, Any], text: str) -> None:
    bodies = {"ball": ball(), "floor": {"joint": "fixed", "shapes": [{"type": "plane", "offset": -1.0}]}}
    with pytest.raises(ParameterError, match=text):
        world({"f": field}, bodies=bodies)


def test_exact_constraints_and_fields_are_refused_together() -> None:
    line = {"type": "point_on_line", "body": "ball", "direction": [1, 0, 0]}
    with pytest.raises(ParameterError, match=r"scene\.fields: support only worlds without exact constraints"):
        world({"oil": {"type": "viscous", "damping": 1.0}}, constraints={"line": line})
