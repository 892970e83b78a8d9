"""How speed is measured: the clock, the machine, rounds and passes to be timed, acceptance on texts."""
