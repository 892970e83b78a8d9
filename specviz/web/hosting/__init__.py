"""How the app is served: its mode and limits, its queue and workers, and what the server prepares before the first visitor and shares among all."""
