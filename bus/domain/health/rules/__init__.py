"""The rules of alarms by their subject; each yields the alarms that it finds in the facts."""
