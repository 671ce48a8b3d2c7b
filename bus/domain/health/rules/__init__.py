"""The rules of alarms by what they look at; each yields what it finds in the facts."""
