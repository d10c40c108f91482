"""Code under audit on real models and on traces."""
