"""Sources of jobs: trace events from files or Kafka, messages from the store."""
