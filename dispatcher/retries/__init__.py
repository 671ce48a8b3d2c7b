"""Next attempts of deliveries that failed."""
