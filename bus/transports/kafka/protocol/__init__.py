"""What the client library lacks: topics looked at, questions and orders with their errors, ends with a deadline."""
