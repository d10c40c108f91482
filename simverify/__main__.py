"""``python -m simverify``."""

__simverify_role__ = "shared"


from simverify.cli import main

main()
