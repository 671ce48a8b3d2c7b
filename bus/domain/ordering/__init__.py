"""Which messages are delivered one after another, as rules over events that a simulation can give as well."""
