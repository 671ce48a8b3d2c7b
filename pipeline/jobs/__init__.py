"""The jobs: each reads, has transforms work, and writes; ``pipeline.cli`` starts them."""
