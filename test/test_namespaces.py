"""Namespaces: the experiment's name where it is free, another where it is taken, freed with the process."""

import os
import signal
import subprocess
import sys

import pytest

from haptic_bench.running import namespaces
from haptic_sim.parameters import ParameterError

NAME = f"of_a_test_{os.getpid()}"


def test_a_name_is_taken_once_and_free_again() -> None:
    with namespaces.claim(NAME) as first, namespaces.claim(NAME) as second, namespaces.claim(NAME) as third:
        assert [first, second, third] == [f"/{NAME}", f"/{NAME}_2", f"/{NAME}_3"]
    with namespaces.claim(NAME, exactly=True) as again:
        assert again == f"/{NAME}"


def test_a_name_that_must_be_this_one_is_refused_where_it_is_taken() -> None:
    with namespaces.claim(NAME), pytest.raises(ParameterError, match=f"/{NAME}: is taken"):
        namespaces.claim(NAME, exactly=True).__enter__()


def test_domains_do_not_share_names(monkeypatch: pytest.MonkeyPatch) -> None:
    with namespaces.claim(NAME):
        monkeypatch.setenv("ROS_DOMAIN_ID", "101")
        with namespaces.claim(NAME, exactly=True) as other:
            assert other == f"/{NAME}"


def test_a_killed_process_leaves_no_claim() -> None:
    code = (
        "import sys, time\nfrom haptic_bench.running import namespaces\n"
        f"with namespaces.claim({NAME!r}):\n    print('there', flush=True)\n    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "there\n"
        with namespaces.claim(NAME) as beside:
            assert beside == f"/{NAME}_2"
        process.send_signal(signal.SIGKILL)
    with namespaces.claim(NAME, exactly=True):
        pass


@pytest.mark.parametrize("name", ["arm", "/arm", "lab/arm_2", "_x"])
def test_ros_names_are_namespaces(name: str) -> None:
    assert namespaces.checked(name) == name.lstrip("/")


@pytest.mark.parametrize("name", ["", "/", "2nd", "a//b", "a/", "a b", "a;b", "\u0661", "x" * 81, "~a", "a\0"])
def test_others_are_refused(name: str) -> None:
    with pytest.raises(ParameterError, match="--namespace"):
        namespaces.checked(name)


@pytest.mark.parametrize("sides", [("haptics", "dynamics"), ("device", "world")])
def test_both_sides_of_a_system_share_a_namespace(sides: tuple[str, str]) -> None:
    with (
        namespaces.claim(NAME, exactly=True, side=sides[0]) as first,
        namespaces.claim(NAME, exactly=True, side=sides[1]) as second,
    ):
        assert first == second == f"/{NAME}"
    for side in sides:
        with namespaces.claim(NAME, side=side), namespaces.claim(NAME) as beside:
            assert beside == f"/{NAME}_2"
            for again in (side, ""):
                with pytest.raises(ParameterError, match=f"namespace /{NAME}: is taken"):
                    namespaces.claim(NAME, exactly=True, side=again).__enter__()


@pytest.mark.parametrize("domain", ["abc", "-5", "233", "1e1", "\u0663", "9" * 5000])
def test_a_domain_that_ros_does_not_have_is_refused(domain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", domain)
    refused = f"ROS_DOMAIN_ID = {domain[:40]}: must be an integer from 0 to 232"
    with pytest.raises(ParameterError, match=refused), namespaces.claim(NAME):
        pass


def test_an_empty_domain_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROS_DOMAIN_ID", "")
    with namespaces.claim(NAME) as first:
        monkeypatch.delenv("ROS_DOMAIN_ID")
        with namespaces.claim(NAME) as second:
            assert [first, second] == [f"/{NAME}", f"/{NAME}_2"]
