"""All paths of a piece of code: run again and again, weighed, summed up to a law."""
