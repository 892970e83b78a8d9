"""What the server decides about jobs: its queue, its workers, when libraries and models are loaded, and what all visitors share."""
