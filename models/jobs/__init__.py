"""Bulk jobs: files of targets, looked up row by row."""
