"""What is known of a message: its trace, its trace events, its failures, its partition."""
