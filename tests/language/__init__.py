"""Check of the wording of code and docs: forbidden words, class names and openings of modules, counted by folder."""
