"""The fair queue, tasks and the workers that run them: processes of this machine, or of a Ray cluster. Ray is imported only here."""
