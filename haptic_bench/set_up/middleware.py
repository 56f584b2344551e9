"""Whether a message gets from one process to another, and what the middleware needs for it.

Standard library only, because the environment may not exist yet.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from haptic_bench.set_up.finding import Finding
from haptic_bench.set_up.machine import LEAST_SHARED, size
from haptic_bench.set_up.programs import Environment, Program, last_line
from haptic_ros.middleware.fast_dds import SHARED, stale_segments

AREA = "middleware"
REACH = 30.0  # [s] for two programs to start, find each other and pass a message on
DOMAINS = range(1, 102)  # whose ports are below those that Linux gives to others
HIGHEST_DOMAIN = 232  # whose ports exist
RANGES = ("SUBNET", "LOCALHOST", "OFF", "SYSTEM_DEFAULT")
# One side waits for the message of the other, which repeats it until its arrival is acknowledged.
TALK = """
import signal, sys, time
signal.alarm(30)
import rclpy
from rclpy.context import Context
from rclpy.qos import qos_profile_sensor_data
from std_msgs.msg import String
context = Context()
rclpy.init(context=context)
speaks = sys.argv[1] == "speak"
node = rclpy.create_node("doctor_" + sys.argv[1], context=context, enable_rosout=False, start_parameter_services=False)
executor = rclpy.executors.SingleThreadedExecutor(context=context)
executor.add_node(node)
received = []
mine, theirs = ("question", "answer") if speaks else ("answer", "question")
publisher = node.create_publisher(String, "haptics_doctor_" + mine, qos_profile_sensor_data)
node.create_subscription(String, "haptics_doctor_" + theirs, received.append, qos_profile_sensor_data)
begun = time.monotonic()
while not received:
    if speaks:
        publisher.publish(String(data=sys.argv[2]))
    executor.spin_once(timeout_sec=0.02)
print(f"{time.monotonic() - begun:.3f}", flush=True)
if not speaks:
    ending = time.monotonic() + 2.0
    while time.monotonic() < ending and publisher.get_subscription_count():
        publisher.publish(String(data=sys.argv[2]))
        executor.spin_once(timeout_sec=0.02)
node.destroy_node()
rclpy.shutdown(context=context)
"""


def check_settings(variables: Mapping[str, str]) -> Iterator[Finding]:
    """The variables that decide whom a node finds."""
    rmw = variables.get("RMW_IMPLEMENTATION", "")
    yield Finding(AREA, "implementation", "ok", rmw or "the default of ROS 2")
    domain = variables.get("ROS_DOMAIN_ID", "") or "0"
    reach = variables.get("ROS_AUTOMATIC_DISCOVERY_RANGE", "") or "SUBNET"
    peers = variables.get("ROS_STATIC_PEERS", "")
    if not (domain.isdigit() and int(domain) <= HIGHEST_DOMAIN):
        yield Finding(AREA, "domain", "problem", f"ROS_DOMAIN_ID = {domain}: no domain", "export ROS_DOMAIN_ID=0")
    elif int(domain) not in (0, *DOMAINS):
        yield Finding(
            AREA,
            "domain",
            "warn",
            f"ROS_DOMAIN_ID = {domain}: its ports may belong to other programs",
            f"choose one up to {DOMAINS[-1]}",
        )
    else:
        yield Finding(AREA, "domain", "ok", domain)
    if reach not in RANGES:
        remedy = "export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST"
        yield Finding(AREA, "reach", "problem", f"ROS_AUTOMATIC_DISCOVERY_RANGE = {reach}: no range", remedy)
    else:
        whom = {"LOCALHOST": "this machine", "OFF": "nobody"}.get(reach, "the local network")
        found = f"{reach}: nodes find {whom}" + (f", and {peers}" if peers else "")
        off = reach == "OFF" and not peers
        remedy = "export ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST" if off else ""
        yield Finding(AREA, "reach", "problem" if off else "ok", found, remedy)
    profile = variables.get("FASTRTPS_DEFAULT_PROFILES_FILE", "")
    if profile and not os.access(profile, os.R_OK):
        remedy = "unset FASTRTPS_DEFAULT_PROFILES_FILE"
        yield Finding(AREA, "profile", "warn", f"{profile}: cannot be read", remedy)
    elif profile:
        yield Finding(AREA, "profile", "ok", f"{profile} (yours, in place of config/fastdds.xml)")


def check_shared_memory() -> Iterator[Finding]:
    """Room in shared memory, and segments of programs that were killed."""
    if not SHARED.is_dir():
        yield Finding(
            AREA, "shared memory", "warn", f"no {SHARED}: messages take the slower way", "mount a tmpfs there"
        )
        return
    usage = shutil.disk_usage(SHARED)
    found = f"{size(usage.free)} of {size(usage.total)} free"
    if not os.access(SHARED, os.W_OK | os.X_OK):
        yield Finding(AREA, "shared memory", "warn", f"{SHARED}: cannot be written", f"chmod 1777 {SHARED}")
    elif usage.free < LEAST_SHARED:
        remedy = (
            f"end other programs, or make it larger (docker run --shm-size=256m; mount -o remount,size=256m {SHARED})"
        )
        yield Finding(AREA, "shared memory", "warn", f"{found}, {size(LEAST_SHARED)} are needed", remedy)
    else:
        yield Finding(AREA, "shared memory", "ok", found)
    stale = stale_segments()
    if stale:
        bytes_ = sum(_size(SHARED / name) for name in stale)
        yield Finding(
            AREA,
            "stale segments",
            "warn",
            f"{len(stale)} files of programs that were killed, {size(bytes_)}",
            f"rm {SHARED}/{stale[0]}"
            if len(stale) == 1
            else f"fastdds shm clean, or with no ROS 2 program running: rm {SHARED}/fastrtps_* {SHARED}/sem.fastrtps_*",
        )
    else:
        yield Finding(AREA, "stale segments", "ok", "none")


def _size(path: Path) -> int:
    try:
        return path.stat().st_blocks * 512
    except OSError:
        return 0


def check_reach(environment: Environment) -> Iterator[Finding]:
    """A message from one process to another and back, in a domain of its own, on this machine alone."""
    own = environment.variables.get("ROS_DOMAIN_ID", "")
    domain = random.choice([number for number in DOMAINS if str(number) != own])
    word = f"{os.getpid()}-{time.monotonic_ns()}"
    variables = {"ROS_DOMAIN_ID": str(domain), "ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"}
    sides = [Program(environment, TALK, (side, word), variables) for side in ("listen", "speak")]
    try:
        ended = [side.wait(REACH) for side in reversed(sides)]
    finally:
        for side in sides:
            side.end()
    failed = next((one for one in ended if one.status), None)
    if failed is None:
        yield Finding(AREA, "a message", "ok", f"there and back between two processes (domain {domain})")
        return
    if "No module named 'rclpy'" in failed.err:
        yield Finding(AREA, "a message", "warn", "not tried without ROS 2", "trials run with --mode offline")
        return
    late = failed.status in (-1, -14) or not failed.err
    reason = "did not arrive within 30 s" if late else f"failed: {last_line(failed.err)}"
    remedy = (
        "allow UDP on the interface lo, and check shared memory above"
        if late
        else "see the packages above, or remove .haptics and start again"
    )
    yield Finding(AREA, "a message", "problem", reason, remedy)
