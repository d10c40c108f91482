"""What ends or contains code that does not end or behave by itself."""
