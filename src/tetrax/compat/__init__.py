"""Stand-ins for other libraries' names."""
