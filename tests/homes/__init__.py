"""Homes as releases have left them, one archive for each, and the program that makes one."""
