"""What is kept of rescored tokens, and how it is judged.

``features`` is what the tests look at, ``evidence`` keeps sums of it, ``judge`` and ``dependence``
test them, ``weights`` bets on rounded weights; ``rounding`` tries another precision, ``allowed``
says what the tests allow for, ``notes`` what is worth a remark.
"""
