import java.io.PrintStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;

import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.Deadline;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.IHMSHandler;
import org.apache.hadoop.hive.metastore.ObjectStore;
import org.apache.hadoop.hive.metastore.RetryingHMSHandler;
import org.apache.hadoop.hive.metastore.api.Database;
import org.apache.hadoop.hive.metastore.api.Function;
import org.apache.hadoop.hive.metastore.api.Partition;
import org.apache.hadoop.hive.metastore.api.Table;
import org.apache.hadoop.hive.metastore.api.ThriftHiveMetastore;
import org.apache.thrift.protocol.TBinaryProtocol;
import org.apache.thrift.server.TThreadPoolServer;
import org.apache.thrift.transport.TServerSocket;
import org.datanucleus.ClassLoaderResolver;
import org.datanucleus.StoreNucleusContext;
import org.datanucleus.metadata.FileMetaData;
import org.datanucleus.metadata.MetaDataUtils;
import org.datanucleus.store.schema.SchemaAwareStoreManager;
import org.datanucleus.store.schema.SchemaTool;

/**
 * The metastore's operations that need Hive's own classes. Janino, which is one of pyspark's jars,
 * compiles and runs this file, so that no Java compiler is needed:
 *
 *   init SETTING...           create the tables of an empty metastore
 *   serve PORT SETTING...     serve Thrift on 127.0.0.1; Hive's own main class would listen everywhere
 *   list SETTING...           print the registered objects
 *   copy SETTING... SETTING...  copy all objects into an empty metastore, in one transaction
 *
 * A SETTING is NAME=VALUE; "--" separates the two lists of `copy`. Hadoop replaces ${env.NAME} in
 * values, so that no password is an argument. Lines of results begin with "=", the last one of an
 * error with "!".
 */
public class MetastoreTool {
    static final PrintStream OUT = System.out;

    public static void main(String[] args) throws Exception {
        System.setOut(System.err); // libraries print there
        try {
            Deadline.registerIfNot(86400000L); // Hive reads partitions within one only
            Deadline.startTimer(args[0]);
            List words = new ArrayList(java.util.Arrays.asList(args));
            String command = (String) words.remove(0);
            if (command.equals("init")) {
                init(settings(words));
            } else if (command.equals("serve")) {
                int port = Integer.parseInt((String) words.remove(0));
                serve(settings(words), port);
            } else if (command.equals("list")) {
                print(read(settings(words)));
            } else if (command.equals("copy")) {
                int middle = words.indexOf("--");
                HiveConf from = settings(words.subList(0, middle));
                copy(from, settings(words.subList(middle + 1, words.size())));
            } else {
                throw new IllegalArgumentException(command);
            }
        } catch (Throwable error) {
            error.printStackTrace();
            Throwable cause = error;
            while (cause.getCause() != null) {
                cause = cause.getCause();
            }
            OUT.println("!" + String.valueOf(cause.getMessage()).split("\n")[0]);
            OUT.flush();
            System.exit(1);
        }
        OUT.flush();
        System.exit(0);
    }

    static HiveConf settings(List words) {
        HiveConf conf = new HiveConf();
        for (int i = 0; i < words.size(); i++) {
            String word = (String) words.get(i);
            int equals = word.indexOf('=');
            conf.set(word.substring(0, equals), word.substring(equals + 1));
        }
        return conf;
    }

    static void init(HiveConf conf) throws Exception {
        Map settings = new HashMap();
        String[] names = {"URL", "DriverName", "UserName", "Password"};
        for (int i = 0; i < names.length; i++) {
            String value = conf.get("javax.jdo.option.Connection" + names[i]);
            if (value != null) {
                settings.put("javax.jdo.option.Connection" + names[i], value);
            }
        }
        // Hive names columns by these two at run time. Without them a column is IDX where Hive
        // looks for INTEGER_IDX, and the first `create table` fails.
        settings.put("datanucleus.identifierFactory", "datanucleus1");
        settings.put("datanucleus.rdbms.useLegacyNativeValueStrategy", "true");
        settings.put("datanucleus.schema.autoCreateAll", "true");
        settings.put("datanucleus.autoStartMechanismMode", "ignored");
        StoreNucleusContext context = SchemaTool.getNucleusContextForMode(
            SchemaTool.Mode.CREATE, "JDO", settings, null, null, false);
        ClassLoaderResolver loader = context.getClassLoaderResolver(null);
        context.getMetaDataManager().setValidate(false);
        // a file, because the resource of a jar is not found by its address
        java.io.File model = java.io.File.createTempFile("package", ".jdo");
        java.io.InputStream resource =
            HiveMetaStore.class.getClassLoader().getResourceAsStream("package.jdo");
        java.nio.file.Files.copy(resource, model.toPath(),
            new java.nio.file.CopyOption[] {java.nio.file.StandardCopyOption.REPLACE_EXISTING});
        FileMetaData[] files = MetaDataUtils.getFileMetaDataForInputFiles(
            context.getMetaDataManager(), loader, new String[] {model.getPath()});
        model.delete();
        TreeSet classes = new TreeSet();
        for (int i = 0; i < files.length; i++) {
            for (int j = 0; j < files[i].getNoOfPackages(); j++) {
                org.datanucleus.metadata.PackageMetaData one = files[i].getPackage(j);
                for (int k = 0; k < one.getNoOfClasses(); k++) {
                    classes.add(one.getClass(k).getFullClassName());
                }
            }
        }
        new SchemaTool().createSchemaForClasses(
            (SchemaAwareStoreManager) context.getStoreManager(), classes);
        context.close();
        conf.set("hive.metastore.schema.verification.record.version", "true");
        ObjectStore store = open(conf);
        store.setMetaStoreSchemaVersion("2.3.0", "headwaters");
        close(store, conf);
        OUT.println("=classes\t" + classes.size());
    }

    static void serve(HiveConf conf, int port) throws Exception {
        IHMSHandler inner = new HiveMetaStore.HMSHandler("metastore", conf, false);
        IHMSHandler handler = RetryingHMSHandler.getProxy(conf, inner, false);
        InetAddress loopback = InetAddress.getByAddress(new byte[] {127, 0, 0, 1});
        TServerSocket socket = new TServerSocket(new InetSocketAddress(loopback, port));
        TThreadPoolServer.Args options = new TThreadPoolServer.Args(socket);
        options.processor(new ThriftHiveMetastore.Processor(handler));
        options.protocolFactory(new TBinaryProtocol.Factory());
        options.minWorkerThreads(4);
        options.maxWorkerThreads(200);
        new TThreadPoolServer(options).serve();
    }

    /** All objects of a metastore, in the order in which they can be created. */
    static class Contents {
        List databases = new ArrayList();
        List tables = new ArrayList();
        Map partitions = new HashMap();
        List functions = new ArrayList();
    }

    static ObjectStore open(HiveConf conf) {
        ObjectStore store = new ObjectStore();
        store.setConf(conf);
        return store;
    }

    static void close(ObjectStore store, HiveConf conf) {
        store.shutdown();
        String url = conf.get("javax.jdo.option.ConnectionURL");
        if (url.startsWith("jdbc:derby:")) {
            try {
                java.sql.DriverManager.getConnection(
                    url.replaceAll(";create=true", "") + ";shutdown=true");
            } catch (java.sql.SQLException closed) { // a shutdown is reported as an error
            }
        }
    }

    static Contents read(HiveConf conf) throws Exception {
        ObjectStore store = open(conf);
        try {
            return read(store);
        } finally {
            close(store, conf);
        }
    }

    static Contents read(ObjectStore store) throws Exception {
        Contents contents = new Contents();
        List names = store.getAllDatabases();
        Collections.sort(names);
        for (int i = 0; i < names.size(); i++) {
            String schema = (String) names.get(i);
            contents.databases.add(store.getDatabase(schema));
            List tables = store.getAllTables(schema);
            Collections.sort(tables);
            for (int j = 0; j < tables.size(); j++) {
                Table table = store.getTable(schema, (String) tables.get(j));
                contents.tables.add(table);
                if (table.getPartitionKeysSize() > 0) {
                    List found = new ArrayList(
                        store.getPartitions(schema, table.getTableName(), -1));
                    Collections.sort(found);
                    contents.partitions.put(schema + "." + table.getTableName(), found);
                }
            }
        }
        contents.functions = new ArrayList(store.getAllFunctions());
        Collections.sort(contents.functions);
        return contents;
    }

    static void print(Contents contents) {
        for (int i = 0; i < contents.databases.size(); i++) {
            Database one = (Database) contents.databases.get(i);
            OUT.println("=schema\t" + one.getName() + "\t\t" + one.getLocationUri());
        }
        for (int i = 0; i < contents.tables.size(); i++) {
            Table one = (Table) contents.tables.get(i);
            boolean view = one.getTableType().equals("VIRTUAL_VIEW");
            OUT.println("=" + (view ? "view" : "table") + "\t" + one.getDbName() + "\t"
                + one.getTableName() + "\t" + (view ? "" : one.getSd().getLocation()));
            List parts = (List) contents.partitions.get(one.getDbName() + "." + one.getTableName());
            for (int j = 0; parts != null && j < parts.size(); j++) {
                OUT.println("=partition\t" + one.getDbName() + "\t" + one.getTableName() + "\t"
                    + ((Partition) parts.get(j)).getSd().getLocation());
            }
        }
        for (int i = 0; i < contents.functions.size(); i++) {
            Function one = (Function) contents.functions.get(i);
            OUT.println("=function\t" + one.getDbName() + "\t" + one.getFunctionName() + "\t");
        }
    }

    static void copy(HiveConf from, HiveConf to) throws Exception {
        Contents contents = read(from);
        ObjectStore store = open(to);
        store.openTransaction();
        boolean done = false;
        try {
            if (store.getAllDatabases().contains("default")) {
                store.dropDatabase("default"); // a Spark or a service registered it at its start
            }
            if (store.getAllDatabases().size() > 0) {
                throw new IllegalStateException("the target is not empty");
            }
            for (int i = 0; i < contents.databases.size(); i++) {
                store.createDatabase((Database) contents.databases.get(i));
            }
            for (int i = 0; i < contents.tables.size(); i++) {
                Table one = (Table) contents.tables.get(i);
                store.createTable(one);
                List parts = (List) contents.partitions.get(one.getDbName() + "." + one.getTableName());
                if (parts != null && parts.size() > 0) {
                    store.addPartitions(one.getDbName(), one.getTableName(), parts);
                }
            }
            for (int i = 0; i < contents.functions.size(); i++) {
                store.createFunction((Function) contents.functions.get(i));
            }
            compare(contents, read(store));
            done = store.commitTransaction();
        } finally {
            if (!done) {
                store.rollbackTransaction();
            }
            close(store, to);
        }
        if (!done) {
            throw new IllegalStateException("the transaction was not committed");
        }
        print(contents);
    }

    static void compare(Contents one, Contents other) {
        Object[] ours = {one.databases, one.tables, one.partitions, one.functions};
        Object[] theirs = {other.databases, other.tables, other.partitions, other.functions};
        for (int i = 0; i < ours.length; i++) {
            if (!ours[i].equals(theirs[i])) {
                throw new IllegalStateException("the copy differs: " + ours[i] + " / " + theirs[i]);
            }
        }
    }
}
