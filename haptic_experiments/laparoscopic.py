"""An instrument through a fixed entry point: the tip moves opposite to the handle, and the shaft stays at the point."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from haptic_bench.analysis.base import scene_as
from haptic_bench.analysis.claims import Claim, Findings, Quantity, Statement
from haptic_bench.experiment import Trial
from haptic_bench.recording.samples import Samples, rotations
from haptic_experiments.common.linkage_motion import ACROSS, CALLED, METRICS, Held, LinkageAnalysis, blocks, declared
from haptic_sim.worlds.linkages import LaparoscopicParameters
from haptic_view.figures import BLACK, BLUE, GREEN, ORANGE, VERMILION, Axis, Figure, Line, Style, draw, thin

ENTRY = 1e-9  # [m]
RATIO = 1e-6  # of the ratio of the lever arms
DEVICE_RATIO = 0.05  # the same of a device; chosen
MOVES = 1e-3  # [m/s] of the handle across the shaft, below which the ratio says nothing
TOUCHED = 1e-6  # [N]
scene_of = partial(scene_as, kind=LaparoscopicParameters)


def shaft(pose: np.ndarray) -> np.ndarray:
    """Direction from the tip to the handle (n, 3), of poses (n, 7)."""
    return rotations(pose)[:, :, 2]


def entry_error(pose: np.ndarray) -> np.ndarray:
    """Distance of the entry point, the origin, from the axis of the shaft [m] (n,)."""
    return np.linalg.norm(np.cross(pose[:, :3], shaft(pose)), axis=1)


def outside(pose: np.ndarray) -> np.ndarray:
    """Length of the shaft between the entry point and the handle [m] (n,)."""
    return np.einsum("ni,ni->n", pose[:, :3], shaft(pose))


def tip(scene: LaparoscopicParameters, pose: np.ndarray) -> np.ndarray:
    """Position of the tip [m] (n, 3)."""
    return pose[:, :3] - scene.length * shaft(pose)


def across_velocities(
    scene: LaparoscopicParameters, samples: Samples, body: str = "tool"
) -> tuple[np.ndarray, np.ndarray]:
    """Velocities of handle and tip across the shaft [m/s] (n, 3), of the tool or of a shaft in a device's hand."""
    pose, twist = samples.pose(body), samples.twist(body)
    along = shaft(pose)
    handle = twist[:, :3]
    end = handle + np.cross(twist[:, 3:], tip(scene, pose) - pose[:, :3])
    return tuple(v - np.einsum("ni,ni->n", v, along)[:, None] * along for v in (handle, end))


def ratio_errors(scene: LaparoscopicParameters, samples: Samples, body: str = "tool") -> np.ndarray:
    """Errors of the tip's velocity across the shaft over the handle's, from -(length below) / (length above) (m,)."""
    handle, end = across_velocities(scene, samples, body)
    above = outside(samples.pose(body))
    moves = (np.linalg.norm(handle, axis=1) > MOVES) & (above > MOVES)
    handle, end, above = handle[moves], end[moves], above[moves]
    ratio = -(scene.length - above) / above
    return np.linalg.norm(end - ratio[:, None] * handle, axis=1) / np.linalg.norm(handle, axis=1) / np.abs(ratio)


ENTRY_POINT = Statement(
    "entry_point",
    "The shaft passes through the entry point; one in the hand of a device, which then decides, to "
    f"{1e3 * ACROSS:g} mm",
    "geometry; what is allowed to a device is chosen",
    Quantity("largest distance of the shaft from the entry point", "µm", 1e6),
)
FULCRUM = Statement(
    "fulcrum",
    "Across the shaft the tip goes against the handle, as far as the lengths below and above the entry point are to "
    f"each other; of a shaft in the hand of a device, which then decides, to {100 * DEVICE_RATIO:g} %",
    "law of the lever; what is allowed to a device is chosen",
    Quantity("largest error of the ratio of velocities", "%", 100.0),
)
FEELS_TISSUE = Statement(
    "feels_tissue",
    "The tissue pushes the handle when the tip touches it, and only then",
    "THESIS 5.12",
    Quantity("force at the handle", "N"),
)


class Laparoscopic(LinkageAnalysis):
    SCENES = ("laparoscopic",)
    METRICS = METRICS | {
        "entry_error": Quantity("Largest distance of the tool's shaft from the entry point", "nm", 1e9),
        "entry_error_hand": Quantity(
            "Largest distance of a shaft that moves with the device from the entry point", "mm", 1e3
        ),
        "ratio_error": Quantity("Largest error of the tip's velocity by the law of the lever", "ppm", 1e6),
        "ratio_least": Quantity("Smallest ratio of the tip's way to the handle's"),
        "ratio_largest": Quantity("Largest ratio of the tip's way to the handle's"),
        "tissue_force": Quantity("Largest force of the tissue as the hand feels it", "N"),
    }
    CLAIMS = declared(
        blocks("two of six directions: forces across the shaft at the entry point"), ENTRY_POINT, FULCRUM, FEELS_TISSUE
    )
    BLOCKED = 2
    PLANES = ((0, 2), (0, 1))

    def more_metrics(self, trial: Trial, samples: Samples, held: Held) -> dict[str, float | None]:
        scene, pose = scene_of(trial.experiment), samples.pose("tool")
        above, errors = outside(pose), ratio_errors(scene, samples)
        ratios = (scene.length - above) / np.maximum(above, 1e-9)
        touched = samples["contacts"] > 0
        return {
            "entry_error": float(entry_error(pose).max()),
            "entry_error_hand": float(entry_error(samples.pose("hand")).max()) if held.device else None,
            "ratio_error": float(errors.max()) if errors.size else None,
            "ratio_least": float(ratios.min()),
            "ratio_largest": float(ratios.max()),
            "tissue_force": float(np.linalg.norm(samples.wrench("env")[:, :3], axis=1).max()) if touched.any() else 0.0,
        }

    def more_claims(self, trial: Trial, samples: Samples, held: Held, references: Mapping[str, Samples]) -> list[Claim]:
        """Entry point, fulcrum, tissue."""
        scene = scene_of(trial.experiment)
        off = {CALLED[body]: float(entry_error(samples.pose(body)).max()) for body in held.bodies}
        errors = {CALLED[body]: ratio_errors(scene, samples, body) for body in held.bodies}
        worst = {word: float(some.max()) if some.size else None for word, some in errors.items()}
        felt = CALLED[held.bodies[0]]
        ratio = worst[felt]
        force, touching = np.linalg.norm(samples.wrench("env")[:, :3], axis=1), samples["contacts"] > 0
        pushed = float(force[touching].max()) if touching.any() else None
        free = float(force[~touching].max()) if not touching.all() else 0.0
        return [
            ENTRY_POINT.judged(dict(off), off[felt] <= (ACROSS if held.device else ENTRY)),
            FULCRUM.judged(worst, None if ratio is None else ratio <= (DEVICE_RATIO if held.device else RATIO)),
            FEELS_TISSUE.judged(
                {"touching": pushed, "not touching": free},
                None if pushed is None else pushed > TOUCHED and free <= TOUCHED,
            ),
        ]

    def more_figures(self, trial: Trial, samples: Samples, findings: Findings) -> list[Figure]:
        """Tip beside handle; lengths and depth; force of the tissue."""
        scene, time, pose = scene_of(trial.experiment), samples["time"], samples.pose("tool")
        at, above = tip(scene, pose), outside(pose)
        lever = [
            Line(1e3 * pose[:, 0], 1e3 * pose[:, 1], "handle", Style(BLUE)),
            Line(1e3 * at[:, 0], 1e3 * at[:, 1], "tip", Style(VERMILION)),
        ]
        depth = [Line(*thin(time, 1e3 * at[:, 2]), "tip", Style(VERMILION))]
        if scene.tissue is not None:
            surface = np.full(2, -1e3 * scene.tissue)
            depth.append(Line(time[[0, -1]], surface, "tissue", Style(BLACK, (1.2, 2.2), 1.1)))
        handle, end = (np.linalg.norm(v, axis=1) for v in across_velocities(scene, samples))
        ratio = np.where(handle > MOVES, end / np.maximum(handle, MOVES), np.nan)
        ratios = [
            Line(time, ratio, "velocities", Style(BLUE, width=2.4)),
            Line(*thin(time, (scene.length - above) / above), "lengths below and above", Style(ORANGE, (5, 1.8))),
        ]
        force = [
            Line(*thin(time, samples[f"env_{c}"]), f"along {c[1]}", Style(colour))
            for c, colour in (("fx", BLUE), ("fy", GREEN), ("fz", VERMILION))
        ]
        panels = [
            draw("lever", "(a) handle and tip from above", lever, "x [mm]", Axis("y [mm]", least=1.0), equal=True),
            draw("depth", "(b) height of the tip", depth, "time [s]", Axis("z [mm]", least=1.0)),
            draw("ratio", "(c) tip by handle, across the shaft", ratios, "time [s]", Axis("ratio", least=0.1)),
            draw("tissue", "(d) force of the tissue at the handle", force, "time [s]", Axis("force [N]", least=0.1)),
        ]
        if "hand_px" in samples.names:
            gap = Line(*thin(time, 1e3 * entry_error(samples.pose("hand"))), "device", Style(VERMILION))
            title = "(e) shaft in the device's hand from the entry point"
            panels.append(draw("entry", title, [gap], "time [s]", Axis("distance [mm]", least=1e-3)))
        text = (
            "The entry point is a fulcrum: tip and handle go against each other, in the ratio of the lengths of the "
            "shaft below and above it. The ratio is not shown where the handle hardly moves."
        )
        return [Figure("The fulcrum", text, panels)]


ANALYSIS = Laparoscopic()
