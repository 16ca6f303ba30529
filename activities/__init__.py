"""The activities of workflows: all their effects on the outside, one module for each noun."""
