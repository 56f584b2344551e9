"""Sphinx's settings for the documentation site: `./haptics docs` builds it."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "extensions")]

project = "haptics"
author = copyright = "The haptics developers"
extensions = ["myst_parser", "generated", "spelling"]
highlight_language = "text"  # of blocks that name none: commands, formulas, drawings
exclude_patterns = ["examples/*", "extensions/*"]
html_theme = "furo"
html_title = "haptics"
myst_heading_anchors = 4
python_use_unqualified_type_names = True
