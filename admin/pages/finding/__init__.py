"""Parts of the page that searches messages."""
