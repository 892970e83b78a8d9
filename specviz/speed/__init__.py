"""Speed, measured by the clock and predicted from acceptance and costs."""
