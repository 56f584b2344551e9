"""A nut that a hand screws onto a bolt: thread against thread, felt by signed distance fields.

Beyond the sources. A thread is a helix: where its flanks touch on one side, the nut advances by the pitch in a turn.
With the radial clearance c and flanks at 30 degrees to the radius (ISO 68-1), each flank is c tan 30 off along the axis
where the nut is in the middle, so that the axial play is 2 c tan 30. A row of a field joins the points of a cell by a
smooth minimum. Of n points at one distance s it is s - delta (1/2 - 1/sqrt(n)), with the accuracy delta, as
n (delta / sqrt(n))^2 = delta^2: along the axis each flank is felt delta (1/2 - 1/sqrt(n)) / cos 30 early.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from haptic_bench.analysis.base import Analysis, scene_as
from haptic_bench.analysis.claims import Findings, Quantity, Statement
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_experiments.common.mujoco_worlds import largest_force
from haptic_sim.geometry.fields.shells import Shell
from haptic_sim.geometry.generate import ISO_DEPTH, numbers_of
from haptic_sim.geometry.shapes import GeneratedParameters
from haptic_sim.worlds.parameters import FreeBodyParameters, WorldParameters
from haptic_view.figures import BLACK, BLUE, VERMILION, Axis, Figure, Line, Style, draw, thin

BODIES = ("bolt", "nut")
PITCH = 0.01  # part of the pitch by which a turn may differ from it
FLANK = np.pi / 6.0  # angle of a flank from the radius (ISO 68-1) [rad]
EDGE = 0.3  # along the axis: normals of flanks (cos 30) and of their edges (0.5) have more
TURNS = 1.0  # that the pitch is measured over, at least
STEADY = 0.05  # [s] that the hand's wrench has not changed for, before a place counts as being at rest on a flank
NEAR = 0.25  # of the accuracy, that the play may differ by: chosen
NUMERICAL = 0.01  # of the energy that the hand gives: chosen
SIDEWAYS, TURNING = 0.1, 0.05  # chosen: part of the axial force that may act across, part of the torque about z
scene_of = partial(scene_as, kind=WorldParameters)

ADVANCES = Statement(
    "advances",
    f"The nut advances by the pitch of the thread in a turn, to {100 * PITCH:g} %",
    "a helix",
    Quantity("advance in a turn", "mm", 1e3),
    of=lambda case: {"nut": case.advance, "thread": case.pitch},
    holds=lambda m: abs(m["nut"] - m["thread"]) <= PITCH * m["thread"],
    when=lambda case: case.turns >= TURNS,
)
PLAY = Statement(
    "play",
    "Between a pull and a push the nut has the axial play 2 c tan 30 of the radial clearance c, and the depths of both "
    "contacts, less what smooth minima of the n points of a cell feel both flanks early, delta (1/2 - n^-1/2) / cos 30 "
    f"of the accuracy delta, to {NEAR:g} delta; it may be larger by the overlaps with which consistent springs begin, "
    "at most the longest step of the nut on its way to each flank",
    "geometry of the thread (ISO 68-1)",
    Quantity("axial play", "mm", 1e3),
    of=lambda case: {
        "nut": case.play,
        "thread": case.derived_play,
        "depths": case.depths,
        "early": case.early,
        "begun": case.begun,
        "allowed": NEAR * case.accuracy,
    },
    holds=lambda m: -m["allowed"] <= m["nut"] - m["depths"] - m["thread"] + m["early"] <= m["allowed"] + m["begun"],
    when=lambda case: case.early is not None,
)
FORCES = Statement(
    "forces",
    "While the nut is turned the thread bears the force of the hand along the axis: across it at most "
    f"{100 * SIDEWAYS:g} % of it act",
    "balance of forces; what is allowed is chosen",
    Quantity("force", "N"),
    of=lambda case: {"axial": case.axial, "hand": case.pressed, "across": case.across},
    holds=lambda m: (
        abs(m["axial"] - m["hand"]) <= TURNING * abs(m["hand"]) and m["across"] <= SIDEWAYS * abs(m["hand"])
    ),
    when=lambda case: case.turns >= TURNS,
)
TORQUE = Statement(
    "torque",
    f"The grease takes the work of the hand, to {100 * TURNING:g} %: the thread has no friction",
    "balance of work",
    Quantity("energy", "J"),
    of=lambda case: {"hand": case.given, "grease": case.greased},
    holds=lambda m: abs(m["hand"] - m["grease"]) <= TURNING * m["hand"],
    when=lambda case: case.turns >= TURNS,
)

ENERGY = Statement(
    "energy",
    f"Contacts add no energy: discrete time changes it by less than {100 * NUMERICAL:g} % of what the hand gives, and "
    "behind a local model by what tangent planes of a thread miss besides",
    "balance of energy; what is allowed is chosen, and derived for tangent planes",
    Quantity("largest numerical energy, energy that the hand gives, and what tangent planes miss", "J"),
    of=lambda case: {
        "numerical": np.abs(case.samples["energy_numerical"]).max(),
        "given": case.samples["energy_injected"].max(),
        "planes": case.missed,
    },
    holds=lambda m: m["numerical"] <= NUMERICAL * m["given"] + m["planes"],
    when=lambda case: case.turns >= TURNS,
)

METRICS = {
    "advance": Quantity("Advance of the nut in a turn", "mm", 1e3, of=lambda case: case.advance),
    "play": Quantity("Axial play of the nut", "mm", 1e3, of=lambda case: case.play),
    "turns": Quantity("Turns of the nut", of=lambda case: case.turns),
    "largest_force": Quantity("Largest force on the nut", "N", of=lambda case: largest_force(case.samples)),
    "tilt": Quantity("Largest tilt of the nut", "deg", 180.0 / np.pi, of=lambda case: case.tilt),
}


@dataclass(frozen=True)
class Screwing:
    """A trial of a nut on a bolt.

    Attributes:
        numbers: of bolt and nut.
        shells: points of bolt and nut.
        accuracy: of the fields [m].
    """

    trial: Trial
    samples: Samples
    numbers: tuple[dict[str, float], dict[str, float]]
    shells: tuple[Shell, ...]
    accuracy: float

    @property
    def pitch(self) -> float:
        """Pitch of the thread [m]."""
        return self.numbers[0]["pitch"]

    @property
    def angle(self) -> np.ndarray:
        """Angle of the nut about the axis [rad] (rows,)."""
        found: np.ndarray = np.unwrap(2.0 * np.arctan2(self.samples["tool_qz"], self.samples["tool_qw"]))
        return found - found[0]

    @property
    def tilt(self) -> float:
        """Largest angle of the nut's axis from that of the bolt [rad]."""
        sine = np.hypot(self.samples["tool_qx"], self.samples["tool_qy"])
        return float(2.0 * np.arcsin(np.minimum(sine, 1.0)).max())

    @property
    def slack(self) -> np.ndarray:
        """Place of the nut along the axis, less that of the helix [m] (rows,): between the flanks."""
        return np.asarray(self.samples["tool_pz"] - self.pitch * self.angle / (2.0 * np.pi))

    def _steady(self, sign: float, *, turned: bool = False) -> np.ndarray:
        """Rows in which the hand has pulled (1) or pushed (-1) with the same wrench for a while, turning or not."""
        force, torque = self.samples["operator_fz"], self.samples["operator_tz"]
        rows = max(1, round(STEADY * self.trial.experiment.rate))
        same = np.zeros(len(force), bool)
        same[rows:] = (force[rows:] == force[:-rows]) & (torque[rows:] == torque[:-rows])
        return np.asarray(same & (sign * force > 0.0) & ((torque != 0.0) == turned))

    @property
    def pulled(self) -> np.ndarray:
        """Rows in which the nut rests on the upper flank."""
        return self._steady(1.0)

    @property
    def pushed(self) -> np.ndarray:
        """Rows in which it rests on the lower flank, and is not turned."""
        return self._steady(-1.0)

    @property
    def turned(self) -> np.ndarray:
        """Rows in which it is turned while it is pressed down."""
        return self._steady(-1.0, turned=True)

    @property
    def turns(self) -> float:
        """Number of turns of the nut."""
        angle = self.angle[self.turned]
        return float(np.ptp(angle) / (2.0 * np.pi)) if angle.size else 0.0

    @property
    def advance(self) -> float | None:
        """Advance in a turn [m]: the slope of the regression of position on angle."""
        rows = self.turned
        if self.turns < TURNS:
            return None
        return float(2.0 * np.pi * np.polyfit(self.angle[rows], self.samples["tool_pz"][rows], 1)[0])

    @property
    def play(self) -> float | None:
        """Between the places on both flanks [m]."""
        if not (self.pulled.any() and self.pushed.any()):
            return None
        return float(np.median(self.slack[self.pulled]) - np.median(self.slack[self.pushed]))

    @property
    def derived_play(self) -> float:
        """Axial play that follows from the clearances of both threads [m]."""
        return float(2.0 * self.play_across * np.tan(FLANK))

    @property
    def depths(self) -> float:
        """Depths of the contacts on both flanks along the axis [m]: 2 U / F of springs that hold the force F."""
        found = 0.0
        for rows in (self.pulled, self.pushed):
            force = np.abs(self.samples["env_fz"][rows])
            if force.size and force.min() > 0.0:
                found += float(np.median(2.0 * self.samples["energy_elastic"][rows] / force))
        return found

    @property
    def begun(self) -> float:
        """Overlaps of the contacts on both flanks of which their springs know nothing, at most [m].

        A consistent spring that begins has the strain 0, at an overlap of at most one step (docs/contact.md).
        """
        if self.trial.experiment.contact.penalty != "consistent":
            return 0.0
        steps = np.abs(np.diff(self.slack, prepend=self.slack[0]))
        found, begin = 0.0, 0
        resting = [np.flatnonzero(rows) for rows in (self.pulled, self.pushed) if rows.any()]
        for rows in sorted(resting, key=lambda rows: rows[0]):
            found += float(steps[begin : rows[0] + 1].max())
            begin = int(rows[-1])
        return found

    def _points_on_flank(self, sign: float) -> np.ndarray:
        """Numbers of points of the cells that touch where the nut is pulled up (1) or pushed down (-1)."""
        low = float(np.median(self.samples["tool_pz"][self.pulled if sign > 0.0 else self.pushed]))
        radius, height = 0.5 * self.numbers[0]["diameter"], self.numbers[1]["height"]
        counts = []
        for shell, at, facing in zip(self.shells, (0.0, low), (-sign, sign), strict=True):
            r, z = np.hypot(shell.points[:, 0], shell.points[:, 1]), shell.points[:, 2] + at
            beside = (r < radius + 0.5 * self.play_across) & (r > radius - ISO_DEPTH * self.pitch)
            engaged = (z > max(low, 0.0)) & (z < min(low + height, self.numbers[0]["length"]))
            touching = beside & engaged & (facing * shell.normals[:, 2] > EDGE)
            cells = np.repeat(np.arange(len(shell.cell) - 1), np.diff(shell.leaf[shell.cell]))
            counts.append(np.bincount(cells[touching], minlength=len(shell.cell) - 1))
        found = np.concatenate(counts)
        return found[found > 0]

    @property
    def play_across(self) -> float:
        """Radial clearance of both threads [m]."""
        return sum(one["clearance"] for one in self.numbers)

    @property
    def early(self) -> float | None:
        """Reduction of the play by smooth minima [m]: the mean over the points that touch."""
        if len(self.shells) != 2 or not (self.pulled.any() and self.pushed.any()):
            return None
        found = 0.0
        for sign in (1.0, -1.0):
            n = self._points_on_flank(sign)
            if n.size:
                found += float(np.average(0.5 - 1.0 / np.sqrt(n), weights=n)) * self.accuracy / np.cos(FLANK)
        return found

    @property
    def axial(self) -> float | None:
        """Mean force of the thread along the axis while the nut is turned [N]."""
        return float(self.samples["env_fz"][self.turned].mean()) if self.turned.any() else None

    @property
    def pressed(self) -> float | None:
        """Mean force of the hand that it balances [N]."""
        return float(-self.samples["operator_fz"][self.turned].mean()) if self.turned.any() else None

    @property
    def across(self) -> float | None:
        """Largest force across the axis while the nut is turned [N]."""
        rows = self.turned
        if not rows.any():
            return None
        return float(np.hypot(self.samples["env_fx"][rows], self.samples["env_fy"][rows]).max())

    @property
    def missed(self) -> float:
        """Energy that tangent planes of a local model miss of the thread while the nut turns [J]; 0 without one.

        A turn by phi lifts a plane at the radius r by r tan 30 phi^2 / 2 off the thread, along the axis. Planes that
        are renewed with the period T, late by d, are used from phi = w d to w (d + T), so that each update takes
        F r tan 30 w^2 ((d + T)^2 - d^2) / 2, which is (d + T/2) F r tan 30 w^2 in a second.
        """
        experiment, samples = self.trial.experiment, self.samples
        if not experiment.asynchronous:
            return 0.0
        schedule = experiment.environment.schedule(experiment.rate)
        age = (schedule.delay + 0.5 * schedule.period) / experiment.rate
        radius = 0.5 * (self.numbers[0]["diameter"] - ISO_DEPTH * self.pitch)
        power = age * radius * np.tan(FLANK) * np.abs(samples["env_fz"]) * samples["tool_wz"] ** 2
        return float(power.sum() / experiment.rate)

    @property
    def given(self) -> float:
        """Work of the hand while it turns the nut [J]."""
        samples = self.samples
        power = samples["operator_fz"] * samples["tool_vz"] + samples["operator_tz"] * samples["tool_wz"]
        return float(np.sum(power[self.turned]) / self.trial.experiment.rate)

    @property
    def greased(self) -> float:
        """Energy dissipated by the grease meanwhile [J]: b w^2 integrated over time."""
        damping = sum(getattr(one, "turn_damping", 0.0) for one in scene_of(self.trial.experiment).fields.values())
        return float(damping * np.sum(self.samples["tool_wz"][self.turned] ** 2) / self.trial.experiment.rate)


def _numbers(experiment: Experiment, body: str) -> dict[str, float]:
    """The numbers of the generated shape of a body.

    Raises:
        KeyError: it has none.
    """
    found = scene_of(experiment).bodies[body]
    if body == "nut" and not isinstance(found, FreeBodyParameters):
        raise KeyError(body)
    for shape in found.shapes:
        if isinstance(shape, GeneratedParameters) and shape.shape == body:
            return numbers_of(shape.shape) | shape.numbers
    raise KeyError(body)


class NutAndBolt(Analysis):
    SCENES = ("world",)
    METRICS = METRICS
    CLAIMS = (ADVANCES, PLAY, FORCES, TORQUE, ENERGY)

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        for name in BODIES:
            try:
                _numbers(experiment, name)
            except KeyError:
                yield f"a body {name} with the generated shape of that name"
        if experiment.standalone:
            yield "a device"

    def case(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Screwing:
        bolt, nut = (_numbers(trial.experiment, name) for name in BODIES)
        taken = {mesh.body: mesh.taken.field for mesh in trial.world.meshes}
        fields = [field for name in BODIES if (field := taken.get(name)) is not None]
        accuracy = max((field.accuracy for field in fields), default=0.0)
        return Screwing(trial, samples, (bolt, nut), tuple(field.shell for field in fields), accuracy)

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        case, time = self.case(trial, samples, {}), samples["time"]
        place, turns = samples["tool_pz"], case.angle / (2.0 * np.pi)
        panels = [
            draw(
                "advance",
                "(a) place of the nut",
                [
                    Line(*thin(turns, 1e3 * (place - place[0])), "nut", Style(BLUE)),
                    Line(*thin(turns, 1e3 * case.pitch * turns), "helix of the pitch", Style(BLACK, (4, 2))),
                ],
                "angle [turns]",
                "along the axis [mm]",
            ),
            draw(
                "play",
                "(b) place between the flanks",
                [
                    Line(*thin(time, 1e3 * (case.slack - case.slack[0])), "nut", Style(BLUE)),
                    *(
                        Line(time[[0, -1]], np.full(2, 500.0 * sign * case.derived_play), label, Style(BLACK, (4, 2)))
                        for sign, label in ((1.0, "play of the thread"), (-1.0, ""))
                    ),
                ],
                "time [s]",
                Axis("slack [mm]", least=0.01),
            ),
            draw(
                "force",
                "(c) force of the thread",
                [Line(*thin(time, samples["env_fz"]), "along the axis", Style(VERMILION))],
                "time [s]",
                Axis("force [N]", least=0.1),
            ),
        ]
        text = (
            "The nut is lifted, pressed down, and turned: it follows the helix of its thread. Between the flanks it "
            "comes to rest beyond the play of rigid threads, as its contacts have a depth."
        )
        return [Figure("Nut and bolt", text, panels), *super().figures(trial, samples, findings)]


ANALYSIS = NutAndBolt()
