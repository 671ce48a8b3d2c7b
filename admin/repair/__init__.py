"""Sending again: one message, a changed one, or many as a job."""
