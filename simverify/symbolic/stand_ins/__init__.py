"""What stands in for names and libraries while code is followed."""

__simverify_role__ = "stand-in"
