"""Heavy work for all pages: the queue, where it is done, models loaded once, and answers that visitors share."""
