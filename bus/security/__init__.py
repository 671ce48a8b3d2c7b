"""Authentication, authorization, egress limits, and signatures for subscribers."""
