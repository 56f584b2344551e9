"""The energy balance of MuJoCo's bodies: closed forms, what is left out, and what the verdict makes of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from offline_runs import run_unrecorded

import haptic_sim
from haptic_bench.analysis.verdict import Verdict, verdict_of
from haptic_bench.experiment.loading import load_document
from haptic_bench.recording.samples import Samples
from haptic_sim import World
from haptic_sim.dynamics.energy import TERMS
from haptic_sim.tool.mujoco_books import MujocoBooks

mujoco = pytest.importorskip("mujoco")
G = 9.81  # [m/s^2]


def booked(bodies: str, steps: int, extra: str = "", option: str = "", out: str | None = None, **state: Any) -> Any:
    """Books of a world after some steps of 1 ms, and its data; `out` names a body that is left out."""
    text = f'<mujoco><option timestep="0.001" {option}/><worldbody>{bodies}</worldbody>{extra}</mujoco>'
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    for name, values in state.items():
        getattr(data, name)[:] = values
    left_out = None if out is None else np.arange(model.nbody) == model.body(out).id
    books = MujocoBooks(model, data, left_out)
    for _ in range(steps):
        books.begin()
        mujoco.mj_step(model, data)
        books.end()
    return books, data


def values(books: MujocoBooks) -> dict[str, float]:
    return dict(zip(TERMS, books.values.tolist(), strict=True))


def test_a_ball_that_falls_has_the_energies_of_free_fall() -> None:
    """Semi-implicit Euler loses 1/2 m g^2 T^2 a step, which is numerical."""
    ball = '<body pos="0 0 1"><freejoint/><geom type="sphere" size=".05" mass=".3"/></body>'
    found = values(booked(ball, 201)[0])  # at the beginning of the last step: after 200
    v, fallen = 0.2 * G, 0.5 * G * 0.2 * 0.201
    assert found["kinetic"] == pytest.approx(0.5 * 0.3 * v * v, rel=1e-9)
    assert found["potential"] == pytest.approx(0.3 * G * (1.0 - fallen), rel=1e-9)
    assert found["numerical"] == pytest.approx(-200 * 0.5 * 0.3 * (G * 1e-3) ** 2, rel=1e-6)
    assert {found[name] for name in ("elastic", "injected", "damping", "friction", "impact")} == {0.0}


def test_springs_of_joints_and_tendons_are_elastic() -> None:
    """A slide on a spring of 50 N/m, and a tendon of 30 N/m along it."""
    slide = """<body><joint name="j" type="slide" axis="1 0 0" stiffness="50"/>
        <geom type="sphere" size=".05" mass="2"/></body>"""
    tendon = '<tendon><fixed stiffness="30" springlength="0"><joint joint="j" coef="1"/></fixed></tendon>'
    books, _ = booked(slide, 1, tendon, qpos=[0.1])
    assert values(books)["elastic"] == pytest.approx(0.5 * 80.0 * 0.1**2, rel=1e-9)
    books, _ = booked(slide, 2001, tendon, qpos=[0.1])
    found = values(books)
    assert found["kinetic"] + found["elastic"] == pytest.approx(0.4, rel=0.01)  # of the symplectic step
    assert abs(found["numerical"]) < 0.004


def test_dampers_and_dry_friction_dissipate_what_a_slide_had() -> None:
    slide = """<body><joint type="slide" axis="1 0 0" {}/><geom type="sphere" size=".05" mass="2"/></body>"""
    for law, name in (('damping="3"', "damping"), ('frictionloss="1" solreffriction="0.002 1"', "friction")):
        found = values(booked(slide.format(law), 6001, qvel=[1.0])[0])
        assert found[name] == pytest.approx(1.0, rel=0.01) and found["kinetic"] < 1e-3
        assert abs(found["numerical"]) < 0.01
        assert {found[other] for other in ("damping", "friction", "impact", "injected")} == {0.0, found[name]}


def test_a_servo_supplies_what_it_gives_and_takes() -> None:
    """A position servo stretched by 0.2 m gives 1/2 k x^2 to a mass on its way to the middle, and takes it back."""
    slide = '<body><joint name="j" type="slide" axis="1 0 0"/><geom type="sphere" size=".05" mass="2"/></body>'
    servo = '<actuator><position joint="j" kp="50"/></actuator>'
    quarter = round(0.5 * math.pi * math.sqrt(2.0 / 50.0) * 1000)
    books, _ = booked(slide, quarter + 1, servo, qpos=[0.2])
    found = values(books)
    assert books.supplied == found["injected"] == pytest.approx(0.5 * 50.0 * 0.2**2, rel=5e-3)
    assert found["kinetic"] == pytest.approx(1.0, rel=5e-3) and found["elastic"] == 0.0
    books, _ = booked(slide, 2 * quarter + 1, servo, qpos=[0.2])
    assert abs(books.supplied) < 5e-3


def test_gravity_that_is_balanced_or_switched_off_stores_nothing() -> None:
    ball = '<body pos="0 0 1" gravcomp="0.75"><freejoint/><geom type="sphere" size=".05" mass=".4"/></body>'
    assert values(booked(ball, 1)[0])["potential"] == pytest.approx(0.1 * G)
    off = '<flag gravity="disable"/>'
    text = f"<mujoco><option>{off}</option><worldbody>{ball}</worldbody></mujoco>"
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    books = MujocoBooks(model, data)
    books.begin()
    mujoco.mj_step(model, data)
    books.end()
    assert values(books)["potential"] == values(books)["elastic"] == 0.0


def test_what_a_collision_dissipates_is_that_of_an_impact() -> None:
    """A ball comes to rest on a plane: all that gravity gave it. What a springy contact gives back is numerical."""
    ball = """<geom type="plane" size="1 1 1"/><body pos="0 0 .25"><freejoint/>
        <geom type="sphere" size=".05" solref=".003 1" priority="1" mass=".3"/></body>"""
    found = values(booked(ball, 3000)[0])
    assert found["impact"] == pytest.approx(0.3 * G * 0.2, rel=0.02)
    assert abs(found["numerical"]) < 0.02 * 0.3 * G * 0.2
    bouncy = ball.replace(".003 1", "-20000 -5")
    found = values(booked(bouncy, 240)[0])  # on its way up, after the first bounce
    depth = (G + math.sqrt(G * G + 4.0 * 1e4 * G * 0.2)) / 2e4  # of its turn: 20000 / 2 d^2 = g (0.2 + d)
    assert found["kinetic"] > 0.3
    assert found["impact"] == pytest.approx(0.3 * G * (0.2 + depth), rel=0.02), "the largest sum so far: at the turn"
    above = found["potential"] - 0.3 * G * (0.05 - depth)
    assert found["numerical"] == pytest.approx(found["kinetic"] + above, rel=0.03)


def test_the_books_close_at_every_step() -> None:
    """kinetic + potential + elastic = their sum at the start + injected - dissipated + numerical, which is little."""
    stack = '<geom type="plane" size="1 1 1"/>' + "".join(
        f'<body pos="0 0 {0.06 + 0.13 * i}" euler="0 0 {10 * i}"><freejoint/><geom type="box" size=".05 .05 .05" '
        'solref=".003 1" priority="1" mass=".5"/></body>'
        for i in range(3)
    )
    books, data = booked(stack, 0)
    for _ in range(800):
        data.qfrc_applied[0] = 1.0
        books.begin()
        mujoco.mj_step(books._model, data)
        books.end()
        found = values(books)
        stored = found["kinetic"] + found["potential"] + found["elastic"]
        flows = found["injected"] - found["damping"] - found["friction"] - found["impact"] + found["numerical"]
        assert stored == pytest.approx(books.start[:3].sum() + flows, abs=1e-12)
    assert abs(found["numerical"]) < 0.05 * (books.start[1] - found["potential"])


def test_what_is_left_out_injects_what_it_does_to_the_others() -> None:
    """A ball falls on a tool that is left out: what the ball loses in the contact is injected, and not dissipated."""
    bodies = """<body name="tool"><freejoint/><geom type="box" size=".1 .1 .02" mass="1"/></body>
        <body name="ball" pos="0 0 .2"><freejoint/><geom type="sphere" size=".05" mass=".3"/></body>"""
    whole, _ = booked(bodies, 400, option='gravity="0 0 0"', qvel=[0] * 8 + [-1.0, 0, 0, 0])
    books, data = booked(bodies, 400, option='gravity="0 0 0"', out="tool", qvel=[0] * 8 + [-1.0, 0, 0, 0])
    found, all_of_it = values(books), values(whole)
    assert books.start[0] == pytest.approx(0.5 * 0.3) == whole.start[0]
    assert found["kinetic"] == pytest.approx(0.5 * 0.3 * float(data.qvel[8] ** 2), rel=1e-6)
    assert found["injected"] == pytest.approx(found["kinetic"] - books.start[0], rel=1e-6) and found["injected"] < -0.05
    assert found["impact"] == found["friction"] == found["damping"] == 0.0
    assert all_of_it["injected"] == 0.0 and all_of_it["impact"] > 0.05
    given = 0.5 * 1.0 * float(data.qvel[2] ** 2)  # what the tool has got
    assert -found["injected"] == pytest.approx(given + all_of_it["impact"], rel=0.02)


def test_a_program_reads_the_same_terms_as_of_our_own_worlds(tmp_path: Path) -> None:
    (tmp_path / "ball.xml").write_text("""<mujoco><worldbody><geom type="plane" size="1 1 .1"/>
        <body name="ball" pos="0 0 .2"><freejoint/><geom type="sphere" size=".05" mass=".3"/></body>
        </worldbody></mujoco>""")
    world = World(haptic_sim.load(tmp_path / "ball.xml", engine="mujoco", rate=1000.0))
    assert set(world.energy.values()) == {0.0} and tuple(world.energy) == TERMS
    for _ in range(100):
        world.step([0.0, 0.0, 2.0, 0.0, 0.0, 0.0])
    found = world.energy
    assert found["injected"] == pytest.approx(2.0 * (world.bodies["ball"].position[2] - 0.2), rel=0.03)
    kept, state = world.energy, world.state
    for _ in range(50):
        world.step()
    ahead = world.energy
    world.state = state
    assert world.energy == kept
    for _ in range(50):
        world.step()
    assert world.energy == ahead


def drop(folder: Path, bodies: str, tool: str = "", **sections: Any) -> tuple[Samples, Verdict]:
    """A trial in which bodies fall on a box that a soft arm holds, and its verdict."""
    text = f"""<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="2 2 .1"/>
        <body name="tool" pos="0 0 .1"><freejoint/><geom type="box" size=".06 .06 .01" mass=".3"/>{tool}</body>
        {bodies}</worldbody></mujoco>"""
    (folder / "world.xml").write_text(text)
    document = {
        "name": "drop",
        "duration": 0.6,
        "rate": 1000.0,
        "operator": {"type": "arm", "path": [[0, 0, 0, 0], [0.6, 0, 0, 0]], "stiffness": 300.0, "damping": 5.0},
        "scene": {"type": "mujoco", "file": str(folder / "world.xml"), "tool": "tool", "gravity_compensation": True},
        "environment": {"rate": 100.0},
        "local_model": {"type": "full", "constraints": "dynamic"},
    }
    document |= sections
    (trial,) = load_document(document, folder / "drop.yaml")
    trial = trial.in_mode("offline")
    samples = run_unrecorded(trial)
    return samples, verdict_of(trial, samples)


def ball(mass: float, height: float = 0.3) -> str:
    return f'<body name="b" pos="0 0 {height}"><freejoint/><geom type="sphere" size=".03" mass="{mass}"/></body>'


def test_a_body_that_falls_on_the_tool_gives_what_it_had_stored(tmp_path: Path) -> None:
    """It failed as active with 200 mJ, of the 0.47 J that a ball of 0.3 kg loses on its way."""
    samples, verdict = drop(tmp_path, ball(0.3))
    lost = samples["others_energy_potential"][0] - samples["others_energy_potential"].min()
    assert verdict.verdict == "passive" and verdict.energy_given > 0.05
    assert 0.05 < verdict.stored <= lost
    assert "which the world had stored" in verdict.text
    assert samples["others_energy_potential"][0] == pytest.approx(0.3 * G * 0.3, rel=1e-3)


def test_planes_that_push_as_infinite_masses_are_active_still(tmp_path: Path) -> None:
    """A ball of 30 g moves on between updates, whatever it meets: it gives the hand more than it had."""
    kinematic = {"type": "full", "constraints": "kinematic"}
    samples, verdict = drop(tmp_path, ball(0.03), local_model=kinematic)
    stores = [samples[f"others_energy_{name}"] for name in ("kinetic", "potential")]
    assert verdict.verdict == "active" and verdict.energy_given > np.max(stores[1][0] - stores[1])
    assert "set local_model.constraints=dynamic" in verdict.failure
    assert drop(tmp_path, ball(0.03))[1].verdict == "passive"


def test_what_an_actuator_supplies_is_nothing_that_was_stored(tmp_path: Path) -> None:
    """A motor pushes a plunger up against the tool: the hand gets its work, and the trial is active."""
    plunger = """<body name="p" pos="0 0 .05"><joint name="up" type="slide" axis="0 0 1" damping="1"/>
        <geom type="sphere" size=".03" mass=".2"/></body>"""
    (tmp_path / "m").mkdir()
    text = plunger + "</worldbody><actuator><position joint='up' kp='200' ctrlrange='-1 1'/></actuator>"
    key = "<keyframe><key name='up' ctrl='.1'/></keyframe><worldbody>"
    scene = {"type": "mujoco", "file": str(tmp_path / "world.xml"), "tool": "tool", "gravity_compensation": True}
    samples, verdict = drop(tmp_path, text + key, scene=scene | {"keyframe": "up"})
    assert samples["others_energy_supplied"].max() > 0.05
    assert verdict.energy_given > 0.01 and verdict.stored < 1e-3 and verdict.verdict == "active"


def test_energies_are_those_of_the_trial_itself(tmp_path: Path) -> None:
    """The surveys are computed again: with the same states, so that the bodies are where messages have them."""
    samples, _ = drop(tmp_path, ball(0.3))
    world = samples.world
    assert world is not None
    place = world.bodies.index("b")
    height = 0.3 * G * world.poses[:, place, 2]
    booked = np.interp(world.tick, samples["tick"], samples["others_energy_potential"])
    # a world state has the bodies of the update before, and the books are those of the next one
    shifted = np.interp(world.tick - 20, world.tick, booked)
    assert np.abs(shifted - height)[3:].max() < 0.3 * G * 0.02


@pytest.mark.exhaustive
@pytest.mark.parametrize("number", range(30))
def test_random_drops_with_masses_as_planes_are_passive(tmp_path: Path, number: int) -> None:
    """Bodies of random shapes and masses fall on a tool that an arm holds, or nobody."""
    rng = np.random.default_rng([20268, number])
    bodies, height = [], 0.12
    for i in range(int(rng.integers(1, 4))):
        size, mass = rng.uniform(0.015, 0.04), math.exp(rng.uniform(math.log(0.03), 0.0))
        height += rng.uniform(0.1, 0.2)
        kind = rng.choice(["box", "sphere", "capsule", "cylinder"])
        sizes = {"box": size * rng.uniform(0.5, 1.2, 3), "sphere": [size]}.get(kind, [0.6 * size, 0.8 * size])
        angles, (x, y) = rng.uniform(-180, 180, 2), rng.uniform(-0.02, 0.02, 2)
        bodies.append(
            f'<body name="b{i}" pos="{x} {y} {height}" euler="{angles[0]} {angles[1]} 0"><freejoint/>'
            f'<geom type="{kind}" size="{" ".join(map(str, sizes))}" mass="{mass}"/></body>'
        )
    held = {"type": "arm", "path": [[0, 0, 0, 0], [1, 0, 0, 0]], "stiffness": float(rng.choice([100, 300, 1000]))}
    free = {"type": "constant", "wrench": [0.0] * 6}
    samples, verdict = drop(
        tmp_path,
        "".join(bodies),
        duration=1.2,
        operator=(held | {"damping": 5.0}) if number % 2 else free,
        environment={"rate": float(rng.choice([60, 100, 200]))},
    )
    assert verdict.verdict == "passive", verdict.text
    assert abs(samples["others_energy_numerical"]).max() < 0.1 * samples["others_energy_potential"][0]
