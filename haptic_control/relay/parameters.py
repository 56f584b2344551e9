"""Parameters of a relay: of its channel, and of the guards that only a relay has."""

from __future__ import annotations

from haptic_sim.parameters import Parameters, PositivePair, quantity


class WaveParameters(Parameters):
    """Wave variables; pairs are of translation and rotation."""

    impedance: PositivePair = quantity(
        (50.0, 0.05), unit="N s/m, N m s/rad", description="Wave impedance of the relay: translation, rotation"
    )
    cutoff: float | None = quantity(
        100.0,
        unit="Hz",
        description="Cut-off frequency of the filter of the waves at both ends; null: no filter, and the damping of a "
        "sampled coupling, which a tick makes late, is reflected with a gain near half the rate",
        gt=0.0,
    )
    play_out: float | None = quantity(
        None,
        unit="s",
        description="Delay until which packets are held, so that smaller jitter leaves no gaps in the waves, which "
        "would be felt as a softer wall; null: a packet is used when it arrives",
        ge=0.0,
        le=10.0,
    )
    correction: float = quantity(
        0.5,
        unit="1/s",
        description="Rate at which the pose at the world's end returns to the device's, as far as energy is left over",
        ge=0.0,
        le=1000.0,
    )


class TankParameters(Parameters):
    """The energy tanks at both ends; pairs are of translation and rotation."""

    level: PositivePair = quantity(
        (0.05, 0.005), unit="J", description="Level up to which a damper at the device fills its energy tank"
    )
    capacity: PositivePair = quantity(
        (1.0, 0.1), unit="J", description="Largest energy in an energy tank of the relay; more is discarded"
    )
    share: float = quantity(
        0.01, description="Part of an energy tank that is sent to the other in each tick", gt=0.0, le=1.0
    )
    damping: PositivePair = quantity(
        (10.0, 0.01), unit="N s/m, N m s/rad", description="Damping at the device with an empty energy tank"
    )


class RelayParameters(Parameters):
    """The communication link between device and world of a trial, in both directions."""

    delay: float | None = quantity(
        None,
        unit="s",
        description="Delay of every message between the device's side and the world's, each way, added to what the "
        "network takes; null: there is no communication link, and no relay",
        ge=0.0,
        le=10.0,
    )
    jitter: float = quantity(
        0.0,
        unit="s",
        description="Largest additional delay of a message; its part is uniformly random from 0 to 1",
        ge=0.0,
        le=10.0,
    )
    loss: float = quantity(0.0, description="Part of the messages that are lost, each independently", ge=0.0, lt=1.0)
    seed: int = quantity(0, description="Seed of jitter and loss", ge=0)
    correction: float = quantity(
        20.0,
        unit="1/s",
        description="Rate at which the pose at the world's end returns to the device's, once passivity control or a "
        "tank has held it back",
        ge=0.0,
        le=1000.0,
    )
    wave: WaveParameters = quantity(WaveParameters(), description="Wave variables, with guard.type = wave")
    tank: TankParameters = quantity(TankParameters(), description="Energy tanks, with guard.type = tank")
