"""Flows of aiokafka (pure Python) against a broker: python aiokafka-flow.py HOST:PORT.
Prints one line for each step; exit 1 at the first that fails."""
import asyncio
import os
import sys

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic
from aiokafka.errors import ProducerFenced, TopicAlreadyExistsError
from aiokafka.structs import OffsetAndMetadata

ADDRESS = sys.argv[1]
UNIQUE = f"aiokafka-{os.getpid()}"
TOPIC = f"{UNIQUE}-in"
OUT = f"{UNIQUE}-out"
WAIT_S = 60
CODECS = [None, "gzip", "snappy", "lz4", "zstd"]
PER_CODEC = 20
PRODUCED = len(CODECS) * PER_CODEC


def consumer(*topics, **settings):
    return AIOKafkaConsumer(
        *topics,
        bootstrap_servers=ADDRESS,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=10000,
        heartbeat_interval_ms=500,
        **settings,
    )


async def take(source, count):
    """The next `count` messages."""
    messages = []
    async with asyncio.timeout(WAIT_S):
        while len(messages) < count:
            messages.append(await source.getone())
    return messages


async def soon(check, admin):
    """Whether it comes true of the topics that are listed: a broker may answer before all of it knows."""
    for _ in range(100):
        if check(set(await admin.list_topics())):
            return True
        await asyncio.sleep(0.1)
    return False


async def topics_are_made_and_listed(admin):
    await admin.create_topics([NewTopic(TOPIC, 3, 1), NewTopic(OUT, 3, 1)])
    assert await soon(lambda topics: {TOPIC, OUT} <= topics, admin)
    described = await admin.describe_topics([TOPIC])
    assert len(described[0]["partitions"]) == 3
    answer = await admin.create_topics([NewTopic(TOPIC, 3, 1)])
    assert answer.topic_errors[0][1] == TopicAlreadyExistsError.errno, answer


async def records_of_each_codec_are_produced(_):
    for codec in CODECS:
        for acks in ("all", 1):
            async with AIOKafkaProducer(bootstrap_servers=ADDRESS, compression_type=codec, acks=acks) as producer:
                for i in range(PER_CODEC // 2):
                    headers = [("codec", str(codec).encode())]
                    await producer.send_and_wait(TOPIC, b"%d " % i + b"x" * 200, key=b"k%d" % i, partition=i % 3, headers=headers)


async def a_group_reads_and_goes_on(_):
    group = f"{UNIQUE}-group"
    async with consumer(TOPIC, group_id=group) as first, consumer(TOPIC, group_id=group) as second:
        seen = set()

        async def read(source):
            while len(seen) < PRODUCED:
                found = await source.getmany(timeout_ms=200)
                seen.update((message.partition, message.offset) for messages in found.values() for message in messages)
                await source.commit()

        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(read(first), read(second))
            while len(first.assignment()) + len(second.assignment()) != 3:
                await asyncio.sleep(0.1)
        assert len(seen) == PRODUCED
        assert first.assignment() and second.assignment()
    async with AIOKafkaProducer(bootstrap_servers=ADDRESS, enable_idempotence=True) as producer:
        await producer.send_and_wait(TOPIC, b"late", partition=1)
    async with consumer(TOPIC, group_id=group) as third:
        assert [message.value for message in await take(third, 1)] == [b"late"]
        await third.commit()


async def transactions_commit_and_abort(_):
    async with AIOKafkaProducer(bootstrap_servers=ADDRESS, transactional_id=f"{UNIQUE}-bank") as bank:
        for round_number in range(6):
            await bank.begin_transaction()
            for i in range(5):
                await bank.send_and_wait(OUT, b"%d %d" % (round_number, i), partition=0)
            if round_number % 3 == 2:
                await bank.abort_transaction()
            else:
                await bank.commit_transaction()
    async with consumer(isolation_level="read_committed") as reader:
        reader.assign([TopicPartition(OUT, 0)])
        values = [message.value for message in await take(reader, 20)]
        assert values == [b"%d %d" % (round_number, i) for round_number in (0, 1, 3, 4) for i in range(5)], values


async def a_second_producer_of_the_same_id_fences_the_first(_):
    first = AIOKafkaProducer(bootstrap_servers=ADDRESS, transactional_id=f"{UNIQUE}-fenced")
    await first.start()
    await first.begin_transaction()
    await first.send_and_wait(OUT, b"zombie", partition=2)
    async with AIOKafkaProducer(bootstrap_servers=ADDRESS, transactional_id=f"{UNIQUE}-fenced") as second:
        try:
            await first.send_and_wait(OUT, b"late zombie", partition=2)
            await first.commit_transaction()
            raise AssertionError("a fenced producer committed")
        except ProducerFenced:
            pass
        async with second.transaction():
            await second.send_and_wait(OUT, b"alive", partition=2)
    await first.stop()
    async with consumer(isolation_level="read_committed") as reader:
        reader.assign([TopicPartition(OUT, 2)])
        assert [message.value for message in await take(reader, 1)] == [b"alive"]


async def records_are_moved_exactly_once(_):
    group = f"{UNIQUE}-movers"
    total = PRODUCED + 1
    async with (
        consumer(TOPIC, group_id=group, isolation_level="read_committed") as source,
        AIOKafkaProducer(bootstrap_servers=ADDRESS, transactional_id=f"{UNIQUE}-mover") as mover,
    ):
        moved = 0
        aborted = False
        async with asyncio.timeout(WAIT_S):
            while moved < total:
                found = await source.getmany(timeout_ms=500, max_records=20)
                batch = [message for messages in found.values() for message in messages]
                if not batch:
                    continue
                await mover.begin_transaction()
                for message in batch:
                    await mover.send(OUT, b"moved %d %d" % (message.partition, message.offset), partition=1)
                offsets = {part: OffsetAndMetadata(messages[-1].offset + 1, "") for part, messages in found.items()}
                await mover.send_offsets_to_transaction(offsets, group)
                if not aborted and moved > 0:
                    await mover.abort_transaction()
                    aborted = True
                    await source.seek_to_committed()
                    for part in source.assignment():
                        if await source.committed(part) is None:
                            await source.seek_to_beginning(part)
                    continue
                await mover.commit_transaction()
                moved += len(batch)
    async with consumer(isolation_level="read_committed") as reader:
        reader.assign([TopicPartition(OUT, 1)])
        values = [message.value for message in await take(reader, total)]
        assert len(set(values)) == total, "a record was moved twice"


async def offsets_are_found_by_position_and_time(_):
    async with consumer() as reader:
        first = TopicPartition(TOPIC, 0)
        assert (await reader.beginning_offsets([first]))[first] == 0
        assert (await reader.end_offsets([first]))[first] > 30
        assert (await reader.offsets_for_times({first: 1}))[first].offset == 0


async def groups_and_topics_are_administered(admin):
    group = f"{UNIQUE}-group"
    assert group in [each[0] for each in await admin.list_consumer_groups()]
    offsets = await admin.list_consumer_group_offsets(group)
    assert sum(each.offset for each in offsets.values()) == PRODUCED + 1
    await admin.create_partitions({TOPIC: NewPartitions(5)})
    await admin.delete_topics([TOPIC, OUT])
    assert await soon(lambda topics: TOPIC not in topics, admin)


STEPS = [
    topics_are_made_and_listed,
    records_of_each_codec_are_produced,
    a_group_reads_and_goes_on,
    transactions_commit_and_abort,
    a_second_producer_of_the_same_id_fences_the_first,
    records_are_moved_exactly_once,
    offsets_are_found_by_position_and_time,
    groups_and_topics_are_administered,
]


async def main():
    admin = AIOKafkaAdminClient(bootstrap_servers=ADDRESS)
    await admin.start()
    try:
        for work in STEPS:
            await work(admin)
            print("ok", work.__name__.replace("_", " "), flush=True)
    finally:
        await admin.close()
    print("done")


asyncio.run(main())
