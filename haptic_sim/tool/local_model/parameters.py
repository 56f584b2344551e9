"""Parameters of the local model of interaction."""

from __future__ import annotations

from typing import Literal

from haptic_sim.parameters import Parameters, quantity

Kind = Literal["none", "full", "intermediate_representation", "resolve", "held", "extrapolated"]


class TransientParameters(Parameters):
    """A decaying sinusoid along the normal that an impact adds to the rendered force (THESIS 7.2)."""

    amplitude: float = quantity(
        0.0, unit="N s/m", description="Amplitude for each m/s of the approach; 0: none", ge=0.0, le=1e4
    )
    frequency: float = quantity(
        150.0, unit="Hz", description="Frequency: wood about 100, metal about 300 Hz", gt=0.0, le=1e4
    )
    decay: float = quantity(60.0, unit="1/s", description="Rate at which it decays", gt=0.0, le=1e4)


class LocalModelParameters(Parameters):
    """The local model of interaction."""

    type: Kind = quantity(
        "none",
        description="What answers between two updates of the environment. none: nothing, the environment runs at the "
        "servo rate; full: a proxy with impulses, penalties and friction at the constraints (THESIS 6); "
        "intermediate_representation: penalties at the constraints of the update, which are interpolated; resolve: the "
        "environment's last contact problem, solved again for the displaced tool; held: the environment's last wrench; "
        "extrapolated: a straight line through its last two",
    )
    epsilon: float = quantity(
        0.005, unit="m", description="Distance below which a constraint is in the local model", ge=0.0, le=1.0
    )
    deformation: bool = quantity(
        True,
        description="The proxy is deformed where an update would deepen its penetration (THESIS 6.4 to 6.7), so that "
        "the force does not jump",
    )
    release: Literal["gradual", "immediate"] = quantity(
        "gradual",
        description="What becomes of a penetration that an update lessens or ends. gradual: it fades during one period "
        "of the updates; immediate: it ends at once, as the source has it, and the force falls in one tick",
    )
    constraints: Literal["static", "kinematic", "dynamic"] = quantity(
        "kinematic",
        description="Motion of the constraints between updates. static: none; kinematic: the normal velocity of the "
        "update (THESIS 6.2); dynamic: the same, and contact accelerates a constraint on a body that moves as the mass "
        "that the environment reports for it (THESIS 7.2)",
    )
    dynamics: Literal["surveyed", "current"] = quantity(
        "current",
        description="Inertia, gravity and singular directions of a linkage. surveyed: as of the last update, without "
        "Coriolis forces (THESIS 6.15 to 6.22); current: of its present configuration",
    )
    prediction: Literal["none", "velocity"] = quantity(
        "none",
        description="Which constraints are sent beside those within epsilon. velocity: those that the tool's present "
        "velocity reaches before the update after next arrives",
    )
    coherence: Literal["identity", "geometry"] = quantity(
        "identity",
        description="Which constraints of two updates are the same. identity: those with the same number, and others "
        "by geometry; geometry: those whose points and normals are near each other (THESIS 6.11, 6.12)",
    )
    max_speed: float = quantity(
        0.5, unit="m/s", description="Fastest motion of a contact point, for coherence (THESIS 6.13)", gt=0.0, le=100.0
    )
    max_rotation: float = quantity(
        2.0, unit="rad/s", description="Fastest rotation of a normal, for coherence (THESIS 6.14)", gt=0.0, le=1e3
    )
    max_facet_angle: float = quantity(
        0.5,
        unit="rad",
        description="Largest angle between neighbouring facets that approximate one round surface (THESIS 6.14)",
        ge=0.0,
        le=1.5,
    )
    force_coefficient: float = quantity(
        0.03, description="Share of the force that resolve renders (SOFA's forceCoef)", gt=0.0, le=1.0
    )
    transient: TransientParameters = quantity(
        TransientParameters(), description="What an impact adds to the rendered force, by material"
    )
