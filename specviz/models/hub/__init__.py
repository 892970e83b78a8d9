"""Where models come from: folders, and names on a model hub with their revisions; what they hold, and the download."""
