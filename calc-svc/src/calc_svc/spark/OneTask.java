package calc_svc;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.spark.Partition;
import org.apache.spark.SparkEnv;
import org.apache.spark.SparkEnv$;
import org.apache.spark.TaskContext$;
import org.apache.spark.TaskContextImpl;
import org.apache.spark.executor.TaskMetrics;
import org.apache.spark.memory.TaskMemoryManager;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.api.python.PythonSQLUtils;
import org.apache.spark.sql.execution.CoalesceExec;
import org.apache.spark.sql.execution.SparkPlan;
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A planned query as one task that runs in the thread that asks for it. Spark's own tasks do the same steps
 * (org.apache.spark.scheduler.Task.run); what is left out is to make a job, to ship it, and to fetch what it gives.
 *
 * Janino compiles this (calc_svc/spark/jvm.py), the compiler that Spark has for its own code: no lambdas, no
 * inferred types, and type arguments are not checked.
 */
public final class OneTask {
    private static final byte[] NOTHING = new byte[0];
    /** Numbers of tasks, far from those that Spark gives: each owns memory under its number. */
    private static final AtomicLong NUMBERS = new AtomicLong(1L << 60);

    /** What runs, by name. */
    private static final ConcurrentHashMap RUNNING = new ConcurrentHashMap();

    /** A task that runs, and its thread: interrupted when it is to end, and not after it has. */
    private static final class Running {
        private final Thread thread = Thread.currentThread();
        private final TaskContextImpl context;
        private boolean over;

        Running(TaskContextImpl context) {
            this.context = context;
        }

        synchronized void cancel() {
            if (!over) {
                context.markInterrupted("it is to end");
                thread.interrupt();
            }
        }

        synchronized void end() {
            over = true;
            Thread.interrupted();
        }
    }

    private final RDD rdd;
    private final Properties properties;
    private final byte[][][] cells;

    /** For {@link #of} and {@link #inOnePartition} alone. */
    public OneTask() {
        this(null, null, new byte[0][][]);
    }

    private OneTask(RDD rdd, Properties properties, byte[][][] cells) {
        this.rdd = rdd;
        this.properties = properties;
        this.cells = cells;
    }

    /** rdd: gives byte arrays; properties: what tasks read of settings; cells: byte[][] of one element, the relations. */
    public OneTask of(RDD rdd, Properties properties, List cells) {
        return new OneTask(rdd, properties, (byte[][][]) cells.toArray(new byte[cells.size()][][]));
    }

    /** The plan without exchanges. All of its relations have one partition, so that they move nothing. */
    public SparkPlan inOnePartition(SparkPlan plan) {
        if (plan instanceof ShuffleExchangeExec) {
            if (plan.outputPartitioning().numPartitions() != 1) {
                throw new IllegalStateException("an exchange into several partitions");
            }
            return new CoalesceExec(1, inOnePartition(((ShuffleExchangeExec) plan).child()));
        }
        List children = CollectionConverters.asJava(plan.children());
        List found = new ArrayList();
        boolean same = true;
        for (int i = 0; i < children.size(); i++) {
            SparkPlan child = inOnePartition((SparkPlan) children.get(i));
            same = same && child == children.get(i);
            found.add(child);
        }
        return same ? plan : (SparkPlan) plan.withNewChildren(CollectionConverters.asScala(found).toSeq());
    }

    /**
     * What the query gives over these relations. Both are byte arrays one after the other, each behind its length;
     * one that is to be read from a file is the file's name in UTF-8, behind its length as a negative number.
     * name: by which it can be cancelled; most: bytes of the result.
     */
    public byte[] run(byte[] relations, String name, long most) throws Throwable {
        try {
            fill(ByteBuffer.wrap(relations));
            return computed(name, most);
        } finally {
            for (int i = 0; i < cells.length; i++) {
                cells[i][0] = NOTHING;
            }
        }
    }

    private void fill(ByteBuffer relations) {
        for (int i = 0; i < cells.length; i++) {
            int length = relations.getInt();
            byte[] bytes = new byte[Math.abs(length)];
            relations.get(bytes);
            if (length < 0) {
                String file = new String(bytes, StandardCharsets.UTF_8);
                bytes = (byte[]) PythonSQLUtils.readArrowStreamFromFile(file).next();
            }
            cells[i][0] = bytes;
        }
    }

    /** Have what runs under this name end as soon as it looks. */
    public void cancel(String name) {
        Running running = (Running) RUNNING.get(name);
        if (running != null) {
            running.cancel();
        }
    }

    private byte[] computed(String name, long most) throws Throwable {
        ByteArrayOutputStream found = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(found);
        Partition[] partitions = rdd.partitions();
        for (int i = 0; i < partitions.length; i++) {
            compute(partitions, i, out, name, most);
        }
        return found.toByteArray();
    }

    private void compute(Partition[] partitions, int place, DataOutputStream out, String name, long most) throws Throwable {
        SparkEnv env = SparkEnv$.MODULE$.get();
        long number = NUMBERS.getAndIncrement();
        TaskMemoryManager memory = new TaskMemoryManager(env.memoryManager(), number);
        TaskContextImpl context = new TaskContextImpl(
            0, 0, place, number, 0, partitions.length, memory, properties, env.metricsSystem(), new TaskMetrics(), 1,
            (scala.collection.immutable.Map) scala.collection.immutable.Map$.MODULE$.empty());
        Throwable failure = null;
        TaskContext$.MODULE$.setTaskContext(context);
        Running running = new Running(context);
        RUNNING.put(name, running);
        try {
            scala.collection.Iterator rows = rdd.iterator(partitions[place], context);
            while (rows.hasNext()) {
                byte[] bytes = (byte[]) rows.next();
                if (out.size() + (long) bytes.length > most) {
                    throw new IllegalStateException("the result has too many bytes");
                }
                context.killTaskIfInterrupted();
                out.writeInt(bytes.length);
                out.write(bytes);
            }
        } catch (Throwable error) {
            failure = error;
            context.markTaskFailed(error);
            throw error;
        } finally {
            RUNNING.remove(name);
            running.end();
            try {
                context.markTaskCompleted(Option.apply(failure));
            } finally {
                memory.cleanUpAllAllocatedMemory();
                TaskContext$.MODULE$.unset();
            }
        }
    }
}
