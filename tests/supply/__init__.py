"""The supply chain of the product: packages, licences, and known faults."""
