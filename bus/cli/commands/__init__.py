"""A module for each command, or group of commands."""
