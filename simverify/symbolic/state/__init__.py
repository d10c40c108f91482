"""What code keeps from one call to the next, and how it is compared."""
