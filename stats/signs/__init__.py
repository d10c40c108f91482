"""Two sources asked alike, in pairs: under the null each pair may be swapped, and nothing more.

The only chance is that of the swaps, so that all sizes hold whatever was answered. ``directions``
sums what was fixed beforehand, ``chaos`` lets pairs agree with those before, ``quadratic`` sums
squares, ``swaps`` draws the permutations, ``discordant`` counts who alone has something.
"""
