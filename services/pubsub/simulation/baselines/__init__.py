"""Other protocols of dissemination, written from their papers, to compare with and to check the simulator by."""
