"""Load generators: programs that write to groups or to the log, in a process of their own or in the simulator."""
