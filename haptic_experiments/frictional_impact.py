"""Impacts with friction: a ball with back-spin and a rod on the floor, beside the equations of Routh.

During an impact the velocity (c_n, c_t) of the contact changes with the normal impulse p_n (Routh; Keller 1986):
    dc / dp_n = A (1, s),   s = -mu sign(c_t) while it slides.
Once slip has stopped, the contact sticks with s = -A_nt / A_tt if that is within the cone of friction; otherwise it
slides on in the direction in which slip grows, s = -mu sign(A_nt). A is the mobility of the contact. Compression ends
where c_n = 0, the impact where the normal work has risen from its least value W_c to (1 - e^2) W_c (Stronge 1990). In
the plane every phase is linear in p_n, so that the solution has a closed form.

For a ball A_nt = 0 and A_tt = 7 / (2 m): it rolls after the impact if mu (1 + e) |c_n| >= 2/7 |c_t|, else it slides on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from haptic_bench.analysis.base import Analysis, scene_as
from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.analysis.figures import Curve, energy_figure
from haptic_bench.experiment import Experiment, Trial
from haptic_bench.recording.samples import Samples
from haptic_sim.rotations import matrices
from haptic_sim.worlds.scenes import ROD_END, StrikeParameters
from haptic_view.figures import BLACK, BLUE, ORANGE, VERMILION, Axis, Figure, Line, Panel, Style, draw, shown

NOT_YET, STICKS, SLIDES, REVERSED = 0, 1, 2, 3
WORDS = {
    "ball": ("no impact yet", "rolls", "slides on", "slides back"),
    "rod": ("no impact yet", "sticks", "slides on", "slides back"),
}
BODIES = ("ball", "rod")
NO_SLIP = 1e-4  # of the contact's velocity before: slower slip than that is none
ACCURACY = 0.02  # of the contact's velocity before: how near the simultaneous method is to come to Routh's equations
BACKWARD = -1.0  # back-spin is negative about y

_STATE = "slip after its impact: 0 none yet, 1 rolls or sticks, 2 slides on, 3 slides back"
METRICS = {
    "ball_slip_state": Quantity(f"Ball: {_STATE}"),
    "ball_slip_after": Quantity("Ball: slip velocity after, forward", "m/s"),
    "ball_velocity_after": Quantity("Ball: forward velocity after", "m/s"),
    "ball_rebound": Quantity("Ball: upward velocity of the contact after", "m/s"),
    "ball_spin_after": Quantity("Ball: back-spin after", "rad/s"),
    "ball_impulse_ratio": Quantity("Ball: tangential by normal impulse"),
    "ball_energy_lost": Quantity("Ball: kinetic energy lost", "J"),
    "rod_slip_state": Quantity(f"Rod: {_STATE}"),
    "rod_slip_after": Quantity("Rod: slip velocity of its end after, forward", "m/s"),
    "rod_velocity_after": Quantity("Rod: forward velocity of its middle after", "m/s"),
    "rod_rebound": Quantity("Rod: upward velocity of its end after", "m/s"),
    "rod_spin_after": Quantity("Rod: angular velocity after, backward", "rad/s"),
    "rod_impulse_ratio": Quantity("Rod: tangential by normal impulse"),
    "rod_energy_lost": Quantity("Rod: kinetic energy lost", "J"),
}
ROLLS_OR_SLIDES = Statement(
    "ball_rolls_or_slides",
    "The ball rolls after the impact if friction can stop its slip, that is if mu (1 + e) |normal velocity| is at "
    "least 2/7 |slip velocity|; else it slides on",
    "Coulomb's law for a uniform ball",
    Quantity("change of slip that rolling takes, and that friction can give", "m/s"),
)
REBOUNDS_BACKWARDS = Statement(
    "ball_rebounds_backwards",
    "Back-spin throws the ball back the way it came, if the equations say so",
    "Coulomb's law for a uniform ball",
    Quantity("forward velocity", "m/s"),
)
ROD_SLIP = Statement(
    "rod_slip_state",
    "The rod's end sticks, slides on or slides back as the equations of Routh say",
    "Routh, Keller 1986",
    Quantity("slip velocity of the rod's end", "m/s"),
)
FOLLOWS_ROUTH = Statement(
    "follows_routh",
    f"The velocities after the impacts are those of Routh and Stronge within {100 * ACCURACY:g} % of those before",
    "Routh, Stronge 1990",
    Quantity("largest difference of a contact's velocity, of that before", "%", 1e2),
)
WITHIN_CONE = Statement(
    "within_friction_cone",
    "The impulses lie within the cone of friction",
    "Coulomb's law; THESIS 7.2",
    Quantity("tangential impulse by normal one"),
)
LOSES_ENERGY = Statement(
    "loses_energy",
    "No impact adds energy",
    "Stronge 1990; THESIS 4.4.1",
    Quantity("kinetic energy lost", "J"),
)
CLAIMS = (ROLLS_OR_SLIDES, REBOUNDS_BACKWARDS, ROD_SLIP, FOLLOWS_ROUTH, WITHIN_CONE, LOSES_ENERGY)
scene_of = partial(scene_as, kind=StrikeParameters)


@dataclass(frozen=True)
class Path:
    """Course of an impact by theory: the end points of its phases.

    Attributes:
        normal, tangential: impulses on the body up to each point [N s], (phases + 1,).
        rebound, slip: normal and tangential velocity of the contact there [m/s], (phases + 1,).
        compressed: the normal impulse at which compression ends [N s].
    """

    normal: np.ndarray
    tangential: np.ndarray
    rebound: np.ndarray
    slip: np.ndarray
    compressed: float

    @property
    def state(self) -> int:
        """State of the slip after the impact; a slip that has stopped is exactly zero."""
        return slip_state(float(self.slip[0]), float(self.slip[-1]), 0.0)


def routh(A_nn: float, A_nt: float, A_tt: float, c_n: float, c_t: float, e: float, mu: float) -> Path:
    """An impact of one contact in the plane, see the module.

    Args:
        A_nn, A_nt, A_tt: mobility of the contact [1/kg].
        c_n, c_t: its velocity before [m/s]; nothing happens unless c_n < 0.
        e: Stronge's coefficient of restitution.
        mu: coefficient of friction.
    """
    p_n = p_t = work = compressed = 0.0
    goal = None  # normal work at the end; known once compression has ended
    points = [(p_n, p_t, c_n, c_t)]
    stopped = c_t == 0.0
    # Slip stops once and compression ends once, or again where sliding on presses the contact deeper.
    for _ in range(8 if c_n < 0.0 else 0):
        s = -mu * math.copysign(1.0, c_t)
        if stopped:
            s = -A_nt / A_tt
            if abs(s) > mu:
                s = -mu * math.copysign(1.0, A_nt)
        a_n, a_t = A_nn + s * A_nt, 0.0 if stopped and abs(A_nt) <= mu * A_tt else A_nt + s * A_tt
        to_stop = -c_t / a_t if not stopped and c_t * a_t < 0.0 else math.inf
        if goal is None:
            to_end = -c_n / a_n if a_n > 0.0 else math.inf
        else:
            root = c_n**2 + 2.0 * a_n * (goal - work)  # c_n x + a_n x^2 / 2 = goal - work
            to_end = 2.0 * (goal - work) / (c_n + math.sqrt(root)) if root >= 0.0 else math.inf
        x = min(to_stop, to_end)
        work += c_n * x + 0.5 * a_n * x * x
        p_n, p_t, c_n, c_t = p_n + x, p_t + s * x, c_n + a_n * x, c_t + a_t * x
        if to_stop <= to_end:
            stopped, c_t = True, 0.0
        points.append((p_n, p_t, c_n, c_t))
        if to_end <= to_stop:
            if goal is not None:
                break
            goal, compressed, c_n = (1.0 - e * e) * work, p_n, 0.0
            if e == 0.0:
                break
    normal, tangential, rebound, slip = np.array(points).T
    return Path(normal, tangential, rebound, slip, compressed)


def slip_state(before: float, after: float, speed: float) -> int:
    """State of a slip after an impact at the contact velocity `speed`: STICKS, SLIDES or REVERSED."""
    if abs(after) <= NO_SLIP * speed:
        return STICKS
    return REVERSED if after * before < 0.0 else SLIDES


def mobility(scene: StrikeParameters, body: str, lever: np.ndarray) -> tuple[float, float, float]:
    """A_nn, A_nt, A_tt [1/kg] of a contact at `lever` (3,) [m] from the centre of mass, in the plane of x and z."""
    x, z = float(lever[0]), float(lever[2])
    m, inertia = scene.mass, _inertia(scene, body)
    return 1 / m + x * x / inertia, -x * z / inertia, 1 / m + z * z / inertia


def _inertia(scene: StrikeParameters, body: str) -> float:
    """About the axis across the plane [kg m^2]."""
    return scene.mass * (0.4 * scene.radius**2 if body == "ball" else scene.length**2 / 12)


def planned(experiment: Experiment, body: str) -> Path:
    """The impact by theory, of a body as the scene sets it off."""
    scene = scene_of(experiment)
    if body == "ball":
        lever = np.array([0.0, 0.0, -scene.radius])
        c_n, c_t = -scene.speed[1], scene.speed[0] + scene.spin * scene.radius
    else:
        angle = math.radians(scene.angle)
        lever = np.array([-0.5 * scene.length * math.cos(angle), 0.0, -0.5 * scene.length * math.sin(angle) - ROD_END])
        c_n, c_t = -scene.rod_speed[1], scene.rod_speed[0]
    return routh(*mobility(scene, body, lever), c_n, c_t, *_material(experiment))


def _material(experiment: Experiment) -> tuple[float, float]:
    friction = experiment.contact.friction
    return experiment.contact.restitution, friction.kinetic if friction.model.type != "none" else 0.0


@dataclass(frozen=True)
class Impact:
    """The impact of a body in a trial.

    Attributes:
        tick: in which it happens.
        before, after: velocity of the contact along x and z [m/s].
        velocity, spin: of the body after, forward [m/s] and backward [rad/s].
        ratio: of the tangential to the normal impulse.
        normal: normal impulse [N s].
        lost: kinetic energy [J].
        theory: the same impact by the equations of Routh.
    """

    tick: int
    before: tuple[float, float]
    after: tuple[float, float]
    velocity: float
    spin: float
    ratio: float
    normal: float
    lost: float
    theory: Path

    @property
    def speed(self) -> float:
        """Speed of the contact before the impact [m/s]."""
        return math.hypot(*self.before)

    @property
    def state(self) -> int:
        """State of the slip after the impact."""
        return slip_state(self.before[0], self.after[0], self.speed)

    @property
    def error(self) -> float:
        """Difference of the contact's velocity after to theory, of its velocity before."""
        slip, rebound = self.after[0] - self.theory.slip[-1], self.after[1] - self.theory.rebound[-1]
        return math.hypot(slip, rebound) / self.speed


def _motion(scene: StrikeParameters, body: str, samples: Samples) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lever of the contact, linear and angular velocity of a body, in world axes, each (rows, 3)."""
    first, at = 7 * BODIES.index(body), 6 * BODIES.index(body)
    R = matrices(np.stack([samples[f"q{first + i}"] for i in range(3, 7)], axis=-1))
    velocity = np.stack([samples[f"v{at + i}"] for i in range(3)], axis=-1)
    turning = np.stack([samples[f"v{at + i}"] for i in range(3, 6)], axis=-1)  # in the body's axes
    down = np.array([0.0, 0.0, -1.0])
    lever = scene.radius * down if body == "ball" else -0.5 * scene.length * R[:, :, 2] + ROD_END * down
    return np.broadcast_to(lever, velocity.shape), velocity, np.einsum("nij,nj->ni", R, turning)


def contact_velocity(scene: StrikeParameters, body: str, samples: Samples) -> np.ndarray:
    """Velocity of the point that touches, or will, in world axes, (rows, 3) [m/s]."""
    lever, velocity, turning = _motion(scene, body, samples)
    return velocity + np.cross(turning, lever)


def impact_of(trial: Trial, body: str, samples: Samples) -> Impact | None:
    """The first impact of a body in a trial; None if there is none, or no row after it.

    It is that of the first colliding tick which throws the contact back: what follows it, such as penalties where the
    bodies still overlap, is not the impact's.
    """
    scene = scene_of(trial.experiment)
    lever, velocity, turning = _motion(scene, body, samples)
    change = np.diff(velocity[:, 2])
    struck = np.flatnonzero((samples["colliding"][:-1] > 0) & (change > 1e-6 * np.abs(velocity[:-1, 2])))
    if not struck.size:
        return None
    k = int(struck[0])
    before, after = (velocity[i] + np.cross(turning[i], lever[k]) for i in (k, k + 1))
    if not before[2] < 0.0:
        return None
    jump = velocity[k + 1] - velocity[k]
    inertia = _inertia(scene, body)

    def energy(i: int) -> float:
        return 0.5 * scene.mass * float(velocity[i] @ velocity[i]) + 0.5 * inertia * float(turning[i, 1] ** 2)

    A = mobility(scene, body, lever[k])
    return Impact(
        tick=k,
        before=(float(before[0]), float(before[2])),
        after=(float(after[0]), float(after[2])),
        velocity=float(velocity[k + 1, 0]),
        spin=BACKWARD * float(turning[k + 1, 1]),
        ratio=math.hypot(jump[0], jump[1]) / float(jump[2]),
        normal=scene.mass * float(jump[2]),
        lost=energy(k) - energy(k + 1),
        theory=routh(*A, float(before[2]), float(before[0]), *_material(trial.experiment)),
    )


def _impacts(trial: Trial, samples: Samples) -> dict[str, Impact]:
    found = {body: impact_of(trial, body, samples) for body in BODIES}
    return {body: impact for body, impact in found.items() if impact is not None}


class FrictionalImpact(Analysis):
    SCENES = ("strike",)
    METRICS = METRICS
    CLAIMS = CLAIMS
    METHODS = ("hybrid",)

    def columns(self, trial: Trial, samples: Samples) -> Mapping[str, np.ndarray]:
        """Slip of each body: its velocity (forward, m/s) at every tick, and from the impact on the state after it."""
        added: dict[str, np.ndarray] = {}
        for body in BODIES:
            slip = contact_velocity(scene_of(trial.experiment), body, samples)[:, 0]
            state = np.full(len(samples), NOT_YET)
            impact = impact_of(trial, body, samples)
            if impact is not None:
                state[impact.tick + 1 :] = impact.state
            added |= {f"{body}_slip": state, f"{body}_slip_velocity": slip}
        return added

    def variants(self, trial: Trial, samples: Samples) -> dict[str, Trial]:
        """The reference treats contacts one at a time after Mirtich (method `hybrid`)."""
        return {} if trial.experiment.environment.method.type == "hybrid" else {"one at a time": _one_at_a_time(trial)}

    def judge(self, trial: Trial, samples: Samples, references: Mapping[str, Samples]) -> Findings:
        impacts = _impacts(trial, samples)
        return Findings(_metrics(impacts), _claims(trial, impacts), references)

    def figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        runs = {"this run": _impacts(trial, samples)}
        runs |= {name: _impacts(_one_at_a_time(trial), run) for name, run in findings.references.items()}
        own = Curve("this run", trial, samples, Style(BLUE))
        return shown(
            _paths(trial, runs),
            _regimes(trial, runs["this run"]),
            _over_time([own]),
            energy_figure([own]),
        )

    def sweep_figures(self, curves: Sequence[Curve]) -> list[Figure]:
        return shown(_over_key(curves), _sweep_paths(curves), _over_time(curves), energy_figure(curves))

    def expected(self, trial: Trial, findings: Findings) -> Mapping[str, tuple[float, str]]:
        """The equations of Routh, for the impacts that happened."""
        known: dict[str, tuple[float, str]] = {}
        source = "Routh, Stronge"
        for body in BODIES:
            if findings.metrics[f"{body}_slip_after"] is None:
                continue
            path = planned(trial.experiment, body)
            for name, value in _by_theory(trial.experiment, body, path).items():
                known[f"{body}_{name}"] = (value, source)
        return known


def _one_at_a_time(trial: Trial) -> Trial:
    experiment = trial.experiment
    environment = experiment.environment.with_method("hybrid")
    return replace(trial, experiment=experiment.model_copy(update={"environment": environment}))


def _by_theory(experiment: Experiment, body: str, path: Path) -> dict[str, float]:
    """Theoretical outcome of the impact of a body, by the names of metrics without the body's."""
    scene = scene_of(experiment)
    m, inertia = scene.mass, _inertia(scene, body)
    forward = scene.speed[0] if body == "ball" else scene.rod_speed[0]
    spin = scene.spin if body == "ball" else 0.0
    if body == "ball":
        x, z = 0.0, -scene.radius
    else:
        angle = math.radians(scene.angle)
        x, z = -0.5 * scene.length * math.cos(angle), -0.5 * scene.length * math.sin(angle) - ROD_END
    p_n, p_t = float(path.normal[-1]), float(path.tangential[-1])
    # the impulse (p_t, p_n) at (x, z) turns about y by z p_t - x p_n; its work is p . (c + c') / 2
    lost = -0.5 * (p_n * (path.rebound[0] + path.rebound[-1]) + p_t * (path.slip[0] + path.slip[-1]))
    return {
        "slip_state": path.state,
        "slip_after": float(path.slip[-1]),
        "velocity_after": forward + p_t / m,
        "rebound": float(path.rebound[-1]),
        "spin_after": spin + BACKWARD * (z * p_t - x * p_n) / inertia,
        "impulse_ratio": abs(p_t) / p_n if p_n > 0.0 else 0.0,
        "energy_lost": float(lost),
    }


def _metrics(impacts: Mapping[str, Impact]) -> dict[str, float | None]:
    metrics: dict[str, float | None] = dict.fromkeys(METRICS)
    for body, impact in impacts.items():
        metrics |= {
            f"{body}_slip_state": impact.state,
            f"{body}_slip_after": impact.after[0],
            f"{body}_velocity_after": impact.velocity,
            f"{body}_rebound": impact.after[1],
            f"{body}_spin_after": impact.spin,
            f"{body}_impulse_ratio": impact.ratio,
            f"{body}_energy_lost": impact.lost,
        }
    return metrics


def _claims(trial: Trial, impacts: Mapping[str, Impact]) -> list[Claim]:
    e, mu = _material(trial.experiment)
    ball, rod = impacts.get("ball"), impacts.get("rod")

    def of(name: str) -> dict[str, float | None]:
        return {body: getattr(impacts[body], name) if body in impacts else None for body in BODIES}

    both = ball is not None and rod is not None
    needed = friction = forward = thrown = None
    rolls = back = same = None
    if ball is not None:
        needed, friction = 2.0 / 7.0 * abs(ball.before[0]), mu * (1.0 + e) * abs(ball.before[1])
        rolls = (ball.state == STICKS) == (friction >= needed)
        forward = scene_of(trial.experiment).speed[0]
        thrown = forward + float(ball.theory.tangential[-1]) / scene_of(trial.experiment).mass
        back = (ball.velocity < 0.0) == (thrown < 0.0)
    if rod is not None:
        same = rod.state == rod.theory.state
    return [
        ROLLS_OR_SLIDES.judged(
            {"needed": needed, "friction": friction, "slip after": ball.after[0] if ball else None}, rolls
        ),
        REBOUNDS_BACKWARDS.judged({"before": forward, "after": ball.velocity if ball else None, "Routh": thrown}, back),
        ROD_SLIP.judged(
            {
                "before": rod.before[0] if rod else None,
                "after": rod.after[0] if rod else None,
                "Routh": float(rod.theory.slip[-1]) if rod else None,
            },
            same,
        ),
        FOLLOWS_ROUTH.judged(of("error"), max(i.error for i in impacts.values()) <= ACCURACY if both else None),
        WITHIN_CONE.judged(
            {**of("ratio"), "coefficient": mu}, all(i.ratio <= mu + 1e-9 for i in impacts.values()) if both else None
        ),
        LOSES_ENERGY.judged(of("lost"), all(i.lost >= 0.0 for i in impacts.values()) if both else None),
    ]


_SLIP_AXES = ("normal impulse [N s]", Axis("slip velocity, forward [m/s]", least=1e-3))
_PATH_TEXT = (
    "Slip of the contact as the normal impulse grows, by the equations of Routh: friction slows it until it stops; "
    "then it sticks, or slides the way in which the coupling of normal and tangent drives it. "
)


def _paths(trial: Trial, runs: Mapping[str, Mapping[str, Impact]]) -> Figure:
    """Slip over the normal impulse by theory, and where the simulated impacts end."""
    panels = []
    for letter, body in zip("ab", BODIES, strict=True):
        own = runs["this run"].get(body)
        path = own.theory if own else planned(trial.experiment, body)
        lines = [
            Line(path.normal, path.slip, "Routh's equations", Style(VERMILION, width=1.6)),
            Line(
                np.full(2, path.compressed),
                np.array([min(path.slip.min(), 0.0), path.slip.max()]),
                "end of compression",
                Style(BLACK, (1.2, 2.2), 1.0),
            ),
        ]
        for (name, impacts), colour in zip(runs.items(), (BLUE, ORANGE), strict=False):
            if body in impacts:
                end = impacts[body]
                lines.insert(
                    0, Line(_at(end.normal), _at(end.after[0]), _long(name, trial), Style(colour), points=True)
                )
        state = WORDS[body][path.state]
        panels.append(draw(f"slip_{body}", f"({letter}) {body}: {state}", lines, *_SLIP_AXES))
    text = _PATH_TEXT + "Points: where the simulated impacts end."
    return Figure("Slip during the impact", text, panels, _table(trial, runs))


def _at(value: float) -> np.ndarray:
    return np.array([value])


def _long(name: str, trial: Trial) -> str:
    method = trial.experiment.environment.method.label
    return f"this run, {method}" if name == "this run" else "one contact at a time (Mirtich)"


def _table(trial: Trial, runs: Mapping[str, Mapping[str, Impact]]) -> list[list[str]]:
    head = [
        "After the impact",
        "contact",
        "slip [m/s]",
        "forward [m/s]",
        "rebound [m/s]",
        "back-spin [rad/s]",
        "p_t / p_n",
        "lost [J]",
    ]
    table = [head]

    def row(label: str, body: str, numbers: Mapping[str, float | None]) -> list[str]:
        state, *others = (numbers[name] for name in ROW)
        return [f"{body}: {label}", WORDS[body][int(state or 0)], *map(_show, others)]

    for body in BODIES:
        for name, impacts in runs.items():
            if body in impacts:
                found = _metrics({body: impacts[body]})
                table.append(row(_long(name, trial), body, {key: found[f"{body}_{key}"] for key in ROW}))
        path = planned(trial.experiment, body)
        table.append(row("Routh's equations", body, _by_theory(trial.experiment, body, path)))
    return table


ROW = ("slip_state", "slip_after", "velocity_after", "rebound", "spin_after", "impulse_ratio", "energy_lost")


def _show(value: float | None) -> str:
    if value is None:
        return "\N{EN DASH}"
    return f"{value if abs(value) > 5e-6 else 0.0:.4f}".replace("-", "\N{MINUS SIGN}")


# What is drawn over a key: its name, the text of the axis
KEYS = {
    "contact.friction.kinetic": "kinetic coefficient of friction",
    "contact.restitution": "coefficient of restitution",
    "scene.spin": "back-spin of the ball [rad/s]",
    "scene.angle": "angle of the rod to the floor [deg]",
}


def _get(experiment: Experiment, key: str) -> Any:
    value: Any = experiment
    for name in key.split("."):
        value = getattr(value, name)
    return value


def _with(parameters: Any, key: str, value: Any) -> Any:
    name, _, rest = key.partition(".")
    if rest:
        return parameters.model_copy(update={name: _with(getattr(parameters, name), rest, value)})
    return parameters.model_copy(update={name: value})


def _regimes(trial: Trial, impacts: Mapping[str, Impact]) -> Figure:
    """Figure of the outcome over the coefficient of friction by theory, with that of this run."""
    mu = _material(trial.experiment)[1]
    key = "contact.friction.kinetic"
    run = {body: [(mu, impact)] for body, impact in impacts.items()}
    return _figure_over(trial.experiment, key, np.linspace(0.0, max(1.0, 1.5 * mu), 401), {"this run": run})


def _over_key(curves: Sequence[Curve]) -> Figure | None:
    """The runs of a sweep over the one key in which they differ; None if it is not one of KEYS, or not one."""
    experiments = [curve.trial.experiment for curve in curves]
    varied = [key for key in KEYS if len({_get(e, key) for e in experiments}) > 1]
    methods = list(dict.fromkeys(e.environment.method.type for e in experiments))
    first = experiments[0]

    def alike(experiment: Experiment) -> Experiment:
        method = _with(experiment, "environment.method", first.environment.method)
        return _with(method, varied[0], _get(first, varied[0]))

    if len(varied) != 1 or any(alike(e) != first for e in experiments):
        return None
    (key,) = varied
    runs: dict[str, dict[str, list[tuple[float, Impact]]]] = {method: {} for method in methods}
    for curve in curves:
        experiment = curve.trial.experiment
        for body, impact in _impacts(curve.trial, curve.samples).items():
            runs[experiment.environment.method.type].setdefault(body, []).append((_get(experiment, key), impact))
    values = [_get(e, key) for e in experiments]
    at = np.linspace(min(values), max(values), 401)
    return _figure_over(first, key, at, runs)


def _figure_over(
    experiment: Experiment,
    key: str,
    values: np.ndarray,
    runs: Mapping[str, Mapping[str, Sequence[tuple[float, Impact]]]],
) -> Figure:
    panels: list[Panel] = []
    quantities = (
        ("velocity_after", "ball", "forward velocity after [m/s]", lambda impact: impact.velocity),
        ("slip_after", "ball", "slip velocity after [m/s]", lambda impact: impact.after[0]),
        ("slip_after", "rod", "slip velocity after [m/s]", lambda impact: impact.after[0]),
        ("energy_lost", "rod", "kinetic energy lost [J]", lambda impact: impact.lost),
    )
    states: dict[str, list[int]] = {body: [] for body in BODIES}
    for letter, (name, body, axis, measured) in zip("abcd", quantities, strict=True):
        paths = [(_with(experiment, key, float(value)), value) for value in values]
        found = [(e, planned(e, body), value) for e, value in paths]
        theory = np.array([_by_theory(e, body, path)[name] for e, path, _ in found])
        states[body] = [path.state for _, path, _ in found]
        lines = [Line(values, theory, "Routh's equations", Style(VERMILION, width=1.3))]
        for i, (label, of) in enumerate(runs.items()):
            points = of.get(body, [])
            if points:
                x = np.array([value for value, _ in points])
                y = np.array([measured(impact) for _, impact in points])
                style = Style((BLUE, ORANGE, BLACK)[i % 3])
                lines.insert(i, Line(x, y, label.replace("_", " "), style, points=True))
        panels.append(
            draw(f"over_{body}_{name}", f"({letter}) {body}: {axis.rpartition(' [')[0]}", lines, KEYS[key], axis)
        )
    words = "; ".join(f"the {body} {_ranges(experiment, key, body, values, states[body])}" for body in BODIES)
    return Figure(f"Over the {KEYS[key]}", f"By theory {words}. Points: simulated.", panels)


def _ranges(experiment: Experiment, key: str, body: str, values: np.ndarray, states: Sequence[int]) -> str:
    """Text about the ranges in which each slip state is reached."""
    parts = []
    for i in range(1, len(states)):
        if states[i] != states[i - 1]:
            low, high = float(values[i - 1]), float(values[i])
            for _ in range(20):
                middle = 0.5 * (low + high)
                same = planned(_with(experiment, key, middle), body).state == states[i - 1]
                low, high = (middle, high) if same else (low, middle)
            parts.append(f"{WORDS[body][states[i - 1]]} up to {high:.3g}")
    last = WORDS[body][states[-1]]
    return ", ".join([*parts, f"{last} beyond" if parts else last])


def _sweep_paths(curves: Sequence[Curve]) -> Figure:
    """Slip during the impact in each run."""
    panels = []
    for letter, body in zip("ab", BODIES, strict=True):
        lines = []
        for curve in curves:
            impact = impact_of(curve.trial, body, curve.samples)
            path = impact.theory if impact else planned(curve.trial.experiment, body)
            lines.append(Line(path.normal, path.slip, curve.label, curve.style))
        panels.append(draw(f"slip_{body}", f"({letter}) {body}", lines, *_SLIP_AXES))
    table = [["", "ball", "slip after [m/s]", "rod", "slip after [m/s]"]]
    for curve in curves:
        row = [curve.label]
        for body in BODIES:
            impact = impact_of(curve.trial, body, curve.samples)
            row += [WORDS[body][impact.state if impact else NOT_YET], _show(impact.after[0] if impact else None)]
        table.append(row)
    return Figure(
        "Slip during the impact", _PATH_TEXT + "The table has what the simulated impacts left.", panels, table
    )


def _over_time(curves: Sequence[Curve]) -> Figure:
    panels = []
    for letter, body in zip("ab", BODIES, strict=True):
        lines = [
            Line(
                c.samples["time"],
                contact_velocity(scene_of(c.trial.experiment), body, c.samples)[:, 0],
                c.label,
                c.style,
                steps=True,
            )
            for c in curves
        ]
        axis = "slip velocity, forward [m/s]"
        panels.append(draw(f"time_{body}", f"({letter}) {body}", lines, "time [s]", Axis(axis, least=1e-3)))
    return Figure(
        "Slip over time",
        "Velocity along the floor of the point that touches it, or is next to. After the impact the rod turns, which "
        "moves its end.",
        panels,
    )


ANALYSIS = FrictionalImpact()
