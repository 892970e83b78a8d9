"""How the app is served: its mode and limits, and what the server settles before the first visitor."""
