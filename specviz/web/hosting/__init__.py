"""How the app is served: its mode, its limits, and what the server prepares before the first visitor."""
