"""The gains of a running trial on its page: a control for each, in folders of their sections."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from itertools import groupby
from typing import Any

from haptic_view.gains import Gain
from haptic_view.page import Page

Change = Callable[[Gain, Any], None]
"""Ask for another value of a gain."""
Key = tuple[tuple[str, ...], str]
IDLE = "without effect here, or zero"


class GainControls:
    """Controls of gains.

    Args:
        page: where they are put, in what is open there.
        gains: that can be changed.
        change: is called with a gain and its new value.
    """

    def __init__(self, page: Page, gains: Sequence[Gain], change: Change):
        self._gui, self._change = page.server.gui, change
        self._gains: dict[Key, Gain] = {(gain.nodes, gain.key): gain for gain in gains}
        self._values: dict[Key, Any] = {key: gain.value for key, gain in self._gains.items()}  # that the nodes have
        self._asked = dict(self._values)  # that they have been asked for
        self._controls: dict[Key, list[Any]] = {}
        self._refusal = self._gui.add_markdown("")
        self._add([gain for gain in gains if gain.acts])
        if idle := [gain for gain in gains if not gain.acts]:
            with self._gui.add_folder(IDLE, expand_by_default=False):
                self._add(idle)

    def _add(self, gains: Iterable[Gain]) -> None:
        for section, some in groupby(gains, lambda gain: gain.section):
            with self._gui.add_folder(section):
                for gain in some:
                    self._add_gain(gain)

    def accept(self, gain: Gain, value: Any) -> None:
        """A change has been taken over, by the page or by somebody else."""
        key = gain.nodes, gain.key
        asked, value = self._asked[key] != self._values[key], gain.read(value)
        self._values[key] = value
        self._refusal.content = ""
        if not asked:
            self._show(gain, value)

    def refuse(self, gain: Gain, reason: str) -> None:
        """A change has been refused: say why, and show the value that holds."""
        self._refusal.content = f"**refused** `{gain.key}`: {escape(reason)}"
        self._show(gain, self._values[gain.nodes, gain.key])

    def restore(self) -> None:
        """Another trial begins, with the gains of the experiment."""
        self._refusal.content = ""
        for key, gain in self._gains.items():
            self._values[key] = gain.value
            self._show(gain, gain.value)

    def enable(self, on: bool) -> None:
        """Let the gains be changed, or not."""
        for controls in self._controls.values():
            for control in controls:
                control.disabled = not on

    def _show(self, gain: Gain, value: Any) -> None:
        key = gain.nodes, gain.key
        self._asked[key] = value
        for shown, control in zip(value if gain.several else (value,), self._controls[key], strict=True):
            if isinstance(shown, float) and shown > control.max:  # set by others
                control.max = shown
            if control.value != shown:
                control.value = shown

    def _add_gain(self, gain: Gain) -> None:
        gui, value = self._gui, gain.value
        label = gain.key.rpartition(".")[2]
        hint = f"{gain.key}: {gain.description}{f' [{gain.unit}]' if gain.unit else ''}"
        hint += f"; allowed: {gain.declared}" if gain.declared else ""
        controls = self._controls[gain.nodes, gain.key] = []
        for i, part in enumerate(gain.parts):
            name = f"{label} {part}".strip()
            match value:
                case bool():
                    control = gui.add_checkbox(name, value, hint=hint)
                case str():
                    control = gui.add_dropdown(name, gain.choices, initial_value=value, hint=hint)
                case _:
                    number = float(value[i] if part else value)
                    high = gain.high if not part else min(gain.high, max(10.0 * number, gain.low) or 1.0)
                    step = 10.0 ** round(math.log10(max(high - gain.low, 1e-9)) - 3.0)
                    control = gui.add_slider(name, gain.low, max(high, gain.low + step), step, number, hint=hint)
            controls.append(control)
            control.on_update(self._asks(gain, i, control))

    def _asks(self, gain: Gain, i: int, control: Any) -> Any:
        key = gain.nodes, gain.key

        async def ask(event: Any) -> None:
            if event.client_id is None:
                return  # this program has moved it
            value = control.value
            match gain.value:
                case tuple():  # the others as they were last asked for, which their sliders may round
                    value = (*self._asked[key][:i], float(value), *self._asked[key][i + 1 :])
                case bool() | str():
                    pass
                case _:
                    value = float(value)
            self._asked[key] = value
            self._change(gain, value)

        return ask
