"""Operator's wrench in a controller: what the device measures, an estimate, or none.

A device without a force sensor has a momentum observer (De Luca and Mattone 2005; THESIS D.1 has such an observer too).
Over a tick the operator's wrench is what changes the momentum of the device beyond the wrench that it rendered,

    F(k-1) = (P(k) - P(k-1)) / T + c - f(k-1),   P = M_d v

with c = (0, v x p) of a body that turns, and damping, the mean of both ends (`haptic_control.device_model`), and f the
wrench that the device says it rendered, after its limits. The estimate is this, through a low-pass of first order with
the bandwidth w_o:

    F_o(k) = F_o(k-1) + (1 - exp(-w_o T)) (F(k-1) - F_o(k-1))

No acceleration is measured. With the exact inertia, and wrenches that a tick holds constant, F(k-1) is exact; so the
estimate differs from the true wrench by the low-pass and a tick: with a = 1 - exp(-w_o T) and z = exp(j w T) by
|1 - a / (z - 1 + a)| in a frequency w, which for 300/s at 1 kHz is 2.4 % at 1 Hz and 24 % at 10 Hz. Noise of the twist
with a standard deviation s becomes one of M_d s (a / T) sqrt(2 / (2 - a)): the price of a bandwidth. An error E of the
inertia adds E times the acceleration. Where ticks were skipped, the wrench of the last one stands for those before.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from haptic_control.device_model import DeviceModel, DeviceModelParameters, evaluate_device
from haptic_control.parameters import ControllerParameters, KnownDevice
from haptic_sim.kernels import kernel
from haptic_sim.messages import DeviceState, time_between
from haptic_sim.packed import Packed
from haptic_sim.parameters import ParameterError, quantity
from haptic_sim.records import allocate, array, record, value

Source = Literal["measured", "observed", "none"]


class OperatorWrenchParameters(DeviceModelParameters):
    """Source of the operator's wrench, and the device model that an observer needs."""

    operator_wrench: Source = quantity(
        "measured",
        description="Operator's wrench that the controller uses: measured by the device; observed from the device's "
        "motion and rendered wrench, with its inertia and damping; none",
    )
    observer_bandwidth: float = quantity(
        300.0, unit="1/s", description="Bandwidth of the observed operator's wrench", live=True, gt=0.0, le=1e5
    )

    @property
    def needs_device(self) -> bool:
        """Whether the controller uses the inertia of the device."""
        return self.operator_wrench == "observed"

    @property
    def compensates(self) -> bool:
        """Whether `device_damping` is compensated for, instead of known to an observer."""
        return False

    def completed(self, device: KnownDevice, pose: tuple[float, ...]) -> ControllerParameters:
        """Copy with the inertia of the device, as far as the controller knows it.

        Of a twin pantograph it commands what that is shaped to, and observes, or commands without shaping, the linkage.
        """
        if not self.needs_device:
            return self
        update = self._known(device)
        observes = not self.compensates and "device_damping" not in self.model_fields_set
        if observes and device.damping and any(device.damping):
            update["device_damping"] = tuple(np.repeat(device.damping, 3).tolist())
        return self.model_copy(update=update)

    def _known(self, device: KnownDevice) -> dict[str, Any]:
        """Keys about the inertia of the device that were left out."""
        if self.device_matrix is not None:
            return {}
        known: dict[str, Any] = {}
        if device.linkage is not None:
            if self.device_linkage is None and (self.operator_wrench == "observed" or not device.states_inertia):
                known["device_linkage"] = device.linkage
            if not device.states_inertia:
                return known
        for name, of_device in ("device_mass", device.mass), ("device_inertia", device.inertia):
            if getattr(self, name) is None:
                known[name] = of_device
        if missing := [name for name, value in known.items() if value is None]:
            raise ParameterError(f"controller.{name} = null: device.type = {device.type} has none" for name in missing)
        return known


@record
class ObserverArrays(NamedTuple):
    """State of the observer from tick to tick."""

    model: DeviceModel = value("the device")
    momentum: np.ndarray = array("P of the tick before", 6, unit="N s, N m s")
    bias: np.ndarray = array("c of the tick before", 6, unit="N, N m")
    estimate: np.ndarray = array("estimate of the operator's wrench", 6, unit="N, N m")


class OperatorWrench:
    """The operator's wrench as a controller uses it.

    Args:
        parameters: of a controller.
        rate: of the servo [Hz].

    Raises:
        TypeError: it is to be observed, and the inertia of the device is not known.
    """

    def __init__(self, parameters: OperatorWrenchParameters, rate: float):
        self._rate = rate
        self._source: Source = parameters.operator_wrench
        self._none = np.zeros(6)
        self._tick: int | None = None  # of the last state
        if self._source == "observed":
            self._arrays = allocate(ObserverArrays, model=DeviceModel.of(parameters))
            self._packed = Packed(self._arrays)
        self.configure(parameters)

    @property
    def remembers(self) -> bool:
        """Whether what it says depends on earlier states."""
        return self._source == "observed"

    def configure(self, parameters: OperatorWrenchParameters) -> None:
        """Take another bandwidth and damping, from the next tick on."""
        self._bandwidth = parameters.observer_bandwidth
        if self._source == "observed":
            self._arrays.model.fill(parameters)

    def at(self, device: DeviceState) -> np.ndarray:
        """The operator's wrench (6,) [N, N m] at a state of the device, the next one after that of the last call."""
        if self._source == "measured":
            return device.operator_wrench
        if self._source == "none":
            return self._none
        tick = device.tick
        elapsed = 0.0 if self._tick is None else 1e-9 * time_between(self._tick, tick, self._rate)
        self._tick = tick
        _observe(self._packed, device.pose, device.twist, device.rendered_wrench, elapsed, self._bandwidth)
        return self._arrays.estimate


@kernel
def _observe(packed, pose, twist, rendered, elapsed, bandwidth):
    """Advance the estimate by the `elapsed` time [s] since the last state; 0: this is the first."""
    a = packed.arrays
    model = a.model
    evaluate_device(model, pose, twist)
    share = 1.0 - math.exp(-bandwidth * elapsed)
    for i in range(6):
        if elapsed > 0.0:
            change = (model.momentum[i] - a.momentum[i]) / elapsed
            found = change + 0.5 * (model.bias[i] + a.bias[i]) - rendered[i]
            a.estimate[i] += share * (found - a.estimate[i])
        a.momentum[i], a.bias[i] = model.momentum[i], model.bias[i]
