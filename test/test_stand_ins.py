"""The stand-ins for vendors' libraries, compiled with the sanitisers of addresses and undefined behaviour."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import DEADLINE

HERE = Path(__file__).parent
OPTIONS = ("-g", "-O1", "-pthread", "-fms-extensions", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["dhd", "hd"])
def test_random_calls_touch_no_foreign_memory(name: str, tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc) on the PATH")
    program, source = tmp_path / name, HERE / f"sanitised_{name}.c"
    included = f"-I{HERE.parent / 'stand_ins'}"
    built = subprocess.run([compiler, *OPTIONS, included, "-o", program, source, "-lm"], capture_output=True, text=True)
    if "cannot find" in built.stderr:
        pytest.skip(f"the sanitisers of {compiler} are not installed")
    assert built.returncode == 0, built.stderr
    done = subprocess.run([program], capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, done.stderr
