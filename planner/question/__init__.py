"""What is asked, read at one door or the other: texts and values become one typed question."""
