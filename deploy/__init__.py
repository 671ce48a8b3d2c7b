"""How the bus is deployed; its Python makes files in here."""
