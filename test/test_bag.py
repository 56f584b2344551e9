"""Bags are read by rosbags and by mcap's readers, survive a killed writer, and repeat byte for byte."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from mcap.reader import make_reader
from mcap.stream_reader import StreamReader
from mcap.writer import CompressionType
from mcap.writer import Writer as McapWriter
from rosbags.highlevel import AnyReader
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as RosbagsWriter

from haptic_bench.recording import bag
from haptic_bench.recording.bag import BagError, BagWriter, Topic
from haptic_bench.recording.mcap_file import McapLayout

ROOT = Path(__file__).resolve().parents[1]
TOPICS = [
    Topic("/trial/device_state", "haptics/msg/DeviceState"),
    Topic("/trial/tool_state", "haptics/msg/ToolState"),
    Topic("/trial/events", "haptics/msg/TrialEvent", bag.LATCHED_QOS),
]


def device_state(tick, rate=1000):
    """A DeviceState whose every number depends on the tick."""
    types = bag.message_types().types

    def make(name, *values):
        return types[name](*values)

    def vector(offset):
        return make("geometry_msgs/msg/Vector3", *(tick + offset + np.array([0.1, 0.2, 0.3])).tolist())

    stamp = make("builtin_interfaces/msg/Time", *divmod(tick * 1_000_000_000 // rate, 1_000_000_000))
    point = make("geometry_msgs/msg/Point", 0.1 * tick, 0.2, 0.3)
    pose = make("geometry_msgs/msg/Pose", point, make("geometry_msgs/msg/Quaternion", 0.0, 0.6, 0.0, 0.8))
    return make(
        "haptics/msg/DeviceState",
        make("std_msgs/msg/Header", stamp, "world"),
        tick,
        pose,
        make("geometry_msgs/msg/Twist", vector(1), vector(2)),
        make("geometry_msgs/msg/Wrench", vector(3), vector(4)),
        make("geometry_msgs/msg/Wrench", vector(5), vector(6)),
        tick - 1,
        tick,
        np.array([0.1, 0.2]) * tick,
        np.array([0.3, 0.4]) * tick,
        0.001 * tick,
        tick % 4,
        tick % 14,
        np.array([0, 1], dtype=np.int32),
    )


def serialized(tick):
    return bytes(bag.message_types().serialize_cdr(device_state(tick), "haptics/msg/DeviceState"))


def payload(number):
    """Bytes that no other payload contains, of a length that differs."""
    return np.random.default_rng(number).bytes(100 + number % 50)


def write_payloads(path, count, **kwargs):
    """A bag of `count` payloads on the first two topics in turn, one a microsecond."""
    with BagWriter(path, TOPICS, **kwargs) as writer:
        writer.add_metadata("trial", {"seed": "20260"})
        for number in range(count):
            writer.write(number % 2, 1000 * number, payload(number))


def all_messages(path):
    """Time and payload of all messages of a bag, by time."""
    topics = bag.read(path).values()
    return sorted(pair for topic in topics for pair in zip(topic.log_times, topic.messages, strict=True))


def files_of(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of a few messages, so that small files have many."""
    monkeypatch.setattr(bag, "CHUNK_SIZE", 1000)


# What is written can be read


def test_round_trip_in_file_order_whatever_the_times(tmp_path):
    times = np.random.default_rng(20260).integers(0, 10**15, 3000)
    with BagWriter(tmp_path / "bag", TOPICS) as writer:
        for number, time in enumerate(times):  # NumPy integers
            writer.write(number % 2, time, payload(number))
    topics = bag.read(tmp_path / "bag")
    assert list(topics) == [topic.name for topic in TOPICS]
    for number, topic in enumerate(TOPICS[:2]):
        read = topics[topic.name]
        assert read.type == topic.type
        assert read.log_times.dtype == np.int64
        np.testing.assert_array_equal(read.log_times, times[number::2])
        assert read.messages == [payload(n) for n in range(number, 3000, 2)]
    assert topics[TOPICS[2].name].messages == []
    metadata = yaml.safe_load((tmp_path / "bag" / "metadata.yaml").read_text())
    information = metadata["rosbag2_bagfile_information"]
    assert information["starting_time"]["nanoseconds_since_epoch"] == times.min()
    assert information["duration"]["nanoseconds"] == times.max() - times.min()


def test_the_callers_buffer_may_be_used_again(tmp_path):
    buffer = np.zeros(4)
    with BagWriter(tmp_path / "bag", TOPICS) as writer:
        for value in range(3):
            buffer[:] = value
            writer.write(0, value, buffer.data)
    messages = bag.read(tmp_path / "bag")[TOPICS[0].name].messages
    assert [np.frombuffer(message).tolist() for message in messages] == [[v] * 4 for v in (0.0, 1.0, 2.0)]


def test_metadata_comes_back_and_rosbag2s_own_is_reserved(tmp_path):
    with BagWriter(tmp_path / "bag", TOPICS) as writer:
        writer.add_metadata("experiment", {"yaml": "rate: 1000\n", "unit": "N·m"})
        with pytest.raises(BagError, match="reserved"):
            writer.add_metadata("rosbag2", {})
        with pytest.raises(TypeError, match="'seed' = 1: both must be strings"):
            writer.add_metadata("trial", {"seed": 1})
    assert bag.read_metadata(tmp_path / "bag") == {"experiment": {"yaml": "rate: 1000\n", "unit": "N·m"}}


def test_an_empty_bag_is_valid(tmp_path):
    for topics in ([], TOPICS):
        path = tmp_path / f"bag{len(topics)}"
        BagWriter(path, topics).close()
        found = {name: topic.messages for name, topic in bag.read(path).items()}
        assert found == {topic.name: [] for topic in topics}
        with AnyReader([path]) as reader:
            assert sorted(reader.topics) == sorted(topic.name for topic in topics)
            assert list(reader.messages()) == []


def test_same_writes_give_same_bytes(tmp_path):
    for name in "ab":
        write_payloads(tmp_path / name, 1500)
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
    assert set(files_of(tmp_path / "a")) == {"bag_0.mcap", "metadata.yaml"}


# Others read it


def test_rosbags_deserializes_it_with_the_definitions_in_the_bag(tmp_path):
    with BagWriter(tmp_path / "bag", TOPICS) as writer:
        for tick in range(500):
            writer.write(0, tick * 1_000_000, serialized(tick))
    with AnyReader([tmp_path / "bag"]) as reader:
        assert reader.message_count == 500
        ticks = 0
        for connection, time, data in reader.messages():
            message = reader.deserialize(data, connection.msgtype)
            expected = device_state(ticks)
            assert time == ticks * 1_000_000
            assert (message.tick, message.header.frame_id) == (ticks, "world")
            assert message.pose.position.x == expected.pose.position.x
            assert message.rendered_wrench.torque.z == expected.rendered_wrench.torque.z
            assert message.buttons.tolist() == [0, 1]
            ticks += 1
    assert ticks == 500


def test_mcap_reads_it_by_its_index_and_from_beginning_to_end(tmp_path, small_chunks):
    write_payloads(tmp_path / "bag", 100)
    expected = [(1000 * number, 1000 * number, payload(number)) for number in range(100)]
    with open(tmp_path / "bag" / "bag_0.mcap", "rb") as file:
        reader = make_reader(file, validate_crcs=True)
        assert reader.get_header().profile == "ros2"
        found = [(m.log_time, m.publish_time, m.data) for _, _, m in reader.iter_messages()]
        assert found == expected
        second = [m.data for _, _, m in reader.iter_messages(topics=[TOPICS[1].name])]
        assert second == [payload(number) for number in range(1, 100, 2)]
        summary = reader.get_summary()
        statistics = summary.statistics
        assert (statistics.message_count, statistics.message_start_time) == (100, 0)
        assert statistics.message_end_time == 99_000
        assert statistics.channel_message_counts == {1: 50, 2: 50}
        assert statistics.chunk_count == len(summary.chunk_indexes) > 10
        assert [record.name for record in reader.iter_metadata()] == ["trial", "rosbag2"]
        assert {schema.name for schema in summary.schemas.values()} == {topic.type for topic in TOPICS}
        for topic, channel in zip(TOPICS, summary.channels.values(), strict=True):
            assert (channel.topic, channel.message_encoding) == (topic.name, "cdr")
            assert channel.metadata == {
                "offered_qos_profiles": topic.qos,
                "topic_type_hash": bag.message_types().hash_rihs01(topic.type),
            }
    with open(tmp_path / "bag" / "bag_0.mcap", "rb") as file:
        records = list(StreamReader(file, validate_crcs=True).records)
    assert [r.data for r in records if type(r).__name__ == "Message"] == [data for _, _, data in expected]


def test_metadata_says_what_rosbags_writer_says(tmp_path):
    infinite = QosTime(9223372036, 854775807)
    best_effort = Qos(
        QosHistory.KEEP_LAST, 1, QosReliability.BEST_EFFORT, QosDurability.VOLATILE,
        infinite, infinite, QosLiveliness.AUTOMATIC, infinite, False,
    )  # fmt: skip
    latched = best_effort._replace(reliability=QosReliability.RELIABLE, durability=QosDurability.TRANSIENT_LOCAL)
    times = [5_000_000_000, 3_000_000_000, 4_500_000_000]
    with BagWriter(tmp_path / "ours", TOPICS) as ours:
        for time in times:
            ours.write(0, time, serialized(1))
    with RosbagsWriter(tmp_path / "theirs", version=9, storage_plugin=StoragePlugin.MCAP) as theirs:
        connections = [
            theirs.add_connection(topic.name, topic.type, typestore=bag.message_types(), offered_qos_profiles=[qos])
            for topic, qos in zip(TOPICS, (best_effort, best_effort, latched), strict=True)
        ]
        for time in times:
            theirs.write(connections[0], time, serialized(1))
    expected = (tmp_path / "theirs" / "metadata.yaml").read_text()
    for theirs_only, ours_only in (("theirs.mcap", "bag_0.mcap"), ("distro: rosbags", "distro: jazzy")):
        expected = expected.replace(theirs_only, ours_only)
    found = (tmp_path / "ours" / "metadata.yaml").read_text()
    assert yaml.safe_load(found) == yaml.safe_load(expected)
    # Inside the MCAP file it is the same text, less the outermost key.
    with open(tmp_path / "ours" / "bag_0.mcap", "rb") as file:
        (record,) = make_reader(file).iter_metadata()
    inner = yaml.safe_load(record.metadata["serialized_metadata"])
    assert {"rosbag2_bagfile_information": inner} == yaml.safe_load(found)


@pytest.mark.exhaustive
def test_type_hashes_are_those_of_rosidl(tmp_path):
    adapter = pytest.importorskip("rosidl_adapter.msg")
    generator = pytest.importorskip("rosidl_generator_type_description")
    share = Path(sys.prefix) / "share"
    if not (share / "std_msgs" / "msg" / "Header.json").exists():
        pytest.skip("no ROS message packages in this environment")
    (tmp_path / "msg").mkdir()
    sources = sorted((ROOT / "msg").glob("*.msg"))
    for source in sources:
        adapter.convert_msg_to_idl(ROOT, "haptics", Path("msg") / source.name, tmp_path / "msg")
    packages = ("builtin_interfaces", "std_msgs", "geometry_msgs")
    arguments = {
        "package_name": "haptics",
        "output_dir": str(tmp_path / "hashes"),
        "idl_tuples": [f"{tmp_path}:msg/{source.stem}.idl" for source in sources],
        "include_paths": [f"{package}:{share / package}" for package in packages],
    }
    (tmp_path / "arguments.json").write_text(json.dumps(arguments))
    generator.generate_type_hash(str(tmp_path / "arguments.json"))
    for source in sources:
        described = json.loads((tmp_path / "hashes" / "msg" / f"{source.stem}.json").read_text())
        hashes = {entry["type_name"]: entry["hash_string"] for entry in described["type_hashes"]}
        name = f"haptics/msg/{source.stem}"
        assert bag.message_types().hash_rihs01(name) == hashes[name]


def test_it_needs_no_ros():
    code = "import sys, haptic_bench.recording.bag; assert not {'rclpy', 'rosbag2_py'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


# It reads what others write


@pytest.mark.parametrize("compression", CompressionType)
def test_reads_chunks_of_any_compression_and_other_topics(tmp_path, compression):
    (tmp_path / "bag").mkdir()
    with open(tmp_path / "bag" / "session_0.mcap", "wb") as file:
        writer = McapWriter(file, chunk_size=2000, compression=compression)
        writer.start("ros2", "another library")
        schema = writer.register_schema("other_msgs/msg/Other", "ros2msg", b"float64 x\n")
        channels = [writer.register_channel(name, "cdr", schema) for name in ("/a", "/b")]
        for number in range(200):
            writer.add_message(channels[number % 2], number, payload(number), number)
        writer.finish()
    topics = bag.read(tmp_path / "bag")
    assert {name: topic.type for name, topic in topics.items()} == dict.fromkeys(("/a", "/b"), "other_msgs/msg/Other")
    assert topics["/b"].messages == [payload(number) for number in range(1, 200, 2)]
    # rosbag2 killed before it wrote metadata.yaml
    assert bag.repair(tmp_path / "bag") == 200
    assert set(files_of(tmp_path / "bag")) == {"session_0.mcap", "metadata.yaml"}
    with AnyReader([tmp_path / "bag"]) as reader:
        assert [data for _, _, data in reader.messages()] == [payload(number) for number in range(200)]


def test_reads_files_of_a_split_bag_in_their_order(tmp_path):
    for number in range(12):
        with BagWriter(tmp_path / "part", TOPICS, storage_name=f"bag_{number}.mcap") as writer:
            writer.write(0, number, payload(number))
        (tmp_path / "bag").mkdir(exist_ok=True)
        os.replace(tmp_path / "part" / f"bag_{number}.mcap", tmp_path / "bag" / f"bag_{number}.mcap")
        (tmp_path / "part" / "metadata.yaml").unlink()
    expected = [payload(number) for number in range(12)]
    assert bag.read(tmp_path / "bag")[TOPICS[0].name].messages == expected  # bag_10 after bag_9
    with pytest.raises(BagError, match="has 12 MCAP files: only bags of one file can be repaired"):
        bag.repair(tmp_path / "bag")
    names = [f"bag_{number}.mcap" for number in reversed(range(12))]
    information = {"rosbag2_bagfile_information": {"relative_file_paths": names}}
    (tmp_path / "bag" / "metadata.yaml").write_text(yaml.safe_dump(information))
    assert bag.read(tmp_path / "bag")[TOPICS[0].name].messages == expected[::-1]


# Refusals


def test_a_folder_with_something_in_it_is_refused(tmp_path):
    (tmp_path / "bag").mkdir()
    BagWriter(tmp_path / "bag", TOPICS).close()  # an empty one is not
    before = files_of(tmp_path / "bag")
    for path in (tmp_path / "bag", tmp_path / "bag" / "metadata.yaml"):
        with pytest.raises(BagError, match=f"^{path}: is not an empty folder"):
            BagWriter(path, TOPICS)
    assert files_of(tmp_path / "bag") == before


def test_wrong_topics_are_refused_before_anything_is_made(tmp_path):
    with pytest.raises(BagError, match=r"topic /a: unknown message type .*; is it haptics/msg/ToolState\?"):
        BagWriter(tmp_path / "bag", [Topic("/a", "haptics/msg/ToolStaet")])
    with pytest.raises(BagError, match="topic /a comes twice"):
        BagWriter(tmp_path / "bag", [Topic("/a", "haptics/msg/ToolState")] * 2)
    assert not (tmp_path / "bag").exists()


def test_a_refused_message_leaves_no_trace(tmp_path):
    writer = BagWriter(tmp_path / "bag", TOPICS)
    writer.write(0, 7, b"kept")
    for topic in (3, -1):
        with pytest.raises(BagError, match=rf"topic {topic}: must be an index into \['/trial/device_state',"):
            writer.write(topic, 0, b"refused")
    for time in (-1, 2**63):
        with pytest.raises(BagError, match=f"log time {time} ns, .*must be >= 0"):
            writer.write(0, time, b"refused")
    for arguments in ((0, 0.5, b"refused"), (0, 0, "refused"), (0, 0, 5)):
        with pytest.raises(TypeError):
            writer.write(*arguments)
    writer.close()
    assert all_messages(tmp_path / "bag") == [(7, b"kept")]


def test_close_twice_is_close_once_and_a_closed_bag_takes_nothing(tmp_path):
    write_payloads(tmp_path / "bag", 10)
    with BagWriter(tmp_path / "other", TOPICS) as writer:
        writer.write(0, 0, b"kept")
        writer.close()
        before = files_of(tmp_path / "other")
        writer.close()
        for call in (lambda: writer.write(0, 0, b"late"), lambda: writer.add_metadata("late", {})):
            with pytest.raises(BagError, match="other: is closed"):
                call()
    assert files_of(tmp_path / "other") == before


def test_what_cannot_be_read_is_named(tmp_path):
    for call in (bag.read, bag.repair):
        with pytest.raises(BagError, match=f"{tmp_path / 'none'}: is not a bag folder"):
            call(tmp_path / "none")
        (tmp_path / "text").mkdir(exist_ok=True)
        (tmp_path / "text" / "bag_0.mcap").write_text("this is no bag")
        with pytest.raises(BagError, match=r"text/bag_0\.mcap: is not an MCAP file"):
            call(tmp_path / "text")
    assert (tmp_path / "text" / "bag_0.mcap").read_text() == "this is no bag"
    (tmp_path / "text" / "metadata.yaml").write_text("[]")
    with pytest.raises(BagError, match=r"metadata\.yaml: is not the metadata of a bag"):
        bag.read(tmp_path / "text")
    (tmp_path / "text" / "metadata.yaml").write_text("a: [1")
    with pytest.raises(BagError, match="ParserError: ") as error:
        bag.read(tmp_path / "text")
    assert "object at 0x" not in str(error.value) and "line 1, column" in str(error.value)


# A writer that dies


def test_an_error_keeps_what_was_recorded(tmp_path):
    with pytest.raises(ZeroDivisionError), BagWriter(tmp_path / "bag", TOPICS) as writer:
        writer.write(0, 0, b"recorded")
        raise ZeroDivisionError
    assert all_messages(tmp_path / "bag") == [(0, b"recorded")]


def test_an_interrupt_while_a_chunk_is_written_loses_and_doubles_nothing(tmp_path, small_chunks, monkeypatch):
    class Interrupted:
        """A file in which one write is interrupted half way."""

        def __init__(self, file):
            self.file = file
            self.armed = True

        def write(self, data):
            if self.armed:
                self.armed = False
                self.file.write(data[: len(data) // 2])
                raise KeyboardInterrupt
            return self.file.write(data)

        def __getattr__(self, name):
            return getattr(self.file, name)

        def __enter__(self):
            return self.file.__enter__()

        def __exit__(self, *error):
            return self.file.__exit__(*error)

    writer = BagWriter(tmp_path / "bag", TOPICS)
    written = 0
    with pytest.raises(KeyboardInterrupt), writer:
        for number in range(100):
            if number == 50:
                monkeypatch.setattr(writer, "_file", Interrupted(writer._file))
            written += 1
            writer.write(0, number, payload(number))
    assert 50 < written < 60
    assert all_messages(tmp_path / "bag") == [(number, payload(number)) for number in range(written)]
    with open(tmp_path / "bag" / "bag_0.mcap", "rb") as file:
        assert make_reader(file, validate_crcs=True).get_summary().statistics.message_count == written


@pytest.mark.parametrize(("kind", "call"), [(McapLayout, "chunk"), (BagWriter, "_put")])
def test_an_interrupt_behind_a_chunk_loses_and_doubles_nothing(tmp_path, small_chunks, monkeypatch, kind, call):
    interrupts = []
    works = getattr(kind, call)

    def interrupted(self, *arguments):
        done = works(self, *arguments)
        if interrupts:
            raise interrupts.pop()
        return done

    monkeypatch.setattr(kind, call, interrupted)
    with BagWriter(tmp_path / "bag", TOPICS) as writer:
        for number in range(50):
            writer.write(0, number, payload(number))
        interrupts.append(KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            for number in range(50, 60):
                writer.write(0, number, payload(number))
        for following in range(number + 1, 100):
            writer.write(0, following, payload(following))
    assert all_messages(tmp_path / "bag") == [(number, payload(number)) for number in range(100)]


def test_a_killed_writer_loses_only_what_was_not_flushed(tmp_path):
    code = """
import sys
from haptic_bench.recording.bag import BagWriter
from test_bag import TOPICS, payload
writer = BagWriter(sys.argv[1], TOPICS)
writer.add_metadata("trial", {"seed": "20260"})
for number in range(1500):
    writer.write(number % 2, 1000 * number, payload(number))
writer.flush()
for number in range(1500, 1600):
    writer.write(number % 2, 1000 * number, payload(number))
print("written", flush=True)
sys.stdin.read()
"""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(ROOT), str(ROOT / "test")]))
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "bag")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )
    with process:
        assert process.stdout.readline() == b"written\n"
        process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=60) == -signal.SIGKILL
    with pytest.raises(BagError, match=r"bag_0\.mcap: has no end: its writer did not finish"):
        bag.read(tmp_path / "bag")
    assert bag.repair(tmp_path / "bag") == 1500
    assert all_messages(tmp_path / "bag") == [(1000 * number, payload(number)) for number in range(1500)]
    assert bag.read_metadata(tmp_path / "bag") == {"trial": {"seed": "20260"}}
    # As if it had been closed after the flush, but for the bounds of the chunks.
    write_payloads(tmp_path / "whole", 1500)
    assert files_of(tmp_path / "bag") == files_of(tmp_path / "whole")


def test_repair_after_a_cut_at_any_byte(tmp_path, small_chunks):
    write_payloads(tmp_path / "whole", 60)
    whole = files_of(tmp_path / "whole")
    data = whole["bag_0.mcap"]
    ends = [data.index(payload(number)) + len(payload(number)) for number in range(60)]
    first_message = data.index(payload(0))  # in the first chunk, behind the topics
    path = tmp_path / "bag"
    path.mkdir()
    for cut in [*range(0, len(data), 211), len(data) - 1]:
        (path / "bag_0.mcap").write_bytes(data[:cut])
        (path / "metadata.yaml").unlink(missing_ok=True)
        expected = sum(end <= cut for end in ends)
        assert bag.repair(path) == expected
        assert set(files_of(path)) == {"bag_0.mcap", "metadata.yaml"}
        assert all_messages(path) == [(1000 * number, payload(number)) for number in range(expected)]
        names = list(bag.read(path))
        assert names == [topic.name for topic in TOPICS][: len(names)]
        assert len(names) == 3 or cut < first_message
        with open(path / "bag_0.mcap", "rb") as file:
            assert sum(1 for _ in make_reader(file, validate_crcs=True).iter_messages()) == expected


def test_repair_leaves_a_sound_bag_alone(tmp_path):
    write_payloads(tmp_path / "bag", 10)
    file = tmp_path / "bag" / "bag_0.mcap"
    before, identity = files_of(tmp_path / "bag"), (file.stat().st_ino, file.stat().st_mtime_ns)
    assert bag.repair(tmp_path / "bag") == 10
    assert files_of(tmp_path / "bag") == before
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == identity


def test_repair_that_fails_keeps_the_original(tmp_path, monkeypatch):
    write_payloads(tmp_path / "bag", 10)
    file = tmp_path / "bag" / "bag_0.mcap"
    file.write_bytes(file.read_bytes()[:-1])
    before = files_of(tmp_path / "bag")

    def full(self, data, offset=None):
        raise OSError("no space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="no space left"):
        patch.setattr(BagWriter, "_put", full)
        bag.repair(tmp_path / "bag")
    assert files_of(tmp_path / "bag") == before
    assert bag.repair(tmp_path / "bag") == 10


def test_a_damaged_chunk_is_found_and_only_it_is_given_up(tmp_path, small_chunks):
    write_payloads(tmp_path / "bag", 60)
    file = tmp_path / "bag" / "bag_0.mcap"
    data = bytearray(file.read_bytes())
    data[data.index(payload(30)) + 50] ^= 1
    file.write_bytes(data)
    with pytest.raises(BagError, match=r"record at byte \d+ is damaged: CRCValidationError"):
        bag.read(tmp_path / "bag")
    kept = bag.repair(tmp_path / "bag")
    assert 50 <= kept < 60
    assert all_messages(tmp_path / "bag")[-1] == (59_000, payload(59))
    assert payload(30) not in [data for _, data in all_messages(tmp_path / "bag")]


def test_our_own_types_are_described_as_among_all_of_ros():
    """Text, hash and bytes: the types that ours contain are written down here, too."""
    own, all_types = bag.own_types(), bag.message_types()
    names = [name for name in own.fielddefs if name.startswith("haptics/msg/")]
    assert len(names) > 10
    for name in own.fielddefs:
        assert own.generate_msgdef(name, ros_version=2) == all_types.generate_msgdef(name, ros_version=2)
        assert own.hash_rihs01(name) == all_types.hash_rihs01(name)
