"""``python -m simverify``."""

from simverify.cli import main

main()
