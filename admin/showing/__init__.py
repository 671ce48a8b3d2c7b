"""What people see of messages and of the bus, as far as they may."""
