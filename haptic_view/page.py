"""A page in the browser that shows a scene: bodies, hands, contacts, forces, trails and strip charts.

It is viser's, served on the loopback, and loads nothing from anywhere else. Who makes it shows frames on it, and adds
what it can be controlled by (`controls.py`).
"""

from __future__ import annotations

import contextlib
import errno
import io
import socket
import time
from collections import deque
from html import escape
from typing import Any

import numpy as np

from haptic_sim.parameters import ParameterError
from haptic_view import charts
from haptic_view.frame import Chart, Frame, Hand
from haptic_view.reliefs import drawn, is_drawable
from haptic_view.scene import Scene
from haptic_view.shapes import Shape, matrix_of, pose_of
from haptic_view.strips import strip
from haptic_view.viewpoint import towards_eye

HOST, PORT = "127.0.0.1", 8080
PORTS = 20  # from PORT on, of which the first that is free is taken where none is given
WINDOW = 10.0  # [s] of the charts
REDRAWN = 0.2  # [s] between two drawings of the charts, or of the trails
TRAIL = 400  # points
NEAR, FAR = 0.02, 200.0  # of the camera, per size of the scene
ARROW = 0.7  # length of the greatest force so far, per size of the scene
GHOST = 1.02  # size of the device's hand, as that of the tool, which it would else hide in parts
SMALL = 1e-9  # of a force, of which no arrow is drawn [N]

ABOVE = 0.1  # height of arrows and contacts over a planar scene, which its bodies would hide, per its size

Colour = tuple[int, int, int]
FIXED: Colour = (206, 210, 216)
# after Okabe and Ito, as in the figures of reports
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = (
    (0, 114, 178),
    (213, 94, 0),
    (0, 158, 115),
    (184, 87, 143),
    (230, 159, 0),
    (86, 180, 233),
)
TOOL = BLUE
MOVING: tuple[Colour, ...] = ((226, 189, 121), (160, 196, 170), (205, 160, 178), (158, 186, 214), (214, 198, 150))
STICKS, SLIDES, NORMAL, NEARBY, FIELD = GREEN, VERMILION, (120, 126, 134), SKY, PURPLE
ON_HAND, OF_OPERATOR, TORQUE = BLUE, PURPLE, ORANGE

LEGEND: tuple[tuple[Colour, str, str], ...] = (
    (TOOL, "\u25a0", "virtual tool (proxy); pale: hand of the device"),
    (STICKS, "\u25cf", "contact that sticks, and its force"),
    (SLIDES, "\u25c6", "contact that slides, and its force"),
    (NORMAL, "\u2500", "contact normal"),
    (NEARBY, "\u25a1", "constraint of the local model"),
    (ON_HAND, "\u2192", "force on the hand"),
    (OF_OPERATOR, "\u2192", "force of the operator"),
    (TORQUE, "\u2192", "torque on the hand"),
    (TOOL, "\u2500", "path of the tool; pale: of the hand of the device"),
)
# In a narrow browser viser lays the panels over the scene: there the controls begin folded.
FOLDED = """<style>
#controls { display: none; padding: 0.2em 1em; font-size: 0.85em }
@media (max-width: 36em) {
  #controls { display: block }
  body:not(:has(#controls[open])) .mantine-Tabs-root { display: none }
}
</style><details id="controls"><summary>controls</summary></details>"""
KINDS = (
    ("device", "hand of the device"),
    ("contacts", "contacts"),
    ("constraints", "constraints of the local model"),
    ("forces", "forces"),
    ("torques", "torques"),
    ("trails", "trails"),
    ("axes", "axes of the tool"),
)  # of what can be shown or not
CAMERA = ("motion", "x", "y", "z")  # along which one can look: across the motion, or along an axis


class PageError(ParameterError):
    """The page cannot be served."""

    def __init__(self, problem: str):
        super().__init__([problem])


def require_viser() -> None:
    """Nothing but where viser is missing, which not every installation has.

    Raises:
        ParameterError: it is; the text says how to get it.
    """
    try:
        import viser  # noqa: F401
    except ImportError as error:
        raise ParameterError([f"a view needs viser: python3 -m pip install 'haptics[view]' ({error})"]) from error


def free_port(host: str, port: int | None) -> int:
    """The port that is given (of 0, one that the system chooses), or without one the first from PORT on that is free.

    Raises:
        PageError: it is taken, or none is free, or the host is none of this machine.
    """
    for candidate in range(PORT, PORT + PORTS) if port is None else (port,):
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as held:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                held.bind((host, candidate))
                return int(held.getsockname()[1])
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise PageError(f"--host {host} --port {candidate}: {error.strerror}") from error
    if port is None:
        raise PageError(f"ports {PORT} to {PORT + PORTS - 1} of {host} are taken; choose another with --port")
    raise PageError(f"--port {port}: is taken on {host}; choose another, or leave it out")


class Page:
    """A scene in the browser.

    Args:
        scene: what there is to draw.
        host, port: where it is served; the port is free.
        greatest: force that has the longest arrow [N]; it grows with greater ones.
        away: unit vector towards the eye at the start; None: from above in the plane, from the side in space.
        panels: whether there are controls, charts and a legend beside the scene; without them neither forces nor
            contacts, trails and axes are drawn, and what is beside the scene is left to who makes the page.

    Attributes:
        server: viser's, behind a gate.
        address: what to open in a browser; whoever has it may steer.
        bodies: viser's handle of the axes of each body of the scene, by its name; `/bodies/NAME` in viser's scene.
        meshes: of each shape, by its name in viser's scene.
        tools, devices: of the virtual tool and of the device's hand, by the name of the hand; `/hands/NAME/tool`.
        trial, view: the tabs for what controls the trial, and for what is shown.
    """

    def __init__(
        self,
        scene: Scene,
        host: str = HOST,
        port: int = PORT,
        greatest: float = 1.0,
        away: np.ndarray | None = None,
        *,
        panels: bool = True,
    ):
        require_viser()
        from haptic_view.guarded_server import GuardedServer  # imports viser

        self.scene = scene
        with contextlib.redirect_stdout(io.StringIO()):  # it says where it is; so do we
            self.server: Any = GuardedServer(host, port)
        self.address = f"http://{f'[{host}]' if ':' in host else host}:{port}/{self.server.token}"
        self._greatest, self._factor = greatest, 1.0
        self._last_drawn = 0.0
        self._trails: dict[tuple[str, str], deque[np.ndarray]] = {}
        self._strips: deque[Frame] = deque()
        self._shown: dict[str, bool] = {kind: panels for kind, _ in KINDS} | {"device": True}
        self._charts: dict[str, Any] = {}
        self._panels = panels
        self.trial: Any = contextlib.nullcontext()
        self.view: Any = contextlib.nullcontext()
        self._add_scene()
        self._point_cameras(towards_eye(scene, []) if away is None else away)
        if panels:
            self._add_panels()
            self.show_state("")

    # What is drawn once

    def change(self, scene: Scene) -> None:
        """Draw another scene from now on; handles of bodies, tools and meshes are new ones."""
        self.server.scene.reset()
        self.scene = scene
        self.restart()
        self._add_scene()

    def _add_scene(self) -> None:
        scene, viewed = self.scene, self.server.scene
        self._above = np.array([0.0, 0.0, ABOVE * scene.size if scene.planar else 0.0])
        self._poses = np.full((len(scene.bodies), 7), np.nan)
        self._frame: Frame | None = None
        self.server.gui.configure_theme(show_logo=False, show_share_button=False, brand_color=BLUE)
        viewed.set_up_direction("+y" if scene.planar else "+z")
        viewed.configure_default_lights(cast_shadow=not scene.planar)
        self.bodies: dict[str, Any] = {}
        self.meshes: dict[str, Any] = {}
        palette = iter(MOVING * (1 + len(scene.bodies) // len(MOVING)))
        colours = []
        for i, (name, moves) in enumerate(zip(scene.bodies, scene.moving, strict=True)):
            colour = TOOL if i in scene.held else next(palette) if moves else FIXED
            colours.append(colour)
            self.bodies[name] = viewed.add_frame(f"/bodies/{node(name)}", show_axes=False)
            _put(self.bodies[name], scene.poses[i])  # until the first frame, which a trial needs seconds to send
        for number, shape in enumerate(scene.shapes):
            name = f"/bodies/{node(scene.bodies[shape.body])}/{number}"
            self._add_shape(name, shape, colours[shape.body])
        for number, (name, shape) in enumerate(scene.fields):
            self._add_shape(f"/fields/{node(name)}/{number}", shape, FIELD, opacity=0.25)
        self.tools: dict[str, Any] = {}
        self.devices: dict[str, Any] = {}
        length = 0.12 * scene.size
        for hand in scene.hands:
            held = pose_of(matrix_of(scene.poses[hand.body]) @ np.linalg.inv(hand.X_HB))
            place = f"/hands/{node(hand.name) or 'hand'}"
            for kind, handles in ("tool", self.tools), ("device", self.devices):
                handles[hand.name] = viewed.add_frame(
                    f"{place}/{kind}", axes_length=length, axes_radius=0.06 * length, origin_radius=0.12 * length
                )
                _put(handles[hand.name], held)
            for number, shape in enumerate(scene.shapes):
                if shape.body == hand.body:
                    vertices = GHOST * (shape.vertices @ hand.X_HB[:3, :3].T + hand.X_HB[:3, 3])
                    ghost = Shape(shape.body, vertices, shape.faces, smooth=shape.smooth)
                    self._add_shape(f"{place}/device/{number}", ghost, SKY, opacity=0.3)
        nothing = np.zeros((1, 2, 3))
        thin = {"shaft_radius": 0.010 * scene.size, "head_radius": 0.026 * scene.size}
        self._arrows = {
            kind: viewed.add_arrows(
                f"/arrows/{kind}", nothing, BLUE, head_length=0.055 * scene.size, visible=False, **thin
            )
            for kind in ("forces", "torques", "contacts")
        }
        self._normals = viewed.add_line_segments(
            "/contacts/normals", nothing, NORMAL, thickness=0.008 * scene.size, visible=False
        )
        self._points = {  # of contacts that stick and that slide
            slides: viewed.add_point_cloud(
                f"/contacts/{'sliding' if slides else 'sticking'}",
                np.zeros((1, 3)),
                SLIDES if slides else STICKS,
                point_size=(0.045 if slides else 0.035) * scene.size,
                point_shape="diamond" if slides else "circle",
                precision="float32",
                visible=False,
            )
            for slides in (False, True)
        }
        self._constraints = viewed.add_line_segments(
            "/constraints", nothing, NEARBY, thickness=0.01 * scene.size, visible=False
        )
        self._trail = {
            kind: viewed.add_line_segments(
                f"/trails/{kind}", nothing, colour, thickness=0.008 * scene.size, visible=False
            )
            for kind, colour in (("tool", TOOL), ("device", SKY))
        }

    def _add_shape(self, name: str, shape: Shape, colour: Colour, opacity: float | None = None) -> None:
        if shape.relief is not None and is_drawable(shape) and opacity is None:
            textured = drawn(shape, colour)
            self.meshes[name] = self.server.scene.add_mesh_trimesh(name, textured, cast_shadow=not shape.ground)
        elif len(shape.faces):
            self.meshes[name] = self.server.scene.add_mesh_simple(
                name,
                shape.vertices,
                shape.faces,
                color=colour,
                flat_shading=not shape.smooth,
                side="double",
                opacity=opacity,
                cast_shadow=opacity is None and not shape.ground,
            )

    def _point_cameras(self, away: np.ndarray) -> None:
        """The camera at the start."""
        scene, camera = self.scene, self.server.initial_camera
        camera.position = self._eye(away)
        camera.look_at = tuple(scene.centre)
        camera.up = (0.0, 1.0, 0.0) if scene.planar else (0.0, 0.0, 1.0)
        camera.fov = 0.55 if scene.planar else 0.8
        camera.near, camera.far = NEAR * scene.size, FAR * scene.size

        @self.server.on_client_connect
        async def _(client: Any) -> None:
            if client.camera.aspect < 1.0:
                client.camera.position = self._eye(away, client.camera.aspect)

    def _eye(self, away: np.ndarray, aspect: float = 1.0) -> tuple[float, ...]:
        """Position of the camera, in some direction from the scene, whose width fits into a browser of that aspect."""
        distance = (4.8 if self.scene.planar else 3.1) * self.scene.size / min(aspect, 1.0)
        return tuple(self.scene.centre + distance * away)

    def _turn(self, camera: Any, choice: str) -> None:
        """Let the camera of a browser look across the motion so far, or along an axis."""
        moving = np.flatnonzero(self.scene.moving)
        paths = [np.array(trail)[:, None] for trail in self._trails.values()]
        paths.append(np.array([frame.poses[moving, :3] for frame in self._strips]).reshape(-1, len(moving), 3))
        directions = {"x": np.array([1.0, 0.0, 0.0]), "y": np.array([0.0, -1.0, 0.0]), "z": np.array([0.0, 0.0, 1.0])}
        away = directions.get(choice)
        away = towards_eye(self.scene, [path for path in paths if path.size]) if away is None else away
        upward = self.scene.planar or abs(away[2]) > 0.99
        camera.up_direction = (0.0, 1.0, 0.0) if upward else (0.0, 0.0, 1.0)
        camera.position, camera.look_at = self._eye(away, camera.aspect), tuple(self.scene.centre)

    def _add_panels(self) -> None:
        gui = self.server.gui
        gui.set_panel_label(self.scene.title[:60])
        gui.main_panel.dock_right()
        gui.main_panel.set_width(350)
        self._state = gui.add_markdown("")
        gui.add_html(FOLDED)
        tabs = gui.add_tab_group()
        self.trial = tabs.add_tab("Trial")
        self.view = tabs.add_tab("View")
        with self.view:
            for kind, text in KINDS:
                box = gui.add_checkbox(text, True)
                box.on_update(self._switch(kind, box))
            length = gui.add_slider("length of arrows", 0.2, 5.0, 0.1, 1.0)

            @length.on_update
            async def _(_: Any) -> None:
                self._factor = float(length.value)
                self._again()

            along = gui.add_button_group("look along", CAMERA, hint="motion: across what has moved so far")

            @along.on_click
            async def _(event: Any) -> None:
                if event.client is not None:
                    self._turn(event.client.camera, str(along.value))

            fields = ((FIELD, "\u25a8", "field"),) if self.scene.fields else ()
            gui.add_html("".join(_legend(*one) for one in (*LEGEND, *fields)))
        self._numbers: dict[str, Any] = {}
        self._spans: dict[str, tuple[str, tuple[float, float]]] = {}
        if not self.scene.charts:
            return
        panel = gui.add_panel()
        with panel.add_tab("Charts"):
            colours = [_css(colour) for colour in (BLUE, PURPLE, VERMILION, GREEN)]
            for chart in self.scene.charts:
                if not chart.curves:
                    gui.add_markdown(chart.title)
                    continue
                curves = [
                    {"label": curve, "stroke": colour, "width": 1.5, "spanGaps": False, "dash": dash}
                    for curve, colour, dash in zip(chart.curves, colours, charts.DASHES, strict=False)
                ]
                self._charts[chart.name] = gui.add_uplot(
                    (np.array([0.0, 1.0]), *(np.full(2, np.nan) for _ in curves)),
                    ({"label": "s"}, *curves),
                    title=f"{chart.title} [{chart.unit}]",
                    scales={"x": {"time": False}},
                    height=125,
                )
                self._numbers[chart.name] = gui.add_html("")
        panel.dock_left()
        panel.set_width(330)

    def _switch(self, kind: str, box: Any) -> Any:
        async def switch(_: Any) -> None:
            self._shown[kind] = bool(box.value)
            self._again()

        return switch

    # What is drawn at an instant

    def show_state(self, text: str) -> None:
        """Say something in a line above the controls (Markdown)."""
        self._state.content = text

    def restart(self) -> None:
        """Another trial begins: forget what is of the last."""
        self._strips.clear()
        self._trails.clear()

    def show(self, frame: Frame) -> None:
        """Draw a frame; a step back in time begins trails and charts anew."""
        if self._frame is not None and frame.tick < self._frame.tick:
            self.restart()
        self._frame = frame
        forces = [hand.on_tool for hand in frame.hands] + [
            wrench for hand in frame.hands for wrench in (hand.rendered, hand.operator) if wrench is not None
        ]
        self._greatest = max(self._greatest, *(float(np.linalg.norm(wrench[:3])) for wrench in forces))
        self._strips.append(frame)
        while self._strips and self._strips[0].time < frame.time - WINDOW:
            self._strips.popleft()
        for holding, hand in zip(self.scene.hands, frame.hands, strict=True):
            self._leave(("tool", holding.name), hand.tool)
            if hand.device is not None:
                self._leave(("device", holding.name), hand.device)
        now = time.monotonic()
        slow = now >= self._last_drawn + REDRAWN
        with self.server.atomic():
            self._draw(frame)
            if slow:
                self._draw_trails()
        if slow:
            self._last_drawn = now
            if self._panels:
                self._draw_charts(frame)

    def _again(self) -> None:
        """Draw the last frame again, as something else is to be shown of it."""
        if self._frame is not None:
            self._draw(self._frame)
            self._draw_trails()

    def _leave(self, trail: tuple[str, str], pose: np.ndarray) -> None:
        self._trails.setdefault(trail, deque(maxlen=TRAIL)).append(np.array(pose[:3]))

    def _draw(self, frame: Frame) -> None:
        scene, size = self.scene, self.scene.size
        changed = ~np.all(self._poses == frame.poses, axis=1)
        for i in np.flatnonzero(changed):
            _put(self.bodies[scene.bodies[i]], frame.poses[i])
        self._poses = frame.poses
        for holding, hand in zip(scene.hands, frame.hands, strict=True):
            tool, device = self.tools[holding.name], self.devices[holding.name]
            _put(tool, hand.tool)
            _set(tool, "visible", self._shown["axes"])
            _set(device, "visible", hand.device is not None and self._shown["device"])
            if hand.device is not None:
                _put(device, hand.device)
        per_newton = self._factor * ARROW * size / self._greatest
        self._draw_wrenches(frame, per_newton)
        contacts = frame.contacts
        colours = np.where(frame.slides[:, None], SLIDES, STICKS).astype(np.uint8)
        shown = self._shown["contacts"]
        points = contacts["point"] + self._above
        self._set_arrows("contacts", points, per_newton * contacts["force"], colours, shown)
        for slides, cloud in self._points.items():
            these = points[frame.slides == slides]
            _set(cloud, "visible", shown and len(these) > 0)
            if shown and len(these):
                cloud.points = these.astype(np.float32)
        _set(self._normals, "visible", shown and len(contacts) > 0)
        if shown and len(contacts):
            self._normals.points = _segments(points, 0.12 * size * contacts["normal"])
        near = frame.constraints
        _set(self._constraints, "visible", self._shown["constraints"] and len(near) > 0)
        if self._shown["constraints"] and len(near):
            self._constraints.points = _patches(near["position"], near["normal"], 0.05 * size)

    def _draw_wrenches(self, frame: Frame, per_newton: float) -> None:
        """Forces and torques on the hands and of the operators."""
        starts: list[np.ndarray] = []
        forces: list[np.ndarray] = []
        colours: list[Colour] = []
        turns: list[np.ndarray] = []
        pivots: list[np.ndarray] = []
        for hand in frame.hands:
            at = (hand.tool if hand.device is None else hand.device)[:3] + self._above
            for wrench, colour in _wrenches(hand):
                acts = hand.dragged >= 0 and colour == OF_OPERATOR
                starts.append(frame.poses[hand.dragged, :3] + self._above if acts else at)
                forces.append(per_newton * wrench[:3])
                colours.append(colour)
            felt = hand.on_tool if hand.rendered is None else hand.rendered
            pivots.append(at)
            # a torque as long as the force that has it about an arm of the scene's size
            turns.append(per_newton / self.scene.size * felt[3:])
        self._set_arrows("forces", np.array(starts), np.array(forces), np.array(colours), self._shown["forces"])
        orange = np.tile(TORQUE, (len(turns), 1))
        self._set_arrows("torques", np.array(pivots), np.array(turns), orange, self._shown["torques"])

    def _set_arrows(self, kind: str, starts: np.ndarray, vectors: np.ndarray, colours: np.ndarray, shown: bool) -> None:
        """Draw arrows (N, 3) from some points (N, 3), those that have a length."""
        arrows = self._arrows[kind]
        long = np.linalg.norm(vectors, axis=1) > SMALL if len(vectors) else np.zeros(0, bool)
        shown = bool(shown and long.any())
        _set(arrows, "visible", shown)
        if shown:
            arrows.points = _segments(starts[long], vectors[long])
            arrows.colors = colours[long].astype(np.uint8)

    def _draw_trails(self) -> None:
        for kind, line in self._trail.items():
            trails = [np.array(trail) for (one, _), trail in self._trails.items() if one == kind and len(trail) > 1]
            shown = bool(trails) and self._shown["trails"] and (kind == "tool" or self._shown["device"])
            _set(line, "visible", shown)
            if shown:
                line.points = np.concatenate([np.stack([t[:-1], t[1:]], axis=1) for t in trails]).astype(np.float32)

    def _draw_charts(self, frame: Frame) -> None:
        for chart in (chart for chart in self.scene.charts if chart.curves):
            times, curves = strip(self._strips, chart)
            self._draw_chart(chart, times, curves)

    def _draw_chart(self, chart: Chart, times: np.ndarray, curves: list[np.ndarray]) -> None:
        """Show curves (N,) in SI units over times (N,): title and range are sent only where they change."""
        known = [np.abs(curve[np.isfinite(curve)]).max(initial=0.0) for curve in curves]
        unit, scale = charts.scale_of(chart, float(max(known, default=0.0)))
        shown = [scale * curve for curve in curves]
        span = charts.span_of(shown, chart.least * scale / chart.scale)
        plot = self._charts[chart.name]
        if self._spans.get(chart.name) != (unit, span):
            self._spans[chart.name] = unit, span
            plot.title = f"{chart.title} [{unit}]"
            plot.scales = {"x": {"time": False}, "y": {"range": span}}
        plot.data = (times, *shown)
        numbers = "<br>".join(escape(text) for text in charts.numbers(chart, shown, span, unit))
        self._numbers[chart.name].content = f'<div style="font-size:0.8em;padding:0 1em 0.4em">{numbers}</div>'

    def stop(self) -> None:
        """End the page."""
        with contextlib.redirect_stdout(io.StringIO()):  # it says that, too
            self.server.stop()


def node(name: str) -> str:
    """The name of a body in viser's scene, in which a slash would make a child."""
    return name.replace("/", ":")


def _put(handle: Any, pose: np.ndarray) -> None:
    handle.position = pose[:3]
    handle.wxyz = np.roll(pose[3:], 1)


def _set(handle: Any, name: str, value: Any) -> None:
    """Set a property; the same value again is not sent."""
    if getattr(handle, name) != value:
        setattr(handle, name, value)


def _segments(starts: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return np.stack([starts, starts + vectors], axis=1).astype(np.float32)


def _patches(points: np.ndarray, normals: np.ndarray, size: float) -> np.ndarray:
    """Planes as squares with their normals, of line segments (5 N, 2, 3)."""
    least = np.eye(3)[np.argmin(np.abs(normals), axis=1)]
    u = np.cross(normals, least)
    u *= size / np.linalg.norm(u, axis=1, keepdims=True)
    v = np.cross(normals, u)
    corners = np.stack([points - u - v, points + u - v, points + u + v, points - u + v], axis=1)
    edges = np.stack([corners, np.roll(corners, -1, axis=1)], axis=2).reshape(-1, 2, 3)
    return np.concatenate([edges, _segments(points, 1.5 * size * normals)]).astype(np.float32)


def _wrenches(hand: Hand) -> list[tuple[np.ndarray, Colour]]:
    found: list[tuple[np.ndarray, Colour]] = []
    if hand.rendered is not None:
        found.append((hand.rendered, ON_HAND))
    if hand.operator is not None:
        found.append((hand.operator, OF_OPERATOR))
    return found or [(hand.on_tool, VERMILION)]


def _css(colour: Colour) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def _legend(colour: Colour, sign: str, text: str) -> str:
    mark = f'<span style="color:{_css(colour)};font-size:1.2em">{sign}</span>'
    return f'<div style="font-size:0.85em;padding:1px 1em">{mark} {escape(text)}</div>'
