"""Speed: measured by the clock with contestants in turns, and predicted from acceptance and costs."""
