"""How receivers are spoken with, whoever has something for them: one, those that it names, when to try again."""
