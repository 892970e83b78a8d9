"""The front page: three scenes, each understood in a few seconds."""
