"""Public bug reports, each turned into tests for its whole kind."""
