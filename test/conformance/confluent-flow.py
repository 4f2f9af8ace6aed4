"""Flows of confluent-kafka-python (librdkafka) against a broker: python confluent-flow.py HOST:PORT.
Prints one line for each step; exit 1 at the first that fails."""
import os
import sys
import time

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, OffsetSpec, ResourceType

ADDRESS = sys.argv[1]
UNIQUE = f"confluent-{os.getpid()}"
TOPIC = f"{UNIQUE}-in"
OUT = f"{UNIQUE}-out"
WAIT_S = 60
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
admin = AdminClient({"bootstrap.servers": ADDRESS})


def step(work):
    """Runs a step at once and says that it is done."""
    work()
    print("ok", work.__name__.replace("_", " "), flush=True)


def results(futures):
    return {key: future.result(WAIT_S) for key, future in futures.items()}


def soon(check):
    """Whether it comes true: a broker may answer before all of it knows."""
    for _ in range(100):
        if check():
            return True
        time.sleep(0.1)
    return False


def producer(**settings):
    return Producer({"bootstrap.servers": ADDRESS, "linger.ms": 5, **{name.replace("_", "."): value for name, value in settings.items()}})


def consumer(group, protocol="classic", **settings):
    timeouts = {"session.timeout.ms": 10000, "heartbeat.interval.ms": 500} if protocol == "classic" else {}
    return Consumer(
        {
            "bootstrap.servers": ADDRESS,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **timeouts,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


def poll(source, count):
    """The next `count` messages."""
    messages = []
    for _ in range(WAIT_S * 2):
        message = source.poll(0.5)
        if message is None:
            continue
        if message.error():
            raise KafkaException(message.error())
        messages.append(message)
        if len(messages) == count:
            return messages
    raise AssertionError(f"{len(messages)} of {count} messages came")


@step
def topics_are_made_and_listed():
    results(admin.create_topics([NewTopic(TOPIC, 3, 1, config={"retention.ms": "600000"}), NewTopic(OUT, 3, 1)]))
    assert soon(lambda: {TOPIC, OUT} <= set(admin.list_topics(timeout=WAIT_S).topics))
    assert len(admin.list_topics(timeout=WAIT_S).topics[TOPIC].partitions) == 3
    try:
        results(admin.create_topics([NewTopic(TOPIC, 3, 1)]))
        raise AssertionError("the topic was made twice")
    except KafkaException as error:
        assert error.args[0].name() == "TOPIC_ALREADY_EXISTS", error


@step
def records_of_each_codec_are_produced():
    errors = []
    for codec in CODECS:
        with_codec = producer(compression_type=codec, enable_idempotence=codec == "lz4")
        for i in range(20):
            with_codec.produce(
                TOPIC,
                key=f"{codec}-{i}",
                value=f"value {i} " + "x" * 100,
                headers=[("codec", codec.encode())],
                partition=i % 3,
                on_delivery=lambda error, _: errors.append(error) if error else None,
            )
        assert with_codec.flush(WAIT_S) == 0
    assert errors == [], errors


PRODUCED = len(CODECS) * 20


def reads_as_group(protocol):
    """Two consumers share the partitions, commit, and a third one goes on behind what they read."""
    group = f"{UNIQUE}-{protocol}"
    members = [consumer(group, protocol) for _ in range(2)]
    for member in members:
        member.subscribe([TOPIC])
    seen = {}
    shared = False
    for _ in range(WAIT_S * 5):
        for member in members:
            message = member.poll(0.1)
            if message is not None and not message.error():
                seen[(message.partition(), message.offset())] = message
        assignments = [{part.partition for part in member.assignment()} for member in members]
        shared = shared or (all(assignments) and sum(map(len, assignments)) == 3)
        if shared and len(seen) == PRODUCED:
            break
    assert len(seen) == PRODUCED and shared, f"{len(seen)} records, partitions shared: {shared}"
    assert {dict(message.headers())["codec"].decode() for message in seen.values()} == set(CODECS)
    last = {part: max(offset for of, offset in seen if of == part) for part, _ in seen}
    members[0].commit(offsets=[TopicPartition(TOPIC, part, offset + 1) for part, offset in last.items()], asynchronous=False)
    for member in members:
        member.close()
    late = producer()
    late.produce(TOPIC, value=b"late", partition=1)
    assert late.flush(WAIT_S) == 0
    third = consumer(group, protocol)
    third.subscribe([TOPIC])
    (message,) = poll(third, 1)
    assert message.value() == b"late", message.value()
    third.commit(message=message, asynchronous=False)
    third.close()
    described = admin.describe_consumer_groups([group])[group].result(WAIT_S)
    assert described.state == ConsumerGroupState.EMPTY, described.state


@step
def a_classic_group_reads():
    reads_as_group("classic")


@step
def a_group_of_the_new_protocol_reads():
    global PRODUCED
    PRODUCED += 1  # the late record of the step before
    group = f"{UNIQUE}-consumer"
    member = consumer(group, "consumer")
    member.subscribe([TOPIC])
    messages = poll(member, PRODUCED)
    assert len({(message.partition(), message.offset()) for message in messages}) == PRODUCED
    member.commit(asynchronous=False)
    described = admin.describe_consumer_groups([group])[group].result(WAIT_S)
    assert described.type.name == "CONSUMER" and len(described.members) == 1, described.type
    member.close()
    committed = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(WAIT_S)
    assert sum(part.offset for part in committed.topic_partitions) == PRODUCED


@step
def transactions_commit_and_abort():
    bank = producer(transactional_id=f"{UNIQUE}-bank")
    bank.init_transactions(WAIT_S)
    for round_number in range(6):
        bank.begin_transaction()
        for i in range(5):
            bank.produce(OUT, key=str(round_number), value=f"{round_number} {i}", partition=0)
        if round_number % 3 == 2:
            bank.flush(WAIT_S)
            bank.abort_transaction(WAIT_S)
        else:
            bank.commit_transaction(WAIT_S)
    reader = consumer(f"{UNIQUE}-bank-readers", isolation_level="read_committed")
    reader.assign([TopicPartition(OUT, 0, OFFSET_BEGINNING)])
    values = [message.value().decode() for message in poll(reader, 20)]
    assert values == [f"{round_number} {i}" for round_number in (0, 1, 3, 4) for i in range(5)], values
    reader.close()
    every = consumer(f"{UNIQUE}-every", isolation_level="read_uncommitted")
    every.assign([TopicPartition(OUT, 0, OFFSET_BEGINNING)])
    assert len(poll(every, 30)) == 30
    every.close()


@step
def a_second_producer_of_the_same_id_fences_the_first():
    first = producer(transactional_id=f"{UNIQUE}-fenced")
    first.init_transactions(WAIT_S)
    first.begin_transaction()
    first.produce(OUT, value=b"zombie", partition=2)
    first.flush(WAIT_S)
    second = producer(transactional_id=f"{UNIQUE}-fenced")
    second.init_transactions(WAIT_S)
    try:
        first.commit_transaction(WAIT_S)
        raise AssertionError("a fenced producer committed")
    except KafkaException as error:
        assert error.args[0].fatal(), error
    second.begin_transaction()
    second.produce(OUT, value=b"alive", partition=2)
    second.commit_transaction(WAIT_S)
    reader = consumer(f"{UNIQUE}-fence-readers", isolation_level="read_committed")
    reader.assign([TopicPartition(OUT, 2, OFFSET_BEGINNING)])
    assert [message.value() for message in poll(reader, 1)] == [b"alive"]
    reader.close()


@step
def records_are_moved_exactly_once():
    group = f"{UNIQUE}-movers"
    source = consumer(group, isolation_level="read_committed")
    source.subscribe([TOPIC])
    mover = producer(transactional_id=f"{UNIQUE}-mover")
    mover.init_transactions(WAIT_S)
    moved = 0
    aborted = False
    while moved < PRODUCED:
        batch = poll(source, min(20, PRODUCED - moved))
        mover.begin_transaction()
        for message in batch:
            mover.produce(OUT, value=b"moved %d %d" % (message.partition(), message.offset()), partition=1)
        mover.send_offsets_to_transaction(source.position(source.assignment()), source.consumer_group_metadata(), WAIT_S)
        if not aborted and moved > 0:
            mover.abort_transaction(WAIT_S)
            aborted = True
            for part in source.committed(source.assignment(), WAIT_S):
                if part.offset < 0:
                    part.offset = OFFSET_BEGINNING
                source.seek(part)
            continue
        mover.commit_transaction(WAIT_S)
        moved += len(batch)
    source.close()
    reader = consumer(f"{UNIQUE}-moved", isolation_level="read_committed")
    reader.assign([TopicPartition(OUT, 1, OFFSET_BEGINNING)])
    values = [message.value() for message in poll(reader, PRODUCED)]
    assert len(set(values)) == PRODUCED, "a record was moved twice"
    reader.close()


@step
def offsets_are_listed_by_position_time_and_isolation():
    first = TopicPartition(TOPIC, 0)
    earliest = results(admin.list_offsets({first: OffsetSpec.earliest()}))[first].offset
    latest = results(admin.list_offsets({first: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED))[first].offset
    assert earliest == 0 and latest > 30, (earliest, latest)
    assert results(admin.list_offsets({first: OffsetSpec.for_timestamp(1)}))[first].offset == 0


@step
def settings_are_described_and_changed():
    resource = ConfigResource(ResourceType.TOPIC, TOPIC)
    assert results(admin.describe_configs([resource]))[resource]["retention.ms"].value == "600000"
    change = ConfigResource(
        ResourceType.TOPIC,
        TOPIC,
        incremental_configs=[ConfigEntry("retention.ms", "700000", incremental_operation=AlterConfigOpType.SET)],
    )
    results(admin.incremental_alter_configs([change]))
    assert results(admin.describe_configs([resource]))[resource]["retention.ms"].value == "700000"


@step
def records_groups_and_topics_are_deleted():
    results(admin.create_partitions([NewPartitions(TOPIC, 5)]))
    deleted = results(admin.delete_records([TopicPartition(TOPIC, 0, 10)]))
    assert [each.low_watermark for each in deleted.values()] == [10]
    group = f"{UNIQUE}-classic"
    groups = admin.list_consumer_groups().result(WAIT_S).valid
    assert group in [each.group_id for each in groups]
    results(admin.delete_consumer_groups([group]))
    results(admin.delete_topics([TOPIC, OUT]))
    assert soon(lambda: TOPIC not in admin.list_topics(timeout=WAIT_S).topics)


print("done")
