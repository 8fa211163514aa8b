"""What the pages of `review` and `report` share: texts, numbers, drawings, one HTML frame."""
