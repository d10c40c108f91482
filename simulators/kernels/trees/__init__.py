"""Draft trees, compiled: how siblings are drafted, and what each family of rules does with them."""
