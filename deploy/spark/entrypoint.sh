#!/bin/sh
# The first argument is the role: Spark on Kubernetes starts its pods with "driver" and "executor".
set -eu

role="${1:-}"
[ $# -gt 0 ] && shift
case "$role" in
driver)
    exec "$SPARK_HOME/bin/spark-submit" --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
        --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" --deploy-mode client "$@"
    ;;
executor)
    options=$(env | sed -n 's/^SPARK_JAVA_OPT_[0-9]*=//p' | tr '\n' ' ')
    # shellcheck disable=SC2086 # options are words
    exec java $options -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CLASSPATH:-}:$SPARK_HOME/jars/*" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
        --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
master)
    exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.master.Master "$@"
    ;;
worker)
    exec "$SPARK_HOME/bin/spark-class" org.apache.spark.deploy.worker.Worker "$@"
    ;;
job)
    # Python itself, so that it gets SIGTERM; it starts its own Java process with PYSPARK_SUBMIT_ARGS.
    exec python3 -m pipeline "$@"
    ;;
*)
    echo "say driver, executor, job, master or worker, not '$role'" >&2
    exit 64
    ;;
esac
