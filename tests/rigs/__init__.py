"""Rigs: surroundings in which several tests run the code under test."""
