"""Share consumers of confluent-kafka-python (librdkafka) against a broker: python confluent-share-flow.py HOST:PORT.
Prints one line for each step; exit 1 at the first that fails."""
import os
import sys

from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

ADDRESS = sys.argv[1]
UNIQUE = f"share-{os.getpid()}"
TOPIC = f"{UNIQUE}-jobs"
GROUP = f"{UNIQUE}-workers"
WAIT_S = 60
COUNT = 40
admin = AdminClient({"bootstrap.servers": ADDRESS})


def step(work):
    """Runs a step at once and says that it is done."""
    work()
    print("ok", work.__name__.replace("_", " "), flush=True)


def set_group(group, name, value):
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(WAIT_S)


def share_consumer(group, mode):
    consumer = ShareConsumer({"bootstrap.servers": ADDRESS, "group.id": group, "share.acknowledgement.mode": mode})
    consumer.subscribe([TOPIC])
    return consumer


def messages_of(consumer, say, seen):
    """Polls until nothing came for a while; `say` decides about each message."""
    silent = 0
    while silent < 10:
        given = list(consumer.poll(timeout=0.5) or [])
        silent = 0 if given else silent + 1
        for message in given:
            assert message.error() is None, message.error()
            say(message)
        if given:
            consumer.commit_sync()
        if len(seen) >= COUNT:
            return


@step
def topic_and_records():
    for future in admin.create_topics([NewTopic(TOPIC, 2, 1)]).values():
        future.result(WAIT_S)
    set_group(GROUP, "share.auto.offset.reset", "earliest")
    producer = Producer({"bootstrap.servers": ADDRESS})
    for at in range(COUNT):
        producer.produce(TOPIC, key=str(at), value=f"job {at}")
    assert producer.flush(WAIT_S) == 0


@step
def accept_release_reject():
    consumer = share_consumer(GROUP, "explicit")
    accepted, rejected, released = set(), set(), set()
    seen = set()

    def say(message):
        name = message.value().decode()
        at = int(name.split()[1])
        if at % 10 == 3:
            consumer.acknowledge(message, AcknowledgeType.REJECT)
            rejected.add(name)
            seen.add(name)
        elif at % 10 == 7 and name not in released:
            consumer.acknowledge(message, AcknowledgeType.RELEASE)
            released.add(name)
        else:
            assert name not in accepted, f"{name} was accepted and came again"
            consumer.acknowledge(message, AcknowledgeType.ACCEPT)
            accepted.add(name)
            seen.add(name)

    messages_of(consumer, say, seen)
    consumer.close()
    assert len(accepted) == COUNT - COUNT // 10, f"{len(accepted)} accepted"
    assert len(rejected) == COUNT // 10 and len(released) == COUNT // 10, f"{len(rejected)} rejected, {len(released)} released"


@step
def dead_letters_say_where_they_come_from():
    reader = Consumer({"bootstrap.servers": ADDRESS, "group.id": f"{UNIQUE}-reader", "auto.offset.reset": "earliest"})
    reader.subscribe([f"{TOPIC}.dlq"])
    found = {}
    for _ in range(WAIT_S * 2):
        message = reader.poll(0.5)
        if message is not None and message.error() is None:
            found[message.value().decode()] = dict(message.headers())
        if len(found) == COUNT // 10:
            break
    reader.close()
    assert sorted(found) == sorted(f"job {at}" for at in range(COUNT) if at % 10 == 3), sorted(found)
    for headers in found.values():
        assert headers["moonmq.dlq.topic"].decode() == TOPIC and headers["moonmq.dlq.group"].decode() == GROUP, headers


@step
def two_consumers_share_without_repeats():
    group = f"{UNIQUE}-pair"
    set_group(group, "share.auto.offset.reset", "earliest")
    seen = []
    pair = [share_consumer(group, "implicit") for _ in range(2)]
    for _ in range(WAIT_S * 2):
        for consumer in pair:
            given = list(consumer.poll(timeout=0.25) or [])
            seen += [message.value().decode() for message in given]
        if len(seen) >= COUNT:
            break
    for consumer in pair:
        consumer.close()
    assert len(seen) == COUNT and len(set(seen)) == COUNT, f"{len(seen)} messages, {len(set(seen))} of them different"


print("done")
