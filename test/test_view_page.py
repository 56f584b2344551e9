"""The page of a view: who may open it and steer by it, and what its controls do."""

from __future__ import annotations

import socket
import threading
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from browser import Browser, require
from conftest import wait_until
from pages import client, load, page_of

from haptic_bench.experiment.shown import gains_of
from haptic_bench.running import runner
from haptic_bench.trials import viewed
from haptic_view.controls import Course, State
from haptic_view.shapes import matrix_of

# Who may open it


def status(address: str, path: str | None = None, *more: str, upgrade: bool = True, **changed: str) -> int:
    """The status by which a request is answered: that of the page's own WebSocket, with some headers changed."""
    at = urlsplit(address)
    assert at.hostname is not None and at.port is not None
    headers = {"Host": at.netloc}
    if upgrade:
        headers |= {"Origin": f"http://{at.netloc}", "Upgrade": "websocket", "Connection": "Upgrade"}
        headers |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13"}
    lines = [f"{name}: {value}" for name, value in (headers | changed).items() if value]
    lines = [f"GET {at.path if path is None else path} HTTP/1.1", *lines, *more, "", ""]
    with socket.create_connection((at.hostname, at.port), timeout=20.0) as held:
        held.sendall("\r\n".join(lines).encode())
        return int(held.makefile("rb").readline().split()[1])


def test_a_page_is_open_to_its_own_address_alone() -> None:
    with page_of("corner_peg") as (_, address):
        at = urlsplit(address)
        token = at.path.removeprefix("/")
        assert len(token) >= 20 and status(address) == 101
        assert status(address, upgrade=False) == status(address, f"/{token}/", upgrade=False) == 200
        wrong = token[:-1] + ("A" if token[-1] != "A" else "B")
        for path in "/", "", "//", f"/{wrong}", f"/{token}x", f"/x/{token}", f"/?token={token}", "/\xe4":
            assert status(address, path) == status(address, path, upgrade=False) == 403, path
        other = f"127.0.0.1:{at.port + 1}"  # type: ignore[operator]
        for origin in "http://example.com", f"http://{other}", f"https://{at.netloc}", "null", "":
            assert status(address, Origin=origin) == 403, origin
        foreign = f"example.com:{at.port}"
        for host in foreign, "localhost.example.com", "127.0.0.1.example.com", "192.0.2.1", "[", "":
            assert status(address, Host=host, Origin=f"http://{host}") == 403, host
            assert status(address, Host=host, upgrade=False) == 403, host
        assert status(address, None, f"Host: {foreign}") == status(address, None, "Origin: http://example.com") == 403
        for host in "localhost:9000", "127.0.0.1", "[::1]:80":  # of a tunnel to this machine
            assert status(address, Host=host, Origin=f"http://{host}") == 101


def test_a_page_that_is_open_to_others_takes_addresses_and_the_name_of_its_machine() -> None:
    pytest.importorskip("viser")
    from haptic_view.gate import Gate

    gate = Gate("0.0.0.0", 80, "token", 1, "Mark: yes")
    for host in "192.0.2.7:80", "[2001:db8::1]", "localhost", socket.gethostname():
        assert gate.passed(f"GET /token/a?b HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()) == (
            f"GET /a?b HTTP/1.1\r\nMark: yes\r\nHost: {host}\r\n\r\n".encode()
        )
    for host in "example.com", f"{socket.gethostname()}.example.com":
        assert gate.passed(f"GET /token HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()) is None
    for head in b"", b"GET /token\r\n\r\n", b"POST /token HTTP/1.1\r\nHost: localhost\r\n\r\n":
        assert gate.passed(head) is None


def test_the_server_behind_a_page_takes_nothing_but_what_the_page_hands_on() -> None:
    """Who finds its port gets neither scene nor controls, with the token in the address or without."""
    from websockets.exceptions import ConnectionClosed

    with page_of("corner_peg") as (page, address):
        token = urlsplit(address).path
        behind = f"http://127.0.0.1:{page.server.get_port()}"
        assert behind != address.removesuffix(token)
        for path in "", token:
            with client(behind + path) as one, pytest.raises(ConnectionClosed):
                one.recv(20.0)
        with client(address) as one:
            assert one.recv(20.0)
            assert list(page.server._websock_server._client_state_from_id) == [2]


def test_a_page_does_nothing_else_for_whoever_may_see_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a public tunnel nor an upload; the length of arrows, which the page offers, does follow."""
    pytest.importorskip("viser")
    import msgspec
    import viser
    from viser import _messages

    asked: list[str] = []
    monkeypatch.setattr(viser._viser, "ViserTunnel", lambda *_: asked.append("tunnel"))
    with page_of("corner_peg") as (page, address), client(address) as one:
        handles = page.server.gui._gui_input_handle_from_uuid
        [(uuid, arrows)] = [(u, h) for u, h in handles.items() if getattr(h, "label", "") == "length of arrows"]
        upload = {"source_component_uuid": uuid, "transfer_uuid": "1", "filename": "a", "mime_type": "b"}
        for message in (
            {"type": "ShareUrlRequest"},
            {"type": "FileTransferStartUpload", **upload, "part_count": 1, "size_bytes": 1},
            {"type": "GuiUpdateMessage", "uuid": uuid, "updates": {"value": 2.5}},
        ):
            one.send(msgspec.msgpack.encode(message))
        wait_until(lambda: arrows.value == 2.5, "the update")
        page.server._thread_executor.shutdown(wait=True)
        assert asked == [] and page.server.request_share_url() is None
        kinds = {kind.__name__ for kind in page.server._websock_server._incoming_handlers}
        assert kinds == {"GuiUpdateMessage", "CommandTriggerMessage", "SceneNodeDragMessage"}
        for connection in page.server.get_clients().values():
            assert _messages.FileTransferPart not in connection._websock_connection._incoming_handlers


# Controls


def test_gains_on_a_page_are_those_of_the_nodes() -> None:
    """Quick changes of two axes keep each other; Reset restores all; others' changes and refusals are shown."""
    pytest.importorskip("viser")
    import msgspec

    from haptic_view.gain_controls import GainControls

    gains = {gain.key: gain for gain in gains_of(load("corner_peg"))}
    stiffness, wall = gains["controller.stiffness"], gains["contact.stiffness"]
    asked: list[tuple[str, Any]] = []
    with page_of("corner_peg") as (page, address), client(address) as one:
        with page.trial:
            controls = GainControls(page, [*gains.values()], lambda gain, value: asked.append((gain.key, value)))
        sliders = {key: controls._controls[gain.nodes, key] for key, gain in gains.items()}

        def slide(slider: Any, value: float) -> None:
            update = {"type": "GuiUpdateMessage", "uuid": slider._impl.uuid, "updates": {"value": value}}
            count = len(asked)
            one.send(msgspec.msgpack.encode(update))
            wait_until(lambda: len(asked) > count, "the change")

        camera = {"wxyz": (1.0, 0, 0, 0), "position": (0.0, 0, 0), "look_at": (0.0, 0, 1), "up_direction": (0.0, 1, 0)}
        camera |= {"fov": 1.0, "near": 0.1, "far": 1.0, "image_height": 10, "image_width": 10}  # type: ignore[dict-item]
        one.send(msgspec.msgpack.encode({"type": "ViewerCameraMessage", **camera}))
        wait_until(lambda: bool(page.server.get_clients()), "the client")
        x, y, turn = sliders[stiffness.key]
        slide(x, 300.0)
        slide(y, 200.0)
        assert asked == [(stiffness.key, (300.0, 100.0, 0.5)), (stiffness.key, (300.0, 200.0, 0.5))]
        controls.accept(stiffness, (300.0, 100.0, 0.5))
        assert (x.value, y.value, turn.value) == (300.0, 200.0, 0.5)  # the second change is on its way
        controls.refuse(stiffness, "too stiff")
        assert (x.value, y.value, turn.value) == (300.0, 100.0, 0.5)
        controls.accept(wall, 90_000.0)  # by somebody else, beyond the slider
        (of_wall,) = sliders[wall.key]
        assert of_wall.value == 90_000.0 <= of_wall.max
        controls.restore()
        assert (x.value, y.value, turn.value, of_wall.value) == (100.0, 100.0, 0.5, 4000.0)
        slide(turn, 0.25)
        assert asked[2:] == [(stiffness.key, (100.0, 100.0, 0.25))]  # what this program moves is not asked for
        controls.enable(False)
        assert x.disabled and of_wall.disabled


@pytest.mark.parametrize("name", list(State.__members__))
def test_only_controls_that_can_do_something_are_on(name: str) -> None:
    state = State[name]
    done: list[str] = []
    with page_of("corner_peg") as (page, _):
        course = Course(
            page,
            gains_of(load("corner_peg"))[-1:],
            pause=lambda paused: done.append(f"pause {paused}"),
            change=lambda gain, value: None,
            mark=done.append,
            reset=lambda: done.append("reset"),
            record=lambda keep: None,
        )
        course.show(state)
        controls = {getattr(control, "label", ""): control for control, _ in course._useful}
        assert {label for label, control in controls.items() if not control.disabled} == {
            "LOADING": {"record: keep this trial, with its report"},
            "READY": {"Start", "Reset", "record: keep this trial, with its report"},
            "STARTING": {"record: keep this trial, with its report"},
            "RUNNING": {"Pause", "Reset", "record: keep this trial, with its report", "event", "Mark event"},
            "PAUSING": {"record: keep this trial, with its report"},
            "PAUSED": {"Continue", "Reset", "record: keep this trial, with its report", "event", "Mark event"},
            "RESETTING": set(),
            "ENDED": {"Reset"},
        }[name]


def test_a_trial_that_has_not_begun_is_not_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Who ticks `record` and leaves before the start leaves nothing."""
    trial = load("corner_peg").in_mode("realtime")
    monkeypatch.chdir(tmp_path)
    told: list[str] = []
    began: list[float | None] = [None]

    def run(specs: Any, directory: Path, *_: Any) -> runner.Outcome:
        (directory / "bag").mkdir()
        return runner.Outcome("interrupted", start_up=began[0])

    monkeypatch.setattr(runner, "run", run)
    monkeypatch.setattr(viewed, "conclude", lambda *_: {"status": "interrupted", "ticks": 3})
    interruption, viewer = SimpleNamespace(event=threading.Event(), count=0), SimpleNamespace(send_line=told.append)
    wishes = viewed._Wishes(interruption)  # type: ignore[arg-type]
    wishes.record = True
    once = partial(
        viewed._run_once, trial, "realtime", "/x", tmp_path / "scratch", interruption, wishes, viewer, composed=False
    )
    once()
    assert told == ["ended"] and not (tmp_path / "trials").exists()
    began[0] = 0.1
    once()
    assert told[1:2] == ["ended"] and len(list((tmp_path / "trials").iterdir())) == 1


# How it is laid out


def test_before_the_first_frame_bodies_and_hand_are_where_they_start() -> None:
    with page_of("rolling_balls") as (page, _):
        scene = page.scene
        assert np.abs(scene.poses[list(scene.moving), :3]).max() > 0.1  # not at the origin of the world
        for name, pose in zip(scene.bodies, scene.poses, strict=True):
            np.testing.assert_array_equal([*page.bodies[name].position, *np.roll(page.bodies[name].wxyz, -1)], pose)
        (hand,) = scene.hands
        for handle in page.tools[hand.name], page.devices[hand.name]:
            X_WH = matrix_of(np.array([*handle.position, *np.roll(handle.wxyz, -1)]))
            np.testing.assert_allclose(X_WH @ hand.X_HB, matrix_of(scene.poses[hand.body]), rtol=0, atol=1e-12)


def test_a_camera_is_as_far_as_the_width_of_the_scene_needs() -> None:
    with page_of("push_arm") as (page, _):
        away = np.array([0.6, 0.0, 0.8])
        wide, square, narrow = (np.subtract(page._eye(away, aspect), page.scene.centre) for aspect in (2.0, 1.0, 0.5))
    assert wide == pytest.approx(square)
    assert narrow == pytest.approx(2.0 * square)


@pytest.mark.graph
@pytest.mark.exhaustive
def test_in_a_narrow_browser_the_controls_begin_folded_and_the_scene_fits(tmp_path: Path) -> None:
    require()
    shown = "[...document.querySelectorAll('*')].some(one => one.innerText?.trim() === 'View' && one.checkVisibility())"
    with page_of("push_arm") as (page, address), Browser(address, tmp_path) as browser:
        browser.wait(f"{shown} && !document.querySelector('#controls')?.checkVisibility()")
        size = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": False}
        browser.call("Emulation.setDeviceMetricsOverride", **size)
        browser.call("Page.navigate", url=address)
        browser.wait(f"document.querySelector('#controls')?.checkVisibility() && !({shown})")
        distance = 3.1 * page.scene.size * 844.0 / 390.0  # as far as the width of the scene needs

        def fits() -> bool:
            cameras = [one.camera for one in page.server.get_clients().values()]
            return any(np.linalg.norm(c.position - page.scene.centre) > 0.95 * distance for c in cameras)

        wait_until(fits, "a camera from which the scene fits")
        browser.evaluate("document.querySelector('#controls summary').click()")
        browser.wait(shown)
