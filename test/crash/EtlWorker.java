import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Consume, transform, produce with Kafka's own client, as test/support/etl-worker.ts does it, but with one transactional id for each
 * instance, which is fenced by its membership of the group (KIP-447). Arguments: address, group protocol, transactional id.
 */
public final class EtlWorker {
    private static final String INPUT = "etl-in";
    private static final String OUTPUT = "etl-out";
    private static final int PARTITIONS = 3;

    private final String address;
    private final String protocol;
    private final String id;
    private int transactions = 0;

    private EtlWorker(String address, String protocol, String id) {
        this.address = address;
        this.protocol = protocol;
        this.id = id;
    }

    public static void main(String[] args) throws InterruptedException {
        EtlWorker worker = new EtlWorker(args[0], args[1], args[2]);
        while (true) {
            try {
                worker.run();
            } catch (RuntimeException error) {
                // Fenced, out of the group, or the broker was away for too long: from the beginning.
                System.err.println(error);
                Thread.sleep(100);
            }
        }
    }

    private void run() {
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(producerSettings(), new StringSerializer(), new StringSerializer());
             KafkaConsumer<String, String> consumer = new KafkaConsumer<>(consumerSettings(), new StringDeserializer(), new StringDeserializer())) {
            producer.initTransactions();
            consumer.subscribe(List.of(INPUT));
            while (true) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) continue;
                if (transactions++ % 5 == 0) transform(producer, consumer, records, false);
                transform(producer, consumer, records, true);
            }
        }
    }

    private static void transform(
            KafkaProducer<String, String> producer, KafkaConsumer<String, String> consumer, ConsumerRecords<String, String> records, boolean commit) {
        producer.beginTransaction();
        String prefix = commit ? "" : "aborted ";
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (ConsumerRecord<String, String> record : records) {
            int partition = record.partition();
            String name = prefix + partition + "-" + record.offset();
            producer.send(new ProducerRecord<>(OUTPUT, partition, null, name + " first"));
            producer.send(new ProducerRecord<>(OUTPUT, (partition + 1) % PARTITIONS, null, name + " second"));
            offsets.put(new TopicPartition(INPUT, partition), new OffsetAndMetadata(record.offset() + 1));
        }
        producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
        if (commit) producer.commitTransaction();
        else producer.abortTransaction();
    }

    private Properties producerSettings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("transactional.id", id);
        settings.put("transaction.timeout.ms", "10000");
        settings.put("max.block.ms", "20000");
        settings.put("reconnect.backoff.max.ms", "200");
        return settings;
    }

    private Properties consumerSettings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", address);
        settings.put("group.id", "etl");
        settings.put("group.protocol", protocol);
        settings.put("isolation.level", "read_committed");
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("max.poll.records", "20");
        settings.put("reconnect.backoff.max.ms", "200");
        if (protocol.equals("classic")) {
            settings.put("session.timeout.ms", "6000");
            settings.put("heartbeat.interval.ms", "500");
        }
        return settings;
    }
}
