"""One module for each page, or for pages that belong together."""
