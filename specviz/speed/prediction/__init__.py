"""How fast will it be? Predicted from texts and costs before anything is decoded speculatively, then compared with measurement."""
