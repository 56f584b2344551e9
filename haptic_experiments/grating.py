"""A ball stroked over a grating: which stiffnesses and gratings are clean at 1, 5 and 10 kHz (Choi and Tan 2004).

The hand holds the ball, which the grating pushes by the force -dU/dx of one potential U, sampled at the ticks and held
for the servo period T between them. The motion under a held force is integrated exactly, so that the states at the
ticks give the whole motion. A hold has two effects.

**Images.** A sine of the amplitude a and the frequency f0 = v/wavelength, sampled and held, is a sine of the amplitude
a sinc(f0 T) and its images at n/T +- f0. The mean square of the held signal is that of its samples, a^2/2, so that the
images have the mean square

    a^2/2 (1 - sinc^2(f0 T)),   sinc(x) = sin(pi x)/(pi x),                                                       (1)

which is a^2/2 (pi f0 T)^2/3 for f0 T << 1: at ten times the rate the images are ten times smaller. A ball that gives
way by P f along the normal, P = 1/(m s^2 + b s + K_h) with the mass m, and the damping b and stiffness K_h of the hand,
feels the amplitude a = k A / |1 + k P|.

**Energy.** In a tick in which the ball moves by d, the work of the held force is -dU/dx . d, and the potential changes
by at most dU/dx . d + L/2 |d|^2, where L bounds the Hessian of U. So the hold generates L/2 |d|^2 at most. With the
force F = -k s' of the contact, and the largest slope g and second derivative c of the height (docs/textures.md),

    L = k (1 + g^2) + F c.                                                                                        (2)

The damper b of the hand is sampled and held, too. Under held forces d = T v + T^2/(2 m) (sum of forces), and the work
of that sum is the change E of the kinetic energy, so that the damper takes b v . d = b/T |d|^2 - b T/(2 m) E. The sum

    U + K_h/2 |x - x_h|^2 + (1 - b T/(2 m)) m/2 |v|^2

therefore never grows while x_h rests, if b T < 2 m and L + K_h <= 2 b/T: the largest stiffness that is surely clean is

    k = (2 b/T - K_h - F c) / (1 + g^2).                                                                          (3)

For g = c = 0 it is the condition b > K T/2 of the sampled wall (Colgate and Schenkel 1997), and the limit of stability
too: the determinant of a step is 1 - b T/m + K T^2/(2 m). In a groove the ball has the stiffness F c along the surface,
whatever k is: where F c > 2 b/T a softer texture does not help.

The subject is the paper's, and that images grow as the rate falls; (2) and (3) are ours. In the paper people judged the
textures, on a device with a resonance: their largest clean stiffness grew by 2.8 from 250 Hz to 40 kHz, where (3) grows
by 160. That is not reproduced.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from haptic_bench.analysis.base import Analysis, scene_as
from haptic_bench.analysis.claims import Findings, Quantity, Statement
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_drivers.inertial import InertialParameters
from haptic_drivers.operators import ArmParameters
from haptic_sim.geometry.shapes import PlaneParameters, SphereParameters
from haptic_sim.geometry.textures import GratingParameters
from haptic_sim.worlds.parameters import FixedBodyParameters, FreeBodyParameters, WorldParameters
from haptic_view.figures import BLACK, Axis, Figure, Line, Style, draw, style_of, thin

PLATE, BALL = "plate", "ball"
RATES = (1e3, 5e3, 1e4)  # [Hz]
AMPLITUDES = (5e-5, 2e-4, 1e-3)  # [m]
SHALLOW, DEEP = AMPLITUDES[0], AMPLITUDES[-1]
INSIDE, OUTSIDE = 0.75, 1.3  # of the limit (3) of the grating, and of that of a smooth wall
REST = 1e-3  # [m/s] root mean square speed below which the ball has come to rest
LAST = 0.05  # [s] over which it is measured, at the end of the time on one place
HOLDS = 16  # instants in a tick at which the held force is taken for its spectrum
AS_DERIVED = 0.1  # relative difference to (1)
ROUNDING = 1e-2  # of the bound of what a hold generates, which takes the slopes at the samples
PAPER = (np.array([250.0, 4e4]), np.array([325.0, 904.0]))  # [Hz], [N/m]: Choi and Tan 2004, abstract


def name(rate: float) -> str:
    """Name of a rate [Hz]."""
    return f"{1e-3 * rate:g} kHz"


INSIDE_SHALLOW = f"inside, {1e3 * SHALLOW:g} mm"
GROOVES = {
    "1 kHz": f"groove, {name(RATES[0])}",
    "5 kHz": f"inside, {1e3 * DEEP:g} mm, {name(RATES[1])}",
    "smooth, 1 kHz": f"smooth, {name(RATES[0])}",
}  # the run of each number of the claim `groove`

IMAGES = Statement(
    "images",
    "What the hold adds to the force above half of the update rate is that of equation (1), within "
    f"{100 * AS_DERIVED:g} %",
    "Choi and Tan 2004, where a slow update adds noise to the force; the closed form is ours",
    Quantity("root mean square beside the closed form", "%", 100.0),
    f"within {100 * AS_DERIVED:g} %",
    of=lambda case: {label: run.images_beside_expected for label, run in case.of_kind("images")},
    holds=lambda m: max(map(abs, m.values())) <= AS_DERIVED,
)
FALL = Statement(
    "images_fall",
    "Of the same texture under the same hand the images are smaller at each higher rate",
    "Choi and Tan 2004",
    Quantity("root mean square of the images", "mN", 1e3),
    of=lambda case: {label: run.images for label, run in case.of_kind("images")},
    holds=lambda m: bool(np.all(np.diff(list(m.values())) < 0.0)),
)
BOUND = Statement(
    "hold_is_bounded",
    "In no tick of any run the hold generates more energy than (k (1 + g^2) + F c)/2 |d|^2 in a displacement d",
    "ours: equation (2), which for a smooth wall is of Colgate and Schenkel 1997",
    Quantity("largest energy that a tick generates, of the bound", "%", 100.0),
    of=lambda case: {label: run.generated_share for label, run in case.runs.items()},
    holds=lambda m: max(m.values()) <= 1.0 + ROUNDING,
)
CLEAN = Statement(
    "clean_inside",
    f"With {INSIDE:g} of the stiffness of equation (3) the ball comes to rest in each grating at each rate",
    "ours: equation (3)",
    Quantity("root mean square speed", "mm/s", 1e3),
    f"below {1e3 * REST:g} mm/s",
    of=lambda case: {label: run.speed for label, run in case.of_kind("inside")},
    holds=lambda m: max(m.values()) < REST,
)
BUZZES = Statement(
    "buzzes_outside",
    f"With {OUTSIDE:g} times the stiffness 2 b/T it does not, in the most shallow grating at each rate",
    "Colgate and Schenkel 1997",
    Quantity("root mean square speed", "mm/s", 1e3),
    f"above {1e3 * REST:g} mm/s",
    of=lambda case: {label: run.speed for label, run in case.of_kind("outside")},
    holds=lambda m: min(m.values()) > REST,
)
STIFFER = Statement(
    "stiffer_at_higher_rates",
    "At each higher rate a stiffness is clean that buzzes at the rate before",
    "Choi and Tan 2004: the largest clean stiffness grows with the rate",
    Quantity("stiffness", "N/m"),
    of=lambda case: case.stiffest(),
    holds=lambda m: all(m[f"clean, {name(b)}"] > m[f"buzzes, {name(a)}"] for a, b in pairwise(RATES)),
    runs=[f"{kind}, {name(rate)}" for kind in (INSIDE_SHALLOW, "outside") for rate in RATES],
)
GROOVE = Statement(
    "groove",
    "In the deepest grating a stiffness that is clean at 5 kHz buzzes at 1 kHz, where a wall of twice as much that is "
    "nearly smooth is clean: the groove is too sharp for the press of the hand",
    "ours: F c > 2 b/T",
    Quantity("root mean square speed", "mm/s", 1e3),
    of=lambda case: case.groove(),
    runs=list(GROOVES.values()),
    holds=lambda m: m["1 kHz"] > REST > max(m["5 kHz"], m["smooth, 1 kHz"]),
)


def grating_of(experiment: Experiment) -> GratingParameters:
    """The texture of the plate."""
    shape = scene_as(experiment, WorldParameters).bodies[PLATE].shapes[0]
    assert isinstance(shape, PlaneParameters) and isinstance(shape.texture, GratingParameters)  # `lacking` has looked
    return shape.texture


def arm_of(experiment: Experiment) -> ArmParameters:
    """The hand."""
    assert isinstance(experiment.operator, ArmParameters)  # `NEEDS`
    return experiment.operator


def press(experiment: Experiment) -> float:
    """Force with which the hand presses the ball on the grating, about [N]: that of its spring."""
    scene, arm = scene_as(experiment, WorldParameters), arm_of(experiment)
    ball = scene.bodies[BALL]
    assert isinstance(ball, FreeBodyParameters)
    return -arm.stiffness * (ball.position[2] + arm.path[-1][3] - _radius(experiment))


def clean_stiffness(experiment: Experiment, rate: float, slope: float, curvature: float) -> float:
    """The largest stiffness that is clean for certain, by equation (3) [N/m]; not positive: none is.

    Args:
        experiment: whose hand it is.
        rate: of the servo [Hz].
        slope, curvature: largest ones of the height [1, 1/m].
    """
    arm = arm_of(experiment)
    return (2.0 * arm.damping * rate - arm.stiffness - press(experiment) * curvature) / (1.0 + slope * slope)


def variant(trial: Trial, rate: float, amplitude: float, stiffness: float) -> Trial:
    """The trial at another rate [Hz], with another amplitude [m] and another stiffness [N/m]."""
    experiment = trial.experiment
    scene = scene_as(experiment, WorldParameters)
    plate = scene.bodies[PLATE]
    texture = grating_of(experiment).model_copy(update={"amplitude": amplitude})
    shape = plate.shapes[0].model_copy(update={"texture": texture})
    bodies = {**scene.bodies, PLATE: plate.model_copy(update={"shapes": (shape, *plate.shapes[1:])})}
    contact = experiment.contact.model_copy(update={"stiffness": stiffness})
    update = {"rate": rate, "contact": contact, "scene": scene.model_copy(update={"bodies": bodies})}
    return replace(trial, experiment=experiment.model_copy(update=update))


def variants_of(trial: Trial) -> dict[str, Trial]:
    """Trials to compare, by name: images at one stiffness, and gratings inside and outside of the limits."""
    experiment, own = trial.experiment, trial.experiment.contact.stiffness
    made = {f"images, {name(rate)}": variant(trial, rate, SHALLOW, own) for rate in RATES}
    deep = {}
    for amplitude in AMPLITUDES:
        texture = grating_of(experiment).model_copy(update={"amplitude": amplitude})
        for rate in RATES:
            k = INSIDE * clean_stiffness(experiment, rate, texture.largest_slope, texture.largest_curvature)
            if k > 0.0:
                made[f"inside, {1e3 * amplitude:g} mm, {name(rate)}"] = variant(trial, rate, amplitude, k)
                deep[amplitude, rate] = k
    for rate in RATES:
        k = OUTSIDE * clean_stiffness(experiment, rate, 0.0, 0.0)
        made[f"outside, {name(rate)}"] = variant(trial, rate, SHALLOW, k)
    if (DEEP, RATES[1]) in deep:
        k = deep[DEEP, RATES[1]]
        made[f"groove, {name(RATES[0])}"] = variant(trial, RATES[0], DEEP, k)
        made[f"smooth, {name(RATES[0])}"] = variant(trial, RATES[0], 1e-3 * SHALLOW, 2.0 * k)
    return made


def _radius(experiment: Experiment) -> float:
    shape = scene_as(experiment, WorldParameters).bodies[BALL].shapes[0]
    assert isinstance(shape, SphereParameters)
    return shape.radius


@dataclass(frozen=True)
class Stroke:
    """A run of the experiment, and what is measured of it."""

    trial: Trial
    samples: Samples

    @property
    def period(self) -> float:
        """Period of the servo, T [s]."""
        return 1.0 / self.trial.experiment.rate

    @property
    def stiffness(self) -> float:
        """Stiffness of the contact, k [N/m]."""
        return self.trial.experiment.contact.stiffness

    @cached_property
    def position(self) -> np.ndarray:
        """Position of the hand at the ticks [m] (rows, 3)."""
        return np.stack([self.samples[f"hand_p{axis}"] for axis in "xyz"], axis=-1)

    @cached_property
    def velocity(self) -> np.ndarray:
        """Velocity of the hand at the ticks [m/s] (rows, 3)."""
        return np.stack([self.samples[f"hand_v{axis}"] for axis in "xyz"], axis=-1)

    @property
    def force(self) -> np.ndarray:
        """Force that the device renders from each tick to the next one [N] (rows, 3)."""
        return self.samples.wrench("rendered")[:, :3]

    @property
    def overlap(self) -> np.ndarray:
        """-s' of ball and grating, in closed form [m] (rows,); 0 out of contact."""
        grating, (x, _, z) = grating_of(self.trial.experiment), self.position.T
        height = grating.amplitude * (np.sin(2.0 * math.pi * x / grating.wavelength + grating.phase) - 1.0)
        return np.asarray(np.maximum(0.0, height + _radius(self.trial.experiment) - z))

    @property
    def generated(self) -> np.ndarray:
        """Energy that the hold generates in each tick: work of the held force, and change of the potential [J]."""
        elastic = 0.5 * self.stiffness * self.overlap**2
        return np.asarray(np.sum(self.force[:-1] * np.diff(self.position, axis=0), axis=1) + np.diff(elastic))

    @property
    def generated_share(self) -> float:
        """Largest one of these, of its bound."""
        grating, moved = grating_of(self.trial.experiment), np.sum(np.diff(self.position, axis=0) ** 2, axis=1)
        largest = self.stiffness * (1.0 + grating.largest_slope**2)
        largest += self.stiffness * float(self.overlap.max()) * grating.largest_curvature
        some = moved > 1e-18  # [m^2] where rounding is no part of it
        return float((self.generated[some] / (0.5 * largest * moved[some])).max(initial=0.0))

    @property
    def speed(self) -> float | None:
        """Root mean square speed at the end of the time on one place, or of a run that is unstable before [m/s]."""
        time, end = self.samples["time"], arm_of(self.trial.experiment).path[-2][0]
        if time[-1] < end and len(time) > self.trial.experiment.last_tick:
            return None
        last = time <= end
        rows = last & (time > time[last][-1] - LAST)
        return float(np.sqrt(np.mean(np.sum(self.velocity[rows] ** 2, axis=1))))

    @property
    def _stroke(self) -> np.ndarray:
        """Rows of the stroke."""
        (start, *_), (end, *_) = arm_of(self.trial.experiment).path[-2:]
        return np.asarray((self.samples["time"] >= start) & (self.samples["time"] < end))

    @cached_property
    def spectrum(self) -> tuple[np.ndarray, np.ndarray]:
        """Frequencies [Hz] of the normal force of the stroke, as it is held, and mean square at each [N^2]."""
        held = np.repeat(self.force[self._stroke, 2], HOLDS)
        window = np.hanning(len(held))
        power = 2.0 * np.abs(np.fft.rfft(window * held)) ** 2 / (len(held) * np.sum(window**2))
        return np.fft.rfftfreq(len(held), self.period / HOLDS), power

    @property
    def images(self) -> float | None:
        """Root mean square of what the held force has above half of the update rate [N]; None: there is no stroke."""
        if self.samples["time"][-1] < arm_of(self.trial.experiment).path[-1][0] - 1.5 * self.period:
            return None
        frequency, power = self.spectrum
        return float(np.sqrt(power[frequency > 0.5 / self.period].sum()))

    @property
    def images_beside_expected(self) -> float | None:
        """That, relative to equation (1) with the velocity of each tick, less 1."""
        if self.images is None:
            return None
        experiment, arm = self.trial.experiment, arm_of(self.trial.experiment)
        grating, device = grating_of(experiment), experiment.device
        assert isinstance(device, InertialParameters) and device.mass is not None  # `lacking` has looked
        frequency = np.abs(self.velocity[self._stroke, 0]) / grating.wavelength
        s = 2j * math.pi * frequency
        yields = self.stiffness / (device.mass * s**2 + arm.damping * s + arm.stiffness)
        amplitude = self.stiffness * grating.amplitude / np.abs(1.0 + yields)
        weight = np.hanning(len(s)) ** 2
        power = 0.5 * amplitude**2 * (1.0 - np.sinc(frequency * self.period) ** 2)
        return float(self.images / np.sqrt(np.sum(weight * power) / weight.sum()) - 1.0)


@dataclass(frozen=True)
class Strokes:
    """A run, and those that it is compared with, by name."""

    own: Stroke
    runs: Mapping[str, Stroke]

    def of_kind(self, kind: str) -> list[tuple[str, Stroke]]:
        """Runs of a kind."""
        return [(label, run) for label, run in self.runs.items() if label.startswith(f"{kind}, ")]

    def stiffest(self) -> dict[str, float | None]:
        """Stiffness of the runs of the most shallow grating that are clean inside, 0 if not, and buzz outside [N/m]."""
        found: dict[str, float | None] = {}
        for rate in RATES:
            inside = self.runs.get(f"{INSIDE_SHALLOW}, {name(rate)}")
            outside = self.runs.get(f"outside, {name(rate)}")
            clean = inside is not None and inside.speed is not None and inside.speed < REST
            found[f"clean, {name(rate)}"] = None if inside is None else inside.stiffness if clean else 0.0
            buzzes = outside is not None and outside.speed is not None and outside.speed > REST
            found[f"buzzes, {name(rate)}"] = outside.stiffness if outside is not None and buzzes else None
        return found

    def groove(self) -> dict[str, float | None]:
        """Speed in the deepest grating, and on a smooth wall of twice the stiffness [m/s]."""
        return {key: self.runs[label].speed if label in self.runs else None for key, label in GROOVES.items()}


class Grating(Analysis):
    SCENES = ("world",)
    NEEDS: ClassVar = {"operator": "arm", "device": "inertial", "controller": "direct"}
    METRICS: ClassVar = {
        "images": Quantity(
            "Root mean square of the images in the normal force", "mN", 1e3, of=lambda case: case.own.images
        ),
        "clean_stiffness": Quantity(
            "Largest stiffness that is clean for certain (equation 3); not positive: none is",
            "N/m",
            of=lambda case: _limit(case.own.trial.experiment),
        ),
        "speed": Quantity(
            "Root mean square speed at the end of the time on one place", "mm/s", 1e3, of=lambda case: case.own.speed
        ),
        "generated": Quantity(
            "Energy that the hold has generated", "uJ", 1e6, of=lambda case: float(case.own.generated.sum())
        ),
        "largest_force": Quantity(
            "Largest force of the grating", "N", of=lambda case: float(np.linalg.norm(case.own.force, axis=1).max())
        ),
    }
    CLAIMS = (IMAGES, FALL, BOUND, CLEAN, BUZZES, STIFFER, GROOVE)

    def lacking(self, experiment: Experiment) -> Iterator[str]:
        yield from _parts(experiment)
        arm, device, contact = experiment.operator, experiment.device, experiment.contact
        if isinstance(arm, ArmParameters) and (len(arm.path) < 3 or arm.mass > 0.0 or not arm.damping > 0.0):
            yield "an arm without mass, with damping, and a path that ends with a time on one place and a stroke"
        if isinstance(device, InertialParameters) and (
            device.damping is None or device.damping[0] > 0.0 or device.mass is None
        ):
            yield "a device with a mass that moves exactly under a held force: device.damping = [0, 0]"
        if experiment.asynchronous or experiment.environment.integrator != 3:
            yield "a tool that moves as the device does: environment.integrator = 3, without a local model"
        if contact.penalty != "explicit" or contact.damping > 0.0:
            yield "springs alone: contact.penalty = explicit and contact.damping = 0"

    def variants(self, trial: Trial, samples: Samples) -> dict[str, Trial]:
        """Other rates, gratings and stiffnesses."""
        return variants_of(trial)

    def label(self, trial: Trial) -> str | None:
        experiment = trial.experiment
        as_compared = experiment.rate in RATES and grating_of(experiment).amplitude == SHALLOW
        return f"images, {name(experiment.rate)}" if as_compared else None

    def case(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Strokes:
        trials = variants_of(trial) if references else {}
        runs = {label: Stroke(trials[label], run) for label, run in references.items()}
        return Strokes(Stroke(trial, samples), runs)

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        """Limits over the rate, spectra of the held force, and what is inside and outside."""
        case = self.case(trial, samples, findings.references)
        rates = np.geomspace(250.0, 4e4, 200)
        limits = []
        for i, amplitude in enumerate(AMPLITUDES):
            texture = grating_of(trial.experiment).model_copy(update={"amplitude": amplitude})
            slope, curvature = texture.largest_slope, texture.largest_curvature
            most = np.array([clean_stiffness(trial.experiment, rate, slope, curvature) for rate in rates])
            limits.append(
                Line(np.log10(rates), np.where(most > 0.0, most, np.nan), f"{1e3 * amplitude:g} mm", style_of(i))
            )
        limits.append(Line(np.log10(PAPER[0]), PAPER[1], "felt as clean (Choi and Tan)", Style(BLACK), points=True))
        spectra, speeds = [], []
        for i, (label, run) in enumerate(case.of_kind("images")):
            frequency, power = run.spectrum
            some = (frequency > 0.0) & (frequency < 1.25e4)
            spectra.append(Line(*thin(1e-3 * frequency[some], 1e3 * np.sqrt(power[some])), label[8:], style_of(i)))
        for i, kind in enumerate((INSIDE_SHALLOW, "outside")):
            at_1_khz = case.runs.get(f"{kind}, {name(RATES[0])}")
            if at_1_khz is not None:
                time, velocity = at_1_khz.samples["time"], at_1_khz.velocity[:, 2]
                speeds.append(Line(*thin(time, 1e3 * velocity), kind, style_of(i)))
        title, rate = "(a) largest stiffness that is surely clean", "decimal logarithm of the update rate in Hz"
        force = [Line(*thin(samples["time"], Stroke(trial, samples).force[:, 2]), "", Style())]
        amplitudes = Axis("amplitude [mN]", span=(1e-3, 1e3), log=True)
        speed = Axis("velocity [mm/s]", least=1.0)
        panels = [
            draw("limits", title, limits, rate, Axis("stiffness [N/m]", log=True)),
            draw("spectra", "(b) held force of a stroke", spectra, "frequency [kHz]", amplitudes),
            draw("speeds", "(c) normal velocity, 1 kHz", speeds, "time [s]", speed),
            draw("force", "(d) normal force of this run", force, "time [s]", Axis("force [N]", least=0.1)),
        ]
        caption = (
            "A hand presses a ball on a grating, waits, and strokes. A held force has images above half of the update "
            "rate, and generates energy; what the damping of the hand does not dissipate is felt as a buzz."
        )
        return [Figure("Grating", caption, [one for one in panels if not one.empty]),
                *super().figures(trial, samples, findings)]  # fmt: skip


def _limit(experiment: Experiment) -> float:
    """Equation (3) for an experiment [N/m]."""
    grating = grating_of(experiment)
    return clean_stiffness(experiment, experiment.rate, grating.largest_slope, grating.largest_curvature)


def _parts(experiment: Experiment) -> Iterator[str]:
    """Bodies that are not as they must be."""
    bodies = scene_as(experiment, WorldParameters).bodies
    plate, ball = bodies.get(PLATE), bodies.get(BALL)
    shape: Any = plate.shapes[0] if isinstance(plate, FixedBodyParameters) and plate.shapes else None
    level = isinstance(shape, PlaneParameters) and shape.normal == (0.0, 0.0, 1.0) and shape.offset == 0.0
    level = level and plate is not None and np.allclose((plate.pose * shape.pose).homogeneous, np.eye(4))  # type: ignore[union-attr]
    if not (level and isinstance(shape.texture, GratingParameters) and shape.texture.direction == (1.0, 0.0, 0.0)):
        yield "a fixed body plate, with the plane z = 0 as its first shape and a grating along x"
    balls = ball.shapes if isinstance(ball, FreeBodyParameters) else ()
    if not (len(balls) == 1 and isinstance(balls[0], SphereParameters)):
        yield "a free body ball with a sphere"


ANALYSIS = Grating()
