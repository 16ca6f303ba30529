"""What the project is made of: its locked packages, their licences, and the list of all parts."""
