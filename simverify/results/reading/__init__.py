"""Result documents as files: written whole, read, checked."""
