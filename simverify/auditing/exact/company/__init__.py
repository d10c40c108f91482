"""A request judged among others, in a batch as engines have them."""
