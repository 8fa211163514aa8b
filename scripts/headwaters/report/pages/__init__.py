"""The shared parts of the pages of `review` and `report`: texts, numbers, drawings, HTML frame."""
