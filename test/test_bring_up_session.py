"""A whole first contact in simulated time: wrong axes, signs and units are corrected or named, and force is bounded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bring_up_person import PERMUTATIONS, ROTATIONS, Person
from conftest import sampled
from fake_hardware import data

from haptic_drivers.bring_up.push import PART
from haptic_drivers.bring_up.readings import mount_of
from haptic_drivers.bring_up.session import Session
from haptic_sim.rotations import matrix

LIMIT = 8.0  # [N] of the device of `fake_hardware`
Change = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
READ = ["rate", "position", "return", "velocity", "zero", "noise", *2 * ["orientation", "angular velocity"]]
ALL = [*READ, "button", "button", "push right", "push away", "push up", "command watchdog", "reading watchdog"]


def check_force(person: Person) -> None:
    """It came after presence was confirmed, was at most a tenth, and is over."""
    assert not person.forced_early
    assert (person.largest <= PART * LIMIT * (1.0 + 1e-12)).all()
    assert not person.session.wants_force
    for _ in range(50):
        person.tick()
        assert not person.written.any()


@pytest.mark.parametrize("case", sampled(range(24), 5))
def test_each_rotation_of_the_base_is_corrected_by_the_mount(case: int) -> None:
    R_WB = ROTATIONS[case]
    person = Person(R_WB)
    session = person.run()
    assert session.stopped == ""
    assert np.array_equal(session.R_WB, R_WB)
    assert np.allclose(matrix(mount_of(session.R_WB)[3:]), R_WB, atol=1e-12)
    assert [step.name for step in session.steps] == ALL
    assert all(step.passed for step in session.steps)
    assert person.largest.max() == pytest.approx(PART * LIMIT, rel=1e-12)
    check_force(person)


def scaled(factor: float, part: slice) -> Change:
    """A part of pose and twist, both times a factor."""

    def change(pose: np.ndarray, twist: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        pose[part] *= factor
        twist[part] *= factor
        return pose, twist

    return change


def permuted(P: np.ndarray, position: bool = True) -> Change:
    """Positions and velocities, or the latter alone, along other axes."""

    def change(pose: np.ndarray, twist: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if position:
            pose[:3] = P @ pose[:3]
        twist[:3] = P @ twist[:3]
        return pose, twist

    return change


def degrees(pose: np.ndarray, twist: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Orientations whose angle is taken in degrees for one in radians."""
    angle = 2.0 * math.atan2(np.linalg.norm(pose[3:6]), pose[6])
    if angle > 0.0:
        axis = pose[3:6] / np.linalg.norm(pose[3:6])
        pose[3:6], pose[6] = axis * math.sin(0.5 * np.degrees(angle)), math.cos(0.5 * np.degrees(angle))
    return pose, twist


def turning_in_degrees(pose: np.ndarray, twist: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    twist[3:] = np.degrees(twist[3:])
    return pose, twist


def conjugate(pose: np.ndarray, twist: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    pose[3:6] *= -1.0
    return pose, twist


def frozen(pose: np.ndarray, twist: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    pose[:3] = 0.0
    return pose, twist


WRONG: dict[str, tuple[Change, str, str]] = {
    "mm": (scaled(1e3, slice(0, 3)), "position: 100: mm", "multiply positions by 0.001"),
    "km": (scaled(1e-3, slice(0, 3)), "position: 0.0001: km", "multiply positions by 1000"),
    "degrees": (degrees, "orientation:", "multiply angles by 0.01745"),
    "degrees a second": (turning_in_degrees, "angular velocity:", "multiply the angular velocity by 0.01745"),
    "inverse orientation": (conjugate, "orientation:", "invert the orientation"),
    "frozen": (frozen, "position: no motion: right", "check that the device is calibrated"),
    "velocity against the motion": (permuted(-np.eye(3), position=False), "velocity:", "change the sign of the velo"),
    "velocity along other axes": (permuted(ROTATIONS[8], position=False), "velocity:", "same axes as the position"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_each_wrong_reading_is_named_and_no_force_comes(name: str) -> None:
    change, found, remedy = WRONG[name]
    # the angle of an orientation is that of the turn where the base is not turned
    person = Person(np.eye(3) if "orientation" in found else ROTATIONS[7], change=change)
    session = person.run()
    assert session.stopped.startswith(found)
    assert session.steps[-1].passed is False
    assert remedy in session.steps[-1].remedy
    assert not person.largest.any()
    assert any("To repeat it" in one for one in person.asked)
    check_force(person)


REFLECTIONS = [one for one in PERMUTATIONS if np.linalg.det(one) < 0.0]


@pytest.mark.parametrize("case", sampled(range(24), 5))
def test_each_reflection_is_named(case: int) -> None:
    session = Person(np.eye(3), change=permuted(REFLECTIONS[case])).run()
    assert session.stopped.startswith("position: left-handed axes: right is ")
    assert session.steps[-1].remedy == "change the sign of an axis, or exchange two, in the driver"


@pytest.mark.parametrize("case", sampled(range(48), 4, 30))
def test_each_wrong_axis_of_the_force_is_named(case: int) -> None:
    acts = PERMUTATIONS[case]
    person = Person(np.eye(3), acts=acts)
    session = person.run()
    if np.array_equal(acts, np.eye(3)):
        assert session.stopped == ""
    else:
        assert session.stopped.startswith("push ")
        assert session.steps[-1].remedy in (
            "change the sign of the force in the driver",
            "give the force in the same axes as the position in the driver",
        )
    check_force(person)


def test_a_force_that_nobody_feels_is_named() -> None:
    person = Person(np.eye(3), acts=np.zeros((3, 3)))
    session = person.run()
    assert session.stopped == "push right: none felt; expected: right"
    assert "motors are on" in session.steps[-1].remedy
    check_force(person)


def test_a_device_in_the_plane_has_its_own_axes_and_workspace() -> None:
    box = (-0.05, -0.05, -0.01, 0.05, 0.05, 0.01)
    person = Person(np.eye(3), sensed=("x", "y"), actuated=("x", "y"), buttons=(), workspace=box)
    session = person.run()
    assert session.stopped == ""
    assert [step.name for step in session.steps] == [
        *READ[:6], "push right", "push away", "command watchdog", "reading watchdog",
    ]  # fmt: skip
    assert "0.04 m" in session.steps[1].asked
    check_force(person)


def said(**words: str) -> Callable[[str], str]:
    """What is answered to a request that contains a word; else nothing."""
    return lambda request: next((words[one] for one in words if one in request), "")


def test_no_presence_no_force() -> None:
    for word in ("", "yes", "hold", "held it"):
        person = Person(np.eye(3))
        person.word = said(held=word)  # type: ignore[method-assign]
        assert person.run().stopped == f"push: presence: {word or 'nothing'} answered, held expected"
        assert not person.largest.any()
    person = Person(np.eye(3))
    person.present = 0
    assert person.run().stopped.startswith("push: presence: held answered, but the device reads that nobody holds it")
    assert not person.largest.any()


def test_what_depends_on_the_person_may_be_repeated() -> None:
    person, mistakes = Person(np.eye(3)), ["right"]
    motion = person.motion

    def clumsy(request: str) -> Any:
        if "to the right without" in request and mistakes:
            mistakes.pop()
            return motion(request.replace("to the right", "up"))
        return motion(request)

    def word(request: str) -> str:
        return "again" if "To repeat" in request else Person.word(person, request)

    person.motion, person.word = clumsy, word  # type: ignore[method-assign]
    session = person.run()
    assert session.stopped == ""
    assert sum("To repeat" in one for one in person.asked) == 1
    assert [step.name for step in session.steps] == ALL


def test_a_device_that_is_not_homed_or_has_a_fault_ends_it() -> None:
    person = Person(np.eye(3))
    person.homed = False
    assert person.run().stopped.startswith("homed: it does not know its position")
    person = Person(np.eye(3))
    person.fault = "amplifier too hot"
    assert person.run().stopped == "fault: amplifier too hot"
    with pytest.raises(ValueError, match=r"sensed = x, rz: must contain x, y, z, or x and y"):
        Session(data(sensed=["x", "rz"]))


@pytest.mark.parametrize("seed", sampled(range(60), 0, 1))
def test_random_answers_faults_and_stops_never_give_an_early_or_large_force(seed: int) -> None:
    """At a random instant something happens, at most once; whatever it is, the force is zero in the end."""
    generator = np.random.default_rng(seed)
    person = Person(ROTATIONS[seed % 24], yields=float(generator.choice((0.0, 2e-2))))
    at = generator.uniform(0.0, 22.0)
    event = generator.choice(("stop", "fault", "let go", "nan", "word"))
    tick, word = person.tick, person.word

    def happening() -> None:
        if person.time > at:
            if event == "stop":
                person.session.stop("interrupted")
            elif event == "fault":
                person.fault = "hot"
            elif event == "let go":
                person.present = 0
            elif event == "nan":
                person.change = lambda pose, twist: (pose * np.nan, twist)
        tick()
        assert not (event in ("stop", "fault") and person.time > at + 0.01 and person.written.any())

    def talking(request: str) -> str:
        random = event == "word" and person.time > at
        return str(generator.choice(("held", "right", "up", "again", "", "no"))) if random else word(request)

    person.tick, person.word = happening, talking  # type: ignore[method-assign]
    person.run()
    person.tick = tick  # type: ignore[method-assign]
    check_force(person)
