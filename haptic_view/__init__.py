"""Pictures: of virtual worlds, as a page in the browser, drawings and animations, and of curves, as panels of reports.

A `Scene` (`scene.py`) is what there is to draw of a world, a `Frame` (`frame.py`) where it is at an instant. A page
(`page.py`) and a drawing (`drawing.py`) show both, wherever the frames come from: the messages of a trial that runs
(`live.py`), a world that a program advances (`film.py`, `window.py`), or a recording. Panels are in `figures.py`.
"""
