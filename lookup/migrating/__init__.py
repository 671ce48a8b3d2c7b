"""Topics that move between clusters: the documents, what is seen of clusters, and who takes the steps."""
