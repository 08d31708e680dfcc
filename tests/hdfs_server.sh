#!/usr/bin/env bash
# A real HDFS (NameNode and DataNode 2.7.3) on loopback, for tests/python/test_stores_hdfs.py: the jars inside
# pyspark 2.4.8's source archive are complete. Needs Java (tried with 17), downloads about 220 MB once.
#   tests/hdfs_server.sh FOLDER   starts it, or does nothing when it runs; prints what to export and how to stop it
set -euo pipefail
mkdir -p "$1"; cd "$1"
if [ ! -d pyspark-2.4.8 ]; then
  printf 'setuptools<60\npypandoc<1.8\n' > constraints.txt                       # its old setup.py needs both
  PIP_CONSTRAINT=$PWD/constraints.txt python3 -m pip download -q --no-deps pyspark==2.4.8 -d .
  tar xzf pyspark-2.4.8.tar.gz pyspark-2.4.8/deps/jars
fi
mkdir -p conf resources/webapps/{hdfs,datanode,static} data                      # the HTTP server wants these folders on its class path
cat > conf/core-site.xml <<X
<configuration><property><name>fs.defaultFS</name><value>hdfs://127.0.0.1:19000</value></property>
<property><name>ipc.client.connect.max.retries</name><value>1</value></property>
<property><name>hadoop.tmp.dir</name><value>$PWD/data</value></property></configuration>
X
cat > conf/hdfs-site.xml <<X
<configuration><property><name>dfs.replication</name><value>1</value></property><property><name>dfs.blocksize</name><value>1048576</value></property><property><name>dfs.webhdfs.enabled</name><value>false</value></property>
<property><name>dfs.namenode.http-address</name><value>127.0.0.1:19870</value></property><property><name>dfs.datanode.address</name><value>127.0.0.1:19866</value></property>
<property><name>dfs.datanode.http.address</name><value>127.0.0.1:19864</value></property><property><name>dfs.datanode.ipc.address</name><value>127.0.0.1:19867</value></property></configuration>
X
printf 'log4j.rootLogger=ERROR,A\nlog4j.appender.A=org.apache.log4j.ConsoleAppender\nlog4j.appender.A.target=System.err\nlog4j.appender.A.layout=org.apache.log4j.PatternLayout\nlog4j.appender.A.layout.ConversionPattern=%%p %%m%%n\n' > conf/log4j.properties
jars=$(find "$PWD/pyspark-2.4.8/deps/jars" -name '*.jar' | grep -vE '/(jersey|mesos|parquet|spark-|hive)[^/]*$' | sort | tr '\n' ':')
opens=""; for m in java.base/java.lang java.base/java.util java.base/java.net java.base/java.nio java.base/sun.nio.ch java.security.jgss/sun.security.krb5; do opens="$opens --add-opens=$m=ALL-UNNAMED"; done
cat > hadoop <<X
#!/usr/bin/env bash
# 'hadoop fs -put ...' as the real client does it
case "\$1" in
  fs) shift; set -- org.apache.hadoop.fs.FsShell "\$@" ;;
  dfsadmin) shift; set -- org.apache.hadoop.hdfs.tools.DFSAdmin "\$@" ;;
esac
exec java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto $opens -cp "$PWD/conf:$PWD/resources:$jars" "\$@"
X
chmod +x hadoop
p=org.apache.hadoop.hdfs.server
running() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
[ -d data/dfs/name ] || ./hadoop $p.namenode.NameNode -format -force >/dev/null 2>&1
for server in namenode.NameNode:19000 datanode.DataNode:19866; do
  name=${server%%.*}; port=${server##*:}
  running "$port" && continue
  setsid ./hadoop "$p.${server%%:*}" > "$name.log" 2>&1 & echo $! > "$name.pid"
  for _ in $(seq 120); do running "$port" && break; sleep .5; done
  running "$port" || { echo "hdfs_server: $name did not start, see $PWD/$name.log" >&2; exit 1; }
done
printf 'export DIMRED_HADOOP=%s/hadoop DIMRED_HDFS=hdfs://127.0.0.1:19000\n# stop: kill $(cat %s/*.pid)\n' "$PWD" "$PWD"
