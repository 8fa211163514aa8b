"""What a pull request does to the data: the same inputs under two texts, and the difference."""
