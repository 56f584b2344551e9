"""PyYAML's safe loader and dumper: those of libyaml where PyYAML has it, which take a tenth of the time."""

from typing import Any

import yaml

LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
