package calc_svc;

import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryUsage;
import java.util.Arrays;
import java.util.Iterator;

/**
 * What the JVM tells of its garbage collections. The beans' own classes are not open to py4j; and one call takes
 * less of a JVM that is short of everything than one for each number.
 *
 * Janino compiles this, as OneTask: type arguments are not checked.
 */
public final class Collections {
    /** Milliseconds of all collections, how many were full, bytes that the last of these left, and may be used. */
    public String told() {
        long millis = 0, full = 0, left = 0, most = 1;
        Iterator pools = ManagementFactory.getMemoryPoolMXBeans().iterator();
        String old = "";
        while (pools.hasNext()) {
            MemoryPoolMXBean pool = (MemoryPoolMXBean) pools.next();
            if (pool.getName().endsWith("Old Gen") || pool.getName().equals("Tenured Gen")) {
                MemoryUsage usage = pool.getCollectionUsage();
                old = pool.getName();
                left = usage.getUsed();
                most = usage.getMax();
            }
        }
        Iterator beans = ManagementFactory.getGarbageCollectorMXBeans().iterator();
        while (beans.hasNext()) {
            GarbageCollectorMXBean bean = (GarbageCollectorMXBean) beans.next();
            millis += bean.getCollectionTime();
            if (Arrays.asList((Object[]) bean.getMemoryPoolNames()).contains(old)) {
                full += bean.getCollectionCount();
            }
        }
        return millis + " " + full + " " + left + " " + most;
    }
}
