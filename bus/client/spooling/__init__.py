"""What a producer has on its disk: directories, their lanes, lines that are records, leases; and who writes it."""
