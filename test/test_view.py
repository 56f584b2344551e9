"""The view: scenes and frames as data, the page in a browser, and that a trial does not notice who looks on."""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from browser import Browser, require
from conftest import ROOT, Haptics, sampled, wait_until
from pages import client, load, page_of, port_of_own
from starting import die_with_parent

from haptic_bench import experiment
from haptic_bench.analysis.base import analysis_of
from haptic_bench.catalogue import catalogue
from haptic_bench.commands import command_line
from haptic_bench.commands.view import chosen, same_world
from haptic_bench.experiment.shown import build_scene, gains_of, sources_of
from haptic_bench.recording.frames import RecordedFrames, read_frames
from haptic_bench.recording.samples import MessageStore, Samples
from haptic_bench.running import namespaces, viewing
from haptic_sim.constraints.scenes import ConstrainedSetup
from haptic_sim.messages import CONTACT, MessageError, ToolCommand, ToolState, tick_place
from haptic_sim.parameters import ParameterError
from haptic_view.frame import SLIDING, Chart, Frame, slides
from haptic_view.live import LiveFrames
from haptic_view.page import PageError, free_port
from haptic_view.shapes import at, matrix_of
from haptic_view.strips import strip

PLACE = tick_place()


def messages_of(trial: experiment.Trial) -> dict[str, list[bytes]]:
    """All messages of an offline run in memory."""
    store = MessageStore()
    analysis_of(trial.experiment).simulate(trial, store)
    return store.messages


# Scenes


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sampled(catalogue(), "bicycle", "corner_peg", "door", "mujoco_drawer", "two_hands"))
def test_every_experiment_has_a_scene(name: str) -> None:
    if name.startswith("mujoco"):
        pytest.importorskip("mujoco")
    trial = load(name)
    scene = build_scene(trial)
    assert len(scene.bodies) == len(scene.poses) == len(scene.moving)
    assert {scene.bodies[i] for i in scene.held} <= {scene.bodies[i] for i, moves in enumerate(scene.moving) if moves}
    drawn = {shape.body for shape in scene.shapes}
    assert set(scene.held) <= drawn
    for shape in scene.shapes:
        assert np.isfinite(shape.vertices).all()
        assert shape.faces.max(initial=-1) < len(shape.vertices)
    assert 0.0 < scene.size < 100.0
    # the hand that the scene holds is where the trial says
    holding = scene.hands[0]
    X_WH = matrix_of(scene.poses[holding.body]) @ np.linalg.inv(holding.X_HB)
    assert X_WH[:3, 3] == pytest.approx(np.array(trial.hand.pose[:3]), abs=1e-6)


def test_shapes_have_the_extent_that_the_experiment_gives() -> None:
    scene = build_scene(load("two_hands"))
    box = next(shape for shape in scene.shapes if scene.bodies[shape.body] == "box")
    assert np.ptp(box.vertices, axis=0) == pytest.approx([0.1, 0.1, 0.1])
    assert at(scene.poses[box.body], box.vertices).mean(axis=0) == pytest.approx([0.0, 0.0, 0.05])
    corners = box.vertices[box.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert np.all(np.einsum("ij,ij->i", normals, corners.mean(axis=1)) > 0.0)  # from outside, counter-clockwise


def test_links_of_a_constrained_tool_meet_at_its_joint() -> None:
    trial = load("two_link_circle", "duration=0.2")
    frames = RecordedFrames(trial, messages_of(trial))
    for index in (0, len(frames) - 1):
        tool, link, _ = frames.frame(index).poses
        length = trial.experiment.scene.length
        elbow = at(link, np.array([[length, 0.0, 0.0]]))[0]
        assert at(tool, np.array([[-length, 0.0, 0.0]]))[0] == pytest.approx(elbow, abs=1e-9)


# Frames


def test_systems_from_formulas_have_the_links_of_their_drawing() -> None:
    """Rods of Peaucellier's linkage that meet at joints wherever it is, and the wheels of the turned bicycle."""
    trial = load("peaucellier")
    scene, start = build_scene(trial), trial.start
    assert isinstance(start, ConstrainedSetup)
    tool = trial.tool_side()
    command, state = ToolCommand(), tool.tool_state()
    command.wrench[0] = 0.5
    for _ in range(200):
        tool.step(command, state)
    poses = scene.place(np.array([state.pose]), state.q)
    assert poses == pytest.approx(scene.from_configuration(state.q), abs=1e-12)
    ends = {}
    for name, pose, length in zip(scene.bodies[1:], poses[1:], (0.5, 0.5, 0.2, 0.2, 0.2, 0.2, 0.2), strict=True):
        first, second = at(pose, np.array([[-0.5 * length, 0, 0], [0.5 * length, 0, 0]]))
        for joint, place in zip(name.split(), (first, second), strict=True):
            assert place == pytest.approx(ends.setdefault(joint, place), abs=1e-9)
    assert ends["P"] == pytest.approx(state.pose[:3], abs=1e-9) and state.pose[0] > 0.005

    scene, bicycle = build_scene(load("bicycle")), load("bicycle").start
    assert isinstance(bicycle, ConstrainedSetup)
    q = bicycle.q.copy()
    q[bicycle.system.coordinates.index("delta")] = 0.3
    poses = dict(zip(scene.bodies, scene.from_configuration(q), strict=True))
    axis = at(poses["circle 2 about front"], np.eye(3)[2:])[0] - poses["circle 2 about front"][:3]
    lam = math.pi / 10.0
    assert axis == pytest.approx([math.sin(0.3) * math.cos(lam), math.cos(0.3), math.sin(0.3) * math.sin(lam)])
    wheels = [scene.poses[scene.bodies.index(f"circle {name}")] for name in ("1 about rear", "2 about front")]
    assert [wheel[2] for wheel in wheels] == pytest.approx([0.3, 0.35]) and wheels[1][0] == pytest.approx(1.02)


def test_a_contact_slides_when_its_bodies_move_past_each_other() -> None:
    contacts = np.zeros(3, CONTACT)
    contacts["body_b"], contacts["normal"] = 1, [0.0, 0.0, 1.0]
    contacts["point"] = [[0, 0, 0], [0.1, 0, 0], [0, 0, 0]]
    poses = np.zeros((2, 7))
    still, along, across, turning = np.zeros((4, 2, 6))
    along[1, 0], across[1, 2], turning[1, 5] = 2.0 * SLIDING, 1.0, 1.0
    assert slides(contacts, poses, still).tolist() == [False] * 3
    assert slides(contacts, poses, along).tolist() == [True] * 3
    assert slides(contacts, poses, across).tolist() == [False] * 3  # it parts, along the normal
    assert slides(contacts, poses, turning).tolist() == [False, True, False]  # about the first and the last point


@pytest.mark.parametrize(("name", "settings"), [("two_hands", ["duration=0.5"]), ("stack", ["duration=0.2"])])
def test_live_and_recorded_frames_are_the_same(name: str, settings: list[str]) -> None:
    trial = load(name, *settings)
    messages = messages_of(trial)
    recorded = RecordedFrames(trial, messages)
    live = LiveFrames(recorded.scene, trial.tool_sizes, sources_of(trial.experiment))
    tick = int(recorded.ticks[-2])
    for topic in live.topics:
        for data in messages[topic]:
            if int.from_bytes(data[PLACE : PLACE + 8], "little", signed=True) <= tick:
                live.take(topic, data)
    frame, expected = live.frame(), recorded.frame(len(recorded) - 2)
    assert frame is not None
    assert np.array_equal(frame.poses, expected.poses)
    assert np.array_equal(frame.contacts, expected.contacts)
    assert np.array_equal(frame.slides, expected.slides)
    for hand, other in zip(frame.hands, expected.hands, strict=True):
        assert np.array_equal(hand.on_tool, other.on_tool)
    keys = {(chart.name, curve) for chart in recorded.scene.charts for curve in chart.curves}
    # a chart for every value, and a value for every curve; a latency that is always one period is said
    assert set(expected.values) - {("latency", "of the force")} == keys
    said = [chart.title for chart in recorded.scene.charts if not chart.curves]
    assert said == [
        "Latency: none, as there is no device"
        if trial.experiment.standalone
        else f"Latency of the force: one period, {1e3 / trial.experiment.rate:.3g} ms, in every tick"
    ]
    for key in ("energy", "kinetic"), ("penetration", "deepest contact"), ("force", "on the tool"):
        assert frame.values[key] == expected.values[key]


def test_recorded_frames_say_what_the_samples_say() -> None:
    trial = load("corner_peg", "duration=0.8")
    messages = messages_of(trial)
    frames, samples = RecordedFrames(trial, messages), analysis_of(trial.experiment).samples(trial, messages)
    for index in (0, len(frames) // 2, len(frames) - 1):
        frame = frames.frame(index)
        row = int(np.searchsorted(samples["tick"], frame.tick))
        (hand,) = frame.hands
        assert np.array_equal(hand.tool, samples.pose("tool")[row])
        assert hand.device is not None and np.array_equal(hand.device, samples.pose("hand")[row])
        assert np.array_equal(hand.rendered, samples.wrench("rendered")[row])
        assert frame.values["force", "on the hand"] == np.linalg.norm(samples.wrench("rendered")[row, :3])
        assert frame.values["latency", "of the force"] == pytest.approx(1.0 / trial.experiment.rate)


def frame_of(tick: int, value: float, *extremes: float) -> Frame:
    """A frame of a trial at 10 Hz with a value of the force on the tool, and its extremes since the frame before."""
    key = ("force", "on the tool")
    found = {key: (extremes[0], extremes[1])} if extremes else {}
    return Frame(tick, 0.1 * tick, np.zeros((0, 7)), (), values={key: value}, extremes=found)


def test_charts_have_points_for_what_a_curve_was_between_two_frames() -> None:
    chart = Chart("force", "Force", "N", 1.0, ("on the tool", "on the hand"))
    smooth = [frame_of(0, 4.0, 4.0, 9.0), frame_of(3, 2.0, 2.0, 3.9), frame_of(6, 2.5)]
    times, (tool, hand) = strip(smooth, chart)  # what was before the first frame is not known, and nothing lies beyond
    assert times == pytest.approx([0.0, 0.3, 0.6]) and tool.tolist() == [4.0, 2.0, 2.5] and np.isnan(hand).all()
    times, (tool, _) = strip([*smooth, frame_of(9, 2.5, 2.0, 4646.0)], chart)
    assert times == pytest.approx([0.0, 0.3, 0.6, 0.7, 0.8, 0.9])
    assert tool.tolist() == [4.0, 2.0, 2.5, 2.0, 4646.0, 2.5]
    both = [replace(frame, values=frame.values | {("force", "on the hand"): 9.0 - i}) for i, frame in enumerate(smooth)]
    both.append(replace(frame_of(9, 2.5, 0.0, 3.0), values={("force", "on the hand"): 4.0}))
    assert strip(both, chart)[1][1] == pytest.approx([9.0, 8.0, 7.0, 6.0, 5.0, 4.0])  # a straight line stays one
    assert [len(curve) for curve in strip([], chart)[1]] == [0, 0]


def test_charts_miss_no_peak_of_a_trial() -> None:
    """Frames of every 33rd tick, live and recorded: the greatest force of the chart is that of all messages."""
    trial = load("corner_peg", "duration=0.8")
    messages = messages_of(trial)
    samples = analysis_of(trial.experiment).samples(trial, messages)
    largest = {name: np.linalg.norm(samples.wrench(name)[:, :3], axis=1).max() for name in ("rendered", "env")}
    frames = RecordedFrames(trial, messages)
    chosen = [*range(0, len(frames) - 1, 7), len(frames) - 1]
    recorded = [frames.frame(i, since) for i, since in zip(chosen, [None, *chosen[:-1]], strict=True)]
    live, shown = LiveFrames(build_scene(trial), trial.tool_sizes, sources_of(trial.experiment)), []
    assert {"tool_state", "device_state", "world_state"} <= set(live.charted)
    for i, (state, device) in enumerate(zip(messages["tool_state"], messages["device_state"], strict=False)):
        live.take("tool_state", state)
        live.take("device_state", device)
        if i % 33 == 0 or i == len(messages["tool_state"]) - 1:
            frame = live.frame()
            assert frame is not None and frame.tick == live.tick
            shown.append(frame)
    (chart,) = (chart for chart in frames.scene.charts if chart.name == "force")
    for some in recorded, shown:
        _, curves = strip(some, chart)
        found = dict(zip(chart.curves, curves, strict=True))
        last = recorded[-1].tick
        assert np.nanmax(found["on the tool"]) == pytest.approx(largest["env"]), last
        assert np.nanmax(found["on the hand"]) == pytest.approx(largest["rendered"])


def test_a_trial_without_world_states_is_drawn_from_its_configuration() -> None:
    trial = load("stack", "duration=0.1")
    messages = messages_of(trial)
    whole = RecordedFrames(trial, messages)
    del messages["world_state"]
    frames = RecordedFrames(trial, messages)
    index = frames.index_at(float(whole.times[-1]))
    assert frames.frame(index).poses == pytest.approx(whole.frame(len(whole) - 1).poses, abs=1e-3)
    assert len(frames.frame(index).contacts) == 0


def test_what_is_no_message_of_the_trial_is_refused() -> None:
    trial = load("corner_peg")
    live = LiveFrames(build_scene(trial), trial.tool_sizes, sources_of(trial.experiment))
    assert live.frame() is None
    state: ToolState = trial.tool_sizes.tool_state()
    state.pose[0] = np.nan
    with pytest.raises(MessageError, match="not finite"):
        live.take("tool_state", state.to_bytes())
    with pytest.raises(MessageError):
        live.take("tool_state", b"\0\1\0\0")
    assert live.frame() is None


def test_gains_have_the_ranges_of_their_parameters() -> None:
    found = {gain.key: gain for gain in gains_of(load("corner_peg"))}
    assert found["contact.restitution"].high == 1.0
    assert found["contact.stiffness"].value == 4000.0
    assert found["contact.stiffness"].nodes == ("environment",)
    assert found["controller.stiffness"].parts == ("x", "y", "turn")
    assert found["controller.stiffness"].nodes == ("controller",)
    several = gains_of(load("two_hands"))
    assert {gain.nodes for gain in several} == {("controller",), ("left/controller",), ("environment",)}
    asynchronous = gains_of(load("tight_clearance", "environment.rate=100", "local_model.type=full"))
    assert ("local_model", "environment") in {gain.nodes for gain in asynchronous}


def test_gains_that_act_in_a_trial_are_told_from_the_rest() -> None:
    """By the method, the friction model, the value of a controller's gain, and whether there are contacts at all."""

    def acting(name: str, *settings: str) -> set[str]:
        return {gain.key for gain in gains_of(load(name, *settings)) if gain.acts}

    peg = acting("corner_peg")
    assert {"contact.stiffness", "contact.damping", "contact.restitution", "controller.stiffness"} <= peg
    assert not any(key.startswith("contact.friction") for key in peg) and "controller.integral" not in peg
    friction = acting("corner_peg", "contact.friction.model=dahl")
    assert friction - peg == {f"contact.friction.{key}" for key in ("static", "kinetic", "breakaway")}
    assert "contact.restitution" not in acting("corner_peg", "environment.method=penalty")
    rigid = {key for key in acting("corner_peg", "environment.method=constraint") if key.startswith("contact.")}
    assert rigid == {"contact.restitution"}
    assert not any(key.startswith("contact.") for key in acting("rolling_disk"))
    sections = {gain.section for gain in gains_of(load("two_hands"))}
    assert sections == {"controller", "left: controller", "contact", "contact.friction"}


# What runs


def test_what_runs_is_known_by_its_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", "231")
    assert namespaces.claimed() == []
    with namespaces.claim("peg", inside=("left",)), namespaces.claim("peg"), namespaces.claim("lab/arm"):
        assert namespaces.claimed() == ["lab/arm", "peg", "peg_2"]
        monkeypatch.setenv("ROS_DOMAIN_ID", "230")
        assert namespaces.claimed() == []
    running = ["lab/arm", "peg", "peg_2", "pegs", "peg_x"]
    assert same_world("peg", running) == ["peg", "peg_2"]
    assert chosen("/lab/arm", running) == "lab/arm" and chosen(None, ["peg"]) == "peg"
    with pytest.raises(ParameterError, match=r"2 trials or systems run; name one of peg, peg_2 \(haptics view NAME\)"):
        chosen(None, ["peg", "peg_2"])


def test_a_view_of_what_runs_takes_no_settings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("viser")
    monkeypatch.setenv("ROS_DOMAIN_ID", "231")
    assert command_line.main(["view"]) == 2
    assert "nothing runs on this machine; name an experiment, or the directory of a trial" in capsys.readouterr().err
    with namespaces.claim("corner_peg"):
        for target in "corner_peg", "/corner_peg", str(catalogue()["corner_peg"]):
            assert command_line.main(["view", target, "--mode", "lockstep", "--set", "rate=500"]) == 2
            said = "--mode, --set: for a trial that the view runs itself; /corner_peg runs already"
            assert said in capsys.readouterr().err


# Bad input


def test_a_port_that_is_taken_is_named() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        with pytest.raises(PageError, match=f"--port {port}: is taken on 127.0.0.1"):
            free_port("127.0.0.1", port)
    with pytest.raises(PageError, match=r"--host 192\.0\.2\.1 --port 80"):
        free_port("192.0.2.1", 80)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["corner_peg", "--port", "x"], "--port x: "),
        (["corner_peg", "--port", "70000"], "--port 70000: must be a whole number from 1 to 65535"),
        (["corner_peg", "--host", "localhost"], "--host localhost: must be an address of this machine"),
        (["corner_peg", "--set", "rate=[500,600]"], "view: shows one trial; give no list of values"),
        (["corner_pg"], "did you mean corner_peg?"),
        (["/nowhere"], "/nowhere"),
        (["--namespace", "x"], "view: names no experiment"),
    ],
)
def test_bad_input_is_one_sentence(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("viser")
    assert command_line.main(["view", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_run_without_a_view_has_no_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert command_line.main(["run", "corner_peg", "--port", "8080", "--out", str(tmp_path)]) == 2
    assert "--host, --port: belong to the page; add --view" in capsys.readouterr().err
    assert command_line.main(["run", "corner_peg", "--view", "--mode", "offline", "--out", str(tmp_path)]) == 2
    assert "has no nodes to view" in capsys.readouterr().err


# The page


@pytest.mark.exhaustive
def test_a_second_client_sees_the_same_and_goes_alone(capfd: pytest.CaptureFixture[str]) -> None:
    trial = load("corner_peg", "duration=0.1")
    frames = RecordedFrames(trial, messages_of(trial))
    capfd.readouterr()
    with page_of("corner_peg") as (page, address):
        clients = [client(address) for _ in range(2)]

        def come(one: Any) -> bytes:
            """Messages that come until none does for a while."""
            found = one.recv(30.0)
            with contextlib.suppress(TimeoutError):
                while True:
                    found += one.recv(1.0)
            return bytes(found)

        beginning = [len(come(one)) for one in clients]
        assert abs(beginning[0] - beginning[1]) < 0.1 * beginning[0]
        page.show(frames.frame(1))
        assert come(clients[0]) and come(clients[1])
        clients[0].close()
        page.show(frames.frame(2))
        assert come(clients[1])
        clients[1].close()
    assert capfd.readouterr().out == ""  # nor that the server has stopped


def test_in_the_plane_arrows_are_above_the_bodies() -> None:
    with page_of("corner_peg") as (page, _):
        trial = load("corner_peg", "duration=0.6")
        frames = RecordedFrames(trial, messages_of(trial))
        page.show(frames.frame(len(frames) - 1))
        arrows = page._arrows["forces"]
        assert arrows.visible
        top = max(float(shape.vertices[:, 2].max()) for shape in page.scene.shapes)
        assert arrows.points[:, 0, 2].min() > top > 0.0


@contextlib.contextmanager
def view(*arguments: str) -> Iterator[str]:
    """The command while its page is there: yields the address."""
    command = [sys.executable, "-m", "haptic_bench", "view", *arguments, "--port", str(port_of_own())]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, preexec_fn=die_with_parent)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[0]
    finally:
        process.send_signal(signal.SIGINT)
        status = process.wait(20.0)
        process.stdout.close()
    assert status == 130


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recorded trial of two hands."""
    require()
    directory = tmp_path_factory.mktemp("two_hands")
    arguments = ["run", "two_hands", "--mode", "offline", "--duration", "1.2", "--set", "analysis=trial", "--quiet"]
    assert command_line.main([*arguments, "--out", str(directory / "out")]) == 0
    return directory / "out"


def places(browser: Browser) -> np.ndarray:
    """Where the meshes of boxes are in the page, in the axes of the world (N, 3)."""
    found = np.array(browser.evaluate("window.meshes(8)"))
    return np.stack([-found[:, 2], -found[:, 0], found[:, 1]], axis=1)  # three.js has y upwards


def tick_of(browser: Browser) -> str:
    """The tick that the page says it shows."""
    return str(browser.wait("(document.body.innerText.match(/tick (\\d+)/) || [])[1]"))


@pytest.mark.exhaustive
@pytest.mark.graph
def test_the_page_shows_a_recorded_trial_where_its_samples_say(recorded: Path, tmp_path: Path) -> None:
    _, frames = read_frames(recorded)
    samples = Samples.read_csv(recorded / "samples.csv")
    with view(str(recorded)) as address, Browser(address, tmp_path / "profile") as browser:
        browser.wait("window.meshes(8).length >= 4")
        browser.click("play")  # pause
        before = ""
        while (now := tick_of(browser)) != before:
            before = now
            time.sleep(1.0)
        for wanted in (0.4, 1.0):
            frame = frames.frame(frames.index_at(wanted))
            while tick_of(browser) != str(frame.tick):  # a page that is drawn by software may lose what is typed
                browser.enter("time [s]", str(wanted))
                time.sleep(1.0)
            row = int(np.searchsorted(samples["tick"], frame.tick))
            tool = samples.pose("tool")[row, :3]
            until = time.monotonic() + 20.0
            while np.linalg.norm(places(browser) - tool, axis=1).min() > 1e-5:
                assert time.monotonic() < until, places(browser)
                time.sleep(0.1)
            box = frame.poses[frames.scene.bodies.index("box"), :3]
            assert np.linalg.norm(places(browser) - box, axis=1).min() < 1e-5
        site = address.removesuffix(urlsplit(address).path)
        outside = [url for url in browser.requests if not url.startswith((site, "data:", f"blob:{site}"))]
        assert outside == []  # nothing but the loopback


@pytest.mark.exhaustive
@pytest.mark.graph
def test_a_running_trial_starts_pauses_and_takes_gains(tmp_path: Path) -> None:
    require()
    # slow, so that it lasts while the browser draws by software
    settings = ["--set", "rate=200", "--duration", "60", "--set", "device.mass=2", "--set", "device.inertia=0.005"]
    with view("corner_peg", *settings) as address, Browser(address, tmp_path / "profile") as browser:
        browser.wait("window.meshes(8).length >= 1")
        browser.wait("document.body.innerText.includes('at the start')")
        browser.click("Start")
        browser.wait("/tick [1-9]/.test(document.body.innerText)")
        browser.enter("stiffness", "2000")
        browser.wait("document.body.innerText.includes('contact.stiffness=2000')")  # the trial's event
        browser.enter("damping x", "700")
        refusal = browser.wait("(document.body.innerText.match(/refused .*/) || [''])[0]")
        assert "controller.damping" in refusal
        browser.enter("event", "here")
        browser.click("Mark event")
        browser.wait("document.body.innerText.includes('mark=\"here\"')")
        browser.click("Pause")
        browser.wait("!!window.button('Continue')")
        tick = ""
        while (now := tick_of(browser)) != tick:  # the page may lag behind; a trial that goes on makes 200 in a second
            tick = now
            time.sleep(1.0)
        assert browser.field("stiffness") == "2000"
        browser.click("Reset")
        browser.wait("document.body.innerText.includes('at the start')")
        assert browser.wait("window.button('Start') && !window.button('Start').disabled")
        assert browser.field("stiffness") == "4000" and browser.evaluate("window.button('Mark event').disabled")


@pytest.mark.exhaustive
@pytest.mark.graph
def test_a_view_joins_a_system_that_runs_and_ends_with_it(haptics: Callable[..., Haptics], tmp_path: Path) -> None:
    pytest.importorskip("viser")
    system = haptics("start", "corner_peg", "--out", str(tmp_path / "system"))
    wait_until(lambda: "corner_peg" in namespaces.claimed() or not system.process.is_alive(), "the system")
    command = [sys.executable, "-m", "haptic_bench", "view", "--port", str(port_of_own())]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, preexec_fn=die_with_parent
    )
    assert process.stdout is not None and process.stderr is not None
    said = process.stdout.readline()
    assert "/corner_peg, which runs; Ctrl-C ends the view alone" in said
    with client(said.split()[0]) as one:
        assert one.recv(20.0)
    assert system.process.is_alive() and system.process.pid is not None
    os.kill(system.process.pid, signal.SIGINT)
    assert system.wait() == 0 and "is running; `haptics view corner_peg` shows it" in system.err
    assert process.wait(60.0) == 0 and "/corner_peg has ended" in process.stderr.read()
    process.stdout.close()
    process.stderr.close()


# Whoever looks on changes nothing


def test_a_viewer_that_is_stalled_and_killed_changes_no_bit_of_a_lockstep_trial(
    haptics: Callable[..., Haptics], tmp_path: Path
) -> None:
    pytest.importorskip("viser")
    arguments = ["run", "corner_peg", "--mode", "lockstep", "--duration", "1.5", "--set", "analysis=trial", "--quiet"]
    port = str(port_of_own())
    run = haptics(*arguments, "--view", "--out", str(tmp_path / "viewed"), "--port", port)
    assert run.process.pid is not None
    viewer = _child(run.process.pid, "haptic_bench.nodes.viewer")
    wait_until(lambda: not run.process.is_alive() or _begun(tmp_path / "viewed", 0), "the nodes")
    os.kill(viewer, signal.SIGSTOP)  # it listens, and takes nothing
    wait_until(lambda: not run.process.is_alive() or _begun(tmp_path / "viewed", 20_000), "the trial")
    os.kill(viewer, signal.SIGKILL)
    assert run.wait() == 0, run.err
    assert command_line.main([*arguments[:3], "offline", *arguments[4:], "--out", str(tmp_path / "alone")]) == 0
    for name in ("samples.csv", "bodies.csv", "contacts.csv"):
        assert (tmp_path / "viewed" / name).read_bytes() == (tmp_path / "alone" / name).read_bytes(), name


def test_a_page_that_does_not_come_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewing, "START", 0.1)
    viewer = viewing.Viewer.__new__(viewing.Viewer)
    viewer._ready, viewer._process = threading.Event(), SimpleNamespace(status=None)  # type: ignore[assignment]
    interrupted = threading.Event()
    assert viewer.wait(interrupted) == "it is not there after 0.1 s"
    interrupted.set()
    assert viewer.wait(interrupted) == ""


def _child(parent: int, module: str) -> int:
    """The process of a module that another one has started, as soon as it is there."""
    until = time.monotonic() + 60.0
    while time.monotonic() < until:
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and module in (entry / "cmdline").read_bytes().decode(errors="replace"):
                    stat = (entry / "stat").read_text().rpartition(")")[2].split()
                    if int(stat[1]) == parent:
                        return int(entry.name)
            except OSError:
                continue
        time.sleep(0.02)
    raise AssertionError(f"{module} was not started")


def _begun(directory: Path, size: int) -> bool:
    """Whether a bag of more than as many bytes is there."""
    return any(path.stat().st_size > size for path in (directory / "bag").glob("*.mcap"))


def test_a_viewer_says_how_much_it_drew() -> None:
    from haptic_bench.nodes.viewer import ViewerNode

    node = ViewerNode.__new__(ViewerNode)
    node._drawn = [(0.0, 0.0), (0.5, 0.05), (1.0, 0.1)]  # type: ignore[assignment]
    assert re.fullmatch(r"drawn 2\.0 frames/s, 10\.0 % of a core", node.pace())
