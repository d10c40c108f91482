"""What the code under audit is put on: small instances in fractions, by purpose."""
