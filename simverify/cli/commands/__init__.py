"""The commands, a module for each group: options, what runs, what is printed."""
