package calc_svc;

import java.lang.reflect.Field;
import java.net.SocketException;
import java.util.List;
import py4j.DefaultGatewayServerListener;
import py4j.GatewayServer;
import py4j.Py4JServerConnection;

/**
 * Has py4j send answers at once. It writes a long answer in parts of 8 KB, and without TCP_NODELAY the second part waits
 * until Python's side has acknowledged the first: 40 ms, unless the connection was idle for a while before.
 *
 * Janino compiles this, as OneTask.
 */
public final class Connections extends DefaultGatewayServerListener {
    /** All connections of the server, those that it has and those that are to come. */
    public void sendAtOnce(GatewayServer server) throws ReflectiveOperationException {
        server.addListener(this);
        Field field = GatewayServer.class.getDeclaredField("connections");
        field.setAccessible(true);
        Object[] there = ((List) field.get(server)).toArray();
        for (int i = 0; i < there.length; i++) {
            connectionStarted((Py4JServerConnection) there[i]);
        }
    }

    public void connectionStarted(Py4JServerConnection connection) {
        try {
            connection.getSocket().setTcpNoDelay(true);
        } catch (SocketException closed) {
            // whoever reads from it or writes to it is told
        }
    }
}
