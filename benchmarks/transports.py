"""Four hops over three processes by different transports: what is there to be gained under ROS 2, or beside it.

    python benchmarks/transports.py TRANSPORT [SECONDS]
    python benchmarks/transports.py turns SECONDS REPETITIONS

Driver, controller and environment pass on messages of the sizes of the servo path, once a millisecond, and the driver
prints median and 99th percentile of the round trip. In turns, all transports that are installed run one after the
other, again and again; of each, the least and the median of its medians are printed. Transports:

 - ros: rclpy on the rmw that is installed, raw messages and one wait set, as in the nodes;
 - ros_shared_memory, ros_data_sharing: the same with a profile of Fast DDS that has shared memory alone, or asks for
   data sharing;
 - ros_loopback: the same over UDP on the loopback alone (config/fastdds_loopback.xml), as in systems without an end;
 - cyclonedds, zenoh, iceoryx2: the Python bindings of these alone, without ROS 2, where they are installed;
 - ring: a slot for each message in shared memory, and an eventfd that wakes its reader: the least that a process must
   do for another one to see a message, without discovery, without other readers, and without a check.
"""

from __future__ import annotations

import ctypes
import importlib.util
import json
import mmap
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any, Protocol

from haptic_bench.running.runner import comings_and_goings

SIZES = {"device_state": 300, "tool_command": 100, "tool_state": 764, "device_command": 252}  # [B]
HOPS = {  # role: what it hears, and what it answers
    "driver": {"device_command": ""},
    "controller": {"device_state": "tool_command", "tool_state": "device_command"},
    "environment": {"tool_command": "tool_state"},
}
SOURCE = {"device_state": "driver", "tool_command": "controller", "tool_state": "environment"}
SOURCE["device_command"] = "controller"
PERIOD = 1e-3  # [s]
SETTLE = 300  # ticks that do not count: the processes find each other
MARK = slice(8, 16)  # where a message holds its tick
PORT = 17447  # of zenoh's controller


class Transport(Protocol):
    """Transport of the messages between the roles."""

    def send(self, topic: str, data: bytes) -> None:
        """Send a message."""

    def receive(self, timeout: float) -> list[tuple[str, bytes]]:
        """Messages that have come, when there is one; none after the timeout [s]."""


class Ros:
    """rclpy."""

    def __init__(self, role: str, name: str):
        import rclpy
        from haptics import msg
        from rclpy.qos import QoSProfile, ReliabilityPolicy

        from haptic_ros.inbox import Inbox, ServoGroup, subscribe  # ROS 2 may be missing for other transports
        from haptic_sim.messages import TOPICS  # nor what is compiled

        rclpy.init()
        node = rclpy.create_node(role, namespace=f"/{name}")
        qos = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        kind = {topic: getattr(msg, TOPICS[topic].TYPE.rpartition("/")[2]) for topic in SIZES}
        self._publishers = {
            topic: node.create_publisher(kind[topic], topic, qos) for topic in SIZES if SOURCE[topic] == role
        }
        topics = {topic: subscribe(node, kind[topic], topic, qos, ServoGroup()) for topic in HOPS[role]}
        self._node, self._inbox = node, Inbox(node.context, topics)

    def send(self, topic: str, data: bytes) -> None:
        self._publishers[topic].publish(data)

    def receive(self, timeout: float) -> list[tuple[str, bytes]]:
        return list(self._inbox.wait(timeout))


class Cyclone:
    """The Python binding of Cyclone DDS."""

    def __init__(self, role: str, name: str):
        core, domain, idl = (importlib.import_module(f"cyclonedds.{one}") for one in ("core", "domain", "idl"))
        pub, sub, topics, types = (
            importlib.import_module(f"cyclonedds.{one}") for one in ("pub", "sub", "topic", "idl.types")
        )
        policy, qos = core.Policy, core.Qos
        self._participant = domain.DomainParticipant(int(os.environ.get("ROS_DOMAIN_ID", "0")))
        self._duration = importlib.import_module("cyclonedds.util").duration
        self._waitset = core.WaitSet(self._participant)
        self._writers, self._readers, self._kinds = {}, {}, {}
        quality = qos(policy.Reliability.BestEffort, policy.History.KeepLast(1))
        for topic, size in SIZES.items():
            if SOURCE[topic] != role and topic not in HOPS[role]:
                continue
            kind = idl.make_idl_struct(topic, f"{topic}", {"data": types.array[types.uint8, size]})
            made = topics.Topic(self._participant, f"{name}_{topic}", kind, qos=quality)
            self._kinds[topic] = kind
            if SOURCE[topic] == role:
                self._writers[topic] = pub.DataWriter(self._participant, made, qos=quality)
            else:
                reader = sub.DataReader(self._participant, made, qos=quality)
                state = core.SampleState.Any | core.ViewState.Any | core.InstanceState.Any
                self._waitset.attach(core.ReadCondition(reader, state))
                self._readers[topic] = reader

    def send(self, topic: str, data: bytes) -> None:
        self._writers[topic].write(self._kinds[topic](data=list(data)))

    def receive(self, timeout: float) -> list[tuple[str, bytes]]:
        self._waitset.wait(self._duration(seconds=timeout))
        found = [(topic, one) for topic, reader in self._readers.items() for one in reader.take(N=4)]
        return [(topic, bytes(one.data)) for topic, one in found if hasattr(one, "data")]


class Zenoh:
    """The Python binding of zenoh, with TCP over the loopback."""

    def __init__(self, role: str, name: str):
        zenoh = importlib.import_module("zenoh")
        config = zenoh.Config()
        config.insert_json5("mode", '"peer"')
        config.insert_json5("scouting/multicast/enabled", "false")
        place = json.dumps([f"tcp/127.0.0.1:{PORT}"])
        config.insert_json5("listen/endpoints" if role == "controller" else "connect/endpoints", place)
        self._session = zenoh.open(config)
        self._publishers = {
            topic: self._session.declare_publisher(f"{name}/{target}/{topic}", express=True)
            for target, topics in HOPS.items()
            for topic in topics
            if SOURCE[topic] == role
        }
        self._subscriber = self._session.declare_subscriber(f"{name}/{role}/*", zenoh.handlers.FifoChannel(16))

    def send(self, topic: str, data: bytes) -> None:
        self._publishers[topic].put(data)

    def receive(self, timeout: float) -> list[tuple[str, bytes]]:
        sample = self._subscriber.recv()  # without a timeout: who has started the process ends it
        return [(str(sample.key_expr).rpartition("/")[2], bytes(sample.payload))]


class _Payload(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint8 * max(SIZES.values()))]


class Iceoryx:
    """The Python binding of iceoryx2: shared memory, and an event that wakes the reader."""

    def __init__(self, role: str, name: str):
        iox = importlib.import_module("iceoryx2")
        iox.set_log_level(iox.LogLevel.Error)
        self._duration = iox.Duration
        self._node = iox.NodeBuilder.new().create(iox.ServiceType.Ipc)

        def service(of: str) -> Any:
            return self._node.service_builder(iox.ServiceName.new(f"{name}/{of}"))

        self._listener = service(role).event().open_or_create().listener_builder().create()
        self._publishers, self._subscribers, self._notifiers = {}, {}, {}
        for target, topics in HOPS.items():
            for topic in topics:
                if role not in (target, SOURCE[topic]):
                    continue
                made = service(topic).publish_subscribe(_Payload).open_or_create()
                if target == role:
                    self._subscribers[topic] = made.subscriber_builder().create()
                else:
                    self._publishers[topic] = made.publisher_builder().create()
                    self._notifiers[topic] = service(target).event().open_or_create().notifier_builder().create()

    def send(self, topic: str, data: bytes) -> None:
        sample = self._publishers[topic].loan_uninit()
        ctypes.memmove(sample.payload_ptr, data, len(data))
        sample.assume_init().send()
        self._notifiers[topic].notify()

    def receive(self, timeout: float) -> list[tuple[str, bytes]]:
        self._listener.timed_wait(self._duration.from_secs_f64(timeout))
        found = []
        for topic, subscriber in self._subscribers.items():
            while (sample := subscriber.receive()) is not None:
                found.append((topic, ctypes.string_at(sample.payload_ptr, SIZES[topic])))
        return found


class Ring:
    """Slots in shared memory and an eventfd for each role, whose numbers the environment has."""

    def __init__(self, role: str, name: str):
        numbers = json.loads(os.environ["RING"])
        self._memory = mmap.mmap(numbers["memory"], 4096)
        self._place = {topic: 1024 * number for number, topic in enumerate(SIZES)}
        self._events = {
            topic: numbers[target] for target, topics in HOPS.items() for topic in topics if SOURCE[topic] == role
        }
        self._event, self._seen = numbers[role], dict.fromkeys(HOPS[role], bytes(8))
        self._poll = select.poll()
        self._poll.register(self._event, select.POLLIN)

    def send(self, topic: str, data: bytes) -> None:
        place = self._place[topic]
        self._memory[place : place + len(data)] = data
        os.eventfd_write(self._events[topic], 1)

    def receive(self, timeout: float) -> list[tuple[str, bytes]]:
        if not self._poll.poll(1e3 * timeout):
            return []
        os.eventfd_read(self._event)
        found = []
        for topic in self._seen:
            place = self._place[topic]
            data = self._memory[place : place + SIZES[topic]]
            if data[MARK] != self._seen[topic]:
                self._seen[topic] = data[MARK]
                found.append((topic, data))
        return found


TRANSPORTS: dict[str, Any] = {
    "ros": Ros,
    "ros_shared_memory": Ros,
    "ros_data_sharing": Ros,
    "ros_loopback": Ros,
    "cyclonedds": Cyclone,
    "zenoh": Zenoh,
    "iceoryx2": Iceoryx,
    "ring": Ring,
}
LIBRARIES = ("cyclonedds", "zenoh", "iceoryx2")  # of the same name, which may be missing

_SHARED_MEMORY = """<transport_descriptors>
  <transport_descriptor><transport_id>shared</transport_id><type>SHM</type></transport_descriptor>
</transport_descriptors>
<participant profile_name="shared" is_default_profile="true"><rtps>
  <userTransports><transport_id>shared</transport_id></userTransports>
  <useBuiltinTransports>false</useBuiltinTransports>
</rtps></participant>"""
_DATA_SHARING = "".join(
    f"""<{end} profile_name="{end}" is_default_profile="true">
  <qos><data_sharing><kind>AUTOMATIC</kind></data_sharing></qos>
  <historyMemoryPolicy>PREALLOCATED_WITH_REALLOC</historyMemoryPolicy>
</{end}>"""
    for end in ("data_writer", "data_reader")
)
PROFILES = {"ros_shared_memory": _SHARED_MEMORY, "ros_data_sharing": _DATA_SHARING}
"""Profiles of Fast DDS by transport."""


def answer(role: str, transport: Transport) -> None:
    """Pass on each message with its tick."""
    while True:
        for topic, data in transport.receive(1.0):
            made = HOPS[role][topic]
            transport.send(made, bytes(8) + data[MARK] + bytes(SIZES[made] - MARK.stop))


def drive(transport: Transport, ticks: int) -> list[float]:
    """Round trips of the ticks that were answered before the next [s]."""
    found = []
    due = time.monotonic() + PERIOD
    for tick in range(1, SETTLE + ticks + 1):
        due = max(due + PERIOD, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
        mark = tick.to_bytes(8, "little")
        sent = time.perf_counter()
        transport.send("device_state", bytes(8) + mark + bytes(SIZES["device_state"] - MARK.stop))
        while (left := sent + 0.05 - time.perf_counter()) > 0.0:
            if any(data[MARK] == mark for _, data in transport.receive(left)):
                if tick > SETTLE:
                    found.append(time.perf_counter() - sent)
                break
    return found


def take_turns(seconds: float, repetitions: int) -> None:
    """Run all transports that are installed in turns; print the least and the median of each one's medians."""
    kinds = [kind for kind in TRANSPORTS if kind not in LIBRARIES or importlib.util.find_spec(kind)]
    medians: dict[str, list[float]] = {kind: [] for kind in kinds}
    for turn in range(repetitions):
        for kind in kinds if turn % 2 == 0 else reversed(kinds):
            medians[kind].append(float(measure(kind, seconds).split()[2]))
    for kind, values in medians.items():
        print(f"{kind:18} least {min(values):4.0f} us  median {statistics.median(values):4.0f} us")


def measure(kind: str, seconds: float) -> str:
    """Start the roles; prints and returns what the driver measured.

    Raises:
        RuntimeError: no message was answered.
    """
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as profile:
        variables = dict(os.environ)
        if kind == "ros_loopback":
            variables |= comings_and_goings({"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST"})
        if kind in PROFILES:
            profile.write(f'<dds xmlns="http://www.eprosima.com"><profiles>{PROFILES[kind]}</profiles></dds>')
            profile.flush()
            variables |= {"FASTRTPS_DEFAULT_PROFILES_FILE": profile.name, "RMW_FASTRTPS_USE_QOS_FROM_XML": "1"}
        line = _run(kind, seconds, variables)
    if not line:
        raise RuntimeError(f"{kind}: no answer")
    print(line, flush=True)
    return line


def _run(kind: str, seconds: float, variables: dict[str, str]) -> str:
    """Run the roles with environment variables; what the driver says."""
    name = f"chain_{uuid.uuid4().hex[:8]}"
    events = {role: os.eventfd(0) for role in HOPS}
    numbers = {"memory": os.memfd_create("ring"), **events}
    os.ftruncate(numbers["memory"], 4096)
    variables = variables | {"RING": json.dumps(numbers)}
    started = []
    try:
        for role in ("controller", "environment", "driver"):
            command = [sys.executable, str(Path(__file__)), kind, str(seconds), role, name]
            output = subprocess.PIPE if role == "driver" else subprocess.DEVNULL
            started.append(
                subprocess.Popen(command, env=variables, stdout=output, text=True, pass_fds=tuple(numbers.values()))
            )
            time.sleep(1.0)  # zenoh's controller listens by then
        output_of_driver, _ = started[-1].communicate(timeout=60.0 + 20.0 * seconds)
        return str(output_of_driver).strip()
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()
        for number in numbers.values():
            os.close(number)


def play(kind: str, seconds: float, role: str, name: str) -> None:
    """Be one of the roles."""
    transport = TRANSPORTS[kind](role, name)
    if role != "driver":
        answer(role, transport)
    time.sleep(1.0)  # until all have found each other
    ticks = round(seconds / PERIOD)
    found = sorted(drive(transport, ticks))
    if not found:
        sys.exit(f"{kind}: no answer")
    p50, p99 = 1e6 * statistics.median(found), 1e6 * found[int(0.99 * (len(found) - 1))]
    print(f"{kind:18} p50 {p50:6.0f} us  p99 {p99:6.0f} us  {100.0 * len(found) / ticks:.1f} % answered")


if __name__ == "__main__":
    if len(sys.argv) == 5:
        play(sys.argv[1], float(sys.argv[2]), *sys.argv[3:])
    elif sys.argv[1] == "turns":
        take_turns(float(sys.argv[2]), int(sys.argv[3]))
    else:
        measure(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 4.0)
