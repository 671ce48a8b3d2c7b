"""Where jobs read: trace events from files or Kafka, messages from the store."""
