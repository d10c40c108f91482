"""Upper bounds on the distance that a healthy run can sign."""
