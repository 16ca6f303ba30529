"""Bodies of requests and answers, and how they are read and checked."""
