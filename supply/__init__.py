"""The parts of the project: its locked packages, their licences, and the list of all."""
