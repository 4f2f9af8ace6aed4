import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;

/**
 * Load of transactions and groups with Kafka's own Java client. Arguments: what to do, the broker, a topic of four partitions that is there, and for how many
 * seconds. Prints one line of JSON.
 */
public class GroupLoad {
    static final int PER_TRANSACTION = 100;
    static final int MEMBERS = 10;
    static final int WIDE = 40;
    static final byte[] VALUE = new byte[1024];
    static String address;
    static String topic;
    static long seconds;

    public static void main(String[] args) throws Exception {
        address = args[1];
        topic = args[2];
        seconds = Long.parseLong(args[3]);
        switch (args[0]) {
            case "transactions" -> transactions();
            case "copy" -> copy(Integer.parseInt(args[4]));
            case "join" -> members(args[4], false);
            case "commits" -> members(args[4], true);
            case "share" -> share(Integer.parseInt(args[4]));
            default -> throw new IllegalArgumentException(args[0]);
        }
        // Clients of the members that still run would hold the process.
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    static Map<String, Object> settings(Object... pairs) {
        Map<String, Object> settings = new HashMap<>(Map.of("bootstrap.servers", address));
        for (int at = 0; at < pairs.length; at += 2) settings.put((String) pairs[at], pairs[at + 1]);
        return settings;
    }

    static final String BYTES_IN = "org.apache.kafka.common.serialization.ByteArraySerializer";
    static final String BYTES_OUT = "org.apache.kafka.common.serialization.ByteArrayDeserializer";

    static KafkaProducer<byte[], byte[]> producer(Object... pairs) {
        Map<String, Object> settings = settings(pairs);
        settings.putIfAbsent("key.serializer", BYTES_IN);
        settings.putIfAbsent("value.serializer", BYTES_IN);
        settings.putIfAbsent("linger.ms", 5);
        return new KafkaProducer<>(settings);
    }

    static KafkaConsumer<byte[], byte[]> consumer(String group, Object... pairs) {
        Map<String, Object> settings = settings(pairs);
        settings.put("group.id", group);
        settings.put("key.deserializer", BYTES_OUT);
        settings.put("value.deserializer", BYTES_OUT);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", false);
        return new KafkaConsumer<>(settings);
    }

    static void print(String format, Object... values) {
        System.out.println(String.format(Locale.ROOT, format, values));
    }

    static double since(long startNs) {
        return (System.nanoTime() - startNs) / 1e9;
    }

    static void transactions() {
        try (var producer = producer("transactional.id", "load-" + topic)) {
            producer.initTransactions();
            for (int round = 0; round < 20; round++) transaction(producer);
            long count = 0;
            long startNs = System.nanoTime();
            for (; since(startNs) < seconds; count++) transaction(producer);
            print("{\"transactions_s\":%.1f}", count / since(startNs));
        }
    }

    static void transaction(KafkaProducer<byte[], byte[]> producer) {
        producer.beginTransaction();
        for (int at = 0; at < PER_TRANSACTION; at++) producer.send(new ProducerRecord<>(topic, VALUE));
        producer.commitTransaction();
    }

    static void fill(int records) {
        try (var producer = producer("batch.size", 131072)) {
            for (int at = 0; at < records; at++) producer.send(new ProducerRecord<>(topic, at % 4, null, VALUE));
        }
    }

    /** Reads committed, writes and commits what was read in one transaction a poll. */
    static void copy(int records) throws Exception {
        fill(records);
        String to = topic + "-copy";
        create(to, 4);
        try (var consumer = consumer("copy-" + topic, "isolation.level", "read_committed");
             var producer = producer("transactional.id", "copy-" + topic, "batch.size", 131072)) {
            producer.initTransactions();
            consumer.subscribe(List.of(topic));
            long copied = 0;
            long startNs = 0;
            while (copied < records) {
                var polled = consumer.poll(Duration.ofSeconds(10));
                if (polled.isEmpty()) throw new IllegalStateException("nothing more after " + copied);
                if (startNs == 0) startNs = System.nanoTime();
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                producer.beginTransaction();
                for (var record : polled) {
                    producer.send(new ProducerRecord<>(to, record.value()));
                    offsets.put(new TopicPartition(record.topic(), record.partition()), new OffsetAndMetadata(record.offset() + 1));
                }
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                producer.commitTransaction();
                copied += polled.count();
            }
            print("{\"records_s\":%.0f}", copied / since(startNs));
        }
    }

    static void create(String name, int partitions) throws Exception {
        try (var admin = Admin.create(settings())) {
            admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1))).all().get();
        }
        Thread.sleep(500);
    }

    /** Ten members of one group: how long until each has its part, and then how often they commit together. */
    static void members(String protocol, boolean commits) throws Exception {
        String wide = topic + "-wide";
        create(wide, WIDE);
        var settled = new CountDownLatch(1);
        var assigned = new ConcurrentHashMap<Integer, Integer>();
        var committed = new AtomicLong();
        var stop = new CountDownLatch(1);
        var threads = Executors.newFixedThreadPool(MEMBERS);
        long startNs = System.nanoTime();
        var failed = new CopyOnWriteArrayList<Throwable>();
        for (int member = 0; member < MEMBERS; member++) {
            int id = member;
            threads.submit(() -> {
                try (var consumer = consumer("group-" + topic, "group.protocol", protocol)) {
                    consumer.subscribe(List.of(wide));
                    while (stop.getCount() > 0) {
                        consumer.poll(Duration.ofMillis(settled.getCount() > 0 || !commits ? 50 : 0));
                        assigned.put(id, consumer.assignment().size());
                        int sum = assigned.values().stream().mapToInt(Integer::intValue).sum();
                        if (assigned.size() == MEMBERS && sum == WIDE && assigned.values().stream().allMatch((count) -> count > 0)) settled.countDown();
                        if (!commits || settled.getCount() > 0) continue;
                        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                        for (var partition : consumer.assignment()) offsets.put(partition, new OffsetAndMetadata(0));
                        consumer.commitSync(offsets);
                        committed.incrementAndGet();
                    }
                } catch (Throwable error) {
                    failed.add(error);
                }
            });
        }
        if (!settled.await(60, TimeUnit.SECONDS)) throw new IllegalStateException("not stable: " + assigned + " " + failed);
        double stable = since(startNs);
        if (!commits) {
            print("{\"stable_ms\":%.0f}", stable * 1000);
            return;
        }
        Thread.sleep(500);
        long before = committed.get();
        long fromNs = System.nanoTime();
        Thread.sleep(seconds * 1000);
        if (!failed.isEmpty()) throw new IllegalStateException(failed.get(0));
        print("{\"commits_s\":%.0f}", (committed.get() - before) / since(fromNs));
        stop.countDown();
    }

    /** Two members of a share group take what is there and accept it as they poll again. */
    static void share(int records) throws Exception {
        fill(records);
        String group = "share-" + topic;
        try (var admin = Admin.create(settings())) {
            var resource = new ConfigResource(ConfigResource.Type.GROUP, group);
            var earliest = new AlterConfigOp(new ConfigEntry("share.auto.offset.reset", "earliest"), AlterConfigOp.OpType.SET);
            admin.incrementalAlterConfigs(Map.of(resource, List.of(earliest))).all().get();
        }
        var taken = new AtomicLong();
        var firstNs = new AtomicLong();
        var failed = new CopyOnWriteArrayList<Throwable>();
        var done = new CountDownLatch(1);
        var threads = Executors.newFixedThreadPool(2);
        for (int member = 0; member < 2; member++) {
            threads.submit(() -> {
                Map<String, Object> settings = settings("group.id", group, "key.deserializer", BYTES_OUT, "value.deserializer", BYTES_OUT);
                try (var consumer = new KafkaShareConsumer<byte[], byte[]>(settings)) {
                    consumer.subscribe(List.of(topic));
                    while (done.getCount() > 0) {
                        int count = consumer.poll(Duration.ofMillis(200)).count();
                        if (count > 0) firstNs.compareAndSet(0, System.nanoTime());
                        if (taken.addAndGet(count) >= records) done.countDown();
                    }
                } catch (Throwable error) {
                    failed.add(error);
                    done.countDown();
                }
            });
        }
        if (!done.await(120, TimeUnit.SECONDS)) throw new IllegalStateException("only " + taken.get());
        if (!failed.isEmpty()) throw new IllegalStateException(failed.get(0));
        print("{\"records_s\":%.0f}", taken.get() / since(firstNs.get()));
    }
}
