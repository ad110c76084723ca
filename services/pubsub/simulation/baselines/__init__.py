"""Other protocols of dissemination, written from their papers, for comparison and to validate the simulator."""
