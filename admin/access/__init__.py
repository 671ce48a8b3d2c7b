"""Sessions, sign-on by a provider, the audit log and saved searches of people."""
