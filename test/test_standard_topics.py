"""Topics of standard messages cost nothing while nobody subscribes to them."""

from __future__ import annotations

import pytest
from conftest import wait_until

rclpy = pytest.importorskip("rclpy", reason="needs ROS 2")
pytest.importorskip("haptics.msg", reason="needs the built messages")

from graph_checks import observer  # noqa: E402
from std_msgs.msg import String  # noqa: E402

from haptic_ros.standard_topics import RELIABLE, StandardTopics  # noqa: E402


class Texts(StandardTopics):
    """A topic of texts that counts how often it was looked at."""

    looked = 0

    def _show(self) -> None:
        self.looked += 1
        super()._show()

    def show(self, data: bytes) -> None:
        self.publish("text", String(data=data.decode()))


def test_the_timer_runs_while_there_is_a_subscription() -> None:
    with observer("publishing", "/standard_topics") as node, observer("listening", "/standard_topics") as listener:
        node.root, node.last_sent = "/standard_topics", {"source": b"0"}
        texts, heard = Texts(node, "source", 200.0), list[str]()
        texts.open("text", String, RELIABLE)
        assert texts._timer.is_canceled()

        def comes() -> bool:
            node.last_sent["source"] = str(texts.looked).encode()
            return len(set(heard)) > 5

        for _ in range(2):
            heard.clear()
            subscription = listener.create_subscription(String, "text", lambda text: heard.append(text.data), RELIABLE)
            wait_until(comes, "texts")
            # by the thread that may wait on it
            listener.executor.create_task(listener.destroy_subscription, subscription)
            wait_until(texts._timer.is_canceled, "the end of the timer")
        looked = texts.looked
        wait_until(lambda: not texts.wanted("text"), "the end of the subscription")
        assert texts.looked - looked <= 1
        texts.close()
