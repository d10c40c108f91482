"""What is written for operators, loads and stores, and functions of ``tl``."""
